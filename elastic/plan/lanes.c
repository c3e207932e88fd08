/*
 * Problem: when lanes do not divide evenly, some replicas carry one more. The choice of these
 * replicas determines the number of partial sums to send.
 *
 * Design: dynamic programming over (replica, larger replicas used so far): the number used
 * determines the start of the next replica, so the state is complete and the answer exact.
 */
#include "elastic/plan/lanes.h"

#include <errno.h>
#include <limits.h>
#include <math.h>

#include "elastic/job/job_spec.h"

#define BISECTIONS 48 /* of a time: the relative error is 2^-48, far below one lane */

/* Count the maximal subtrees of [first, end), which is not empty and ends before the tree does: its
 * nodes there are the aligned powers of two. */
static unsigned aligned_subtrees(unsigned first, unsigned end)
{
    unsigned high = 31 - (unsigned)__builtin_clz(first ^ end), middle = end >> high << high;
    return (unsigned)__builtin_popcount(middle - first) +
           (unsigned)__builtin_popcount(end - middle);
}

unsigned lanes_subtrees(unsigned lanes, unsigned first, unsigned end)
{
    if (first >= end)
        return 0;
    if (end < lanes)
        return aligned_subtrees(first, end);
    unsigned node = 0; /* a node that ends with the tree and has @first */
    while (first > node) {
        unsigned left = 1u << (31 - __builtin_clz(lanes - node - 1)); /* the largest power below */
        if (first < node + left)
            return (unsigned)__builtin_popcount(node + left - first) + 1;
        node += left;
    }
    return 1;
}

unsigned lanes_buffers(unsigned first, unsigned end, bool gets_head, bool gives_head)
{
    unsigned begin = first + gets_head, most = 0;
    for (unsigned lane = begin; lane < end; lane++)
        most = MAX(most, lane == begin ? 1 : aligned_subtrees(begin, lane) + 1);
    return MAX(1u, most + gets_head + gives_head);
}

/* cost[replica][larger]: least subtrees of replicas from `replica` on, `larger` used before it. */
struct split {
    unsigned lanes, replicas, size, larger_count;
    unsigned *cost;
};

static unsigned *cost_of(const struct split *split, unsigned replica, unsigned larger)
{
    return &split->cost[(size_t)replica * (split->larger_count + 1) + larger];
}

/* Return the cost when @replica carries `size` lanes, or one more; UINT_MAX if the number of larger
 * replicas cannot be met. */
static unsigned choose(const struct split *split, unsigned replica, unsigned larger, unsigned more)
{
    if (larger + more > split->larger_count)
        return UINT_MAX;
    unsigned rest = *cost_of(split, replica + 1, larger + more);
    if (rest == UINT_MAX)
        return UINT_MAX;
    unsigned first = replica * split->size + larger;
    return rest + lanes_subtrees(split->lanes, first, first + split->size + more);
}

int lanes_split(unsigned lanes, unsigned replicas, unsigned *ret_first)
{
    assert(replicas > 0 && replicas <= lanes && replicas <= JOB_LANES_MAX);
    struct split split = {lanes, replicas, lanes / replicas, lanes % replicas, NULL};
    split.cost = calloc((size_t)(replicas + 1) * (split.larger_count + 1), sizeof(*split.cost));
    if (!split.cost)
        return -ENOMEM;
    for (unsigned larger = 0; larger < split.larger_count; larger++)
        *cost_of(&split, replicas, larger) = UINT_MAX;
    for (unsigned replica = replicas; replica-- > 0;)
        for (unsigned larger = 0; larger <= split.larger_count; larger++)
            *cost_of(&split, replica, larger) =
                MIN(choose(&split, replica, larger, 1), choose(&split, replica, larger, 0));

    unsigned larger = 0;
    for (unsigned replica = 0; replica < replicas; replica++) {
        ret_first[replica] = replica * split.size + larger;
        if (choose(&split, replica, larger, 1) == *cost_of(&split, replica, larger))
            larger++;
    }
    ret_first[replicas] = lanes;
    free(split.cost);
    return 0;
}

/* Return the lanes that a replica finishes by @time, at least one. */
static unsigned lanes_within(double time, double speed, double fill, unsigned lanes)
{
    double count = floor(time * speed - fill);
    return count < 1 ? 1 : count > lanes ? lanes : (unsigned)count;
}

/* Find the end of each run of replicas of one speed, because a thousand slots are of few kinds.
 * Return: the number of runs. */
static unsigned find_runs(const double *speeds, unsigned replicas, unsigned *ret_ends)
{
    unsigned count = 0;
    for (unsigned replica = 1; replica <= replicas; replica++)
        if (replica == replicas || speeds[replica] < speeds[replica - 1] ||
            speeds[replica] > speeds[replica - 1])
            ret_ends[count++] = replica;
    return count;
}

static unsigned all_within(double time, const double *speeds, const unsigned *ends,
                           unsigned run_count, double fill, unsigned lanes)
{
    unsigned sum = 0, begin = 0;
    for (unsigned run = 0; run < run_count; begin = ends[run++])
        sum += (ends[run] - begin) * lanes_within(time, speeds[begin], fill, lanes);
    return sum;
}

/*
 * Reduce the shares by @surplus lanes in total. Each lane is taken from the slowest replica, the
 * last of equals first. The replicas of a run start with equal shares, so the turn within a run
 * goes from its end to its beginning and wraps around.
 */
static void take_back(unsigned *counts, const double *speeds, const unsigned *ends,
                      unsigned run_count, double fill, unsigned surplus)
{
    unsigned turns[JOB_LANES_MAX];
    for (unsigned run = 0; run < run_count; run++)
        turns[run] = ends[run] - 1;
    while (surplus-- > 0) {
        unsigned longest = run_count;
        for (unsigned run = run_count; run-- > 0;)
            if (counts[turns[run]] > 1 &&
                (longest == run_count ||
                 (counts[turns[run]] + fill) / speeds[turns[run]] >
                     (counts[turns[longest]] + fill) / speeds[turns[longest]]))
                longest = run;
        assert(longest < run_count); /* the shares sum to more lanes than replicas */
        counts[turns[longest]]--;
        bool first = turns[longest] == (longest > 0 ? ends[longest - 1] : 0);
        turns[longest] = first ? ends[longest] - 1 : turns[longest] - 1;
    }
}

double lanes_split_unlike(unsigned lanes, const double *speeds, unsigned replicas, double fill,
                          unsigned *ret_first)
{
    assert(replicas > 0 && replicas <= lanes && replicas <= JOB_LANES_MAX);
    double low = 0, high = INFINITY, longest = 0;
    for (unsigned replica = 0; replica < replicas; replica++)
        high = fmin(high, (lanes + fill) / speeds[replica]);
    high *= 1 + 1e-9; /* so that one replica could take all lanes despite rounding */
    unsigned ends[JOB_LANES_MAX], run_count = find_runs(speeds, replicas, ends);
    for (unsigned i = 0; i < BISECTIONS; i++) {
        double middle = (low + high) / 2;
        if (all_within(middle, speeds, ends, run_count, fill, lanes) >= lanes)
            high = middle;
        else
            low = middle;
    }
    unsigned *counts = ret_first + 1;
    for (unsigned replica = 0; replica < replicas; replica++)
        counts[replica] = lanes_within(high, speeds[replica], fill, lanes);
    take_back(counts, speeds, ends, run_count, fill,
              all_within(high, speeds, ends, run_count, fill, lanes) - lanes);
    ret_first[0] = 0;
    for (unsigned replica = 0; replica < replicas; replica++) {
        longest = fmax(longest, (counts[replica] + fill) / speeds[replica]);
        ret_first[replica + 1] = ret_first[replica] + counts[replica];
    }
    return longest;
}

bool lanes_share(unsigned lanes, unsigned micro_batches, const double *speeds, unsigned replicas,
                 double fill, unsigned *ret_first, unsigned *ret_heads)
{
    assert(replicas > 0 && replicas <= lanes && replicas <= JOB_LANES_MAX);
    uint64_t total = (uint64_t)lanes * micro_batches, before = 0;
    double all_speeds = 0, passed = 0, fill_batches = fill * micro_batches;
    for (unsigned replica = 0; speeds && replica < replicas; replica++)
        all_speeds += speeds[replica];
    double time = speeds ? ((double)total + fill_batches * replicas) / all_speeds : 0;
    for (unsigned replica = 0; speeds && replica < replicas; replica++)
        if (speeds[replica] * time - fill_batches <
            micro_batches) /* not by rounding: in any order */
            return false;
    for (unsigned replica = 0; replica <= replicas; replica++) {
        uint64_t begin = total * replica / replicas;
        if (speeds && replica < replicas) {
            begin = (uint64_t)llround(fmax(0, passed * time - fill_batches * replica));
            passed += speeds[replica];
        }
        if (replica > 0 && begin < before + micro_batches)
            return false;
        ret_first[replica] = (unsigned)(begin / micro_batches);
        ret_heads[replica] = (unsigned)(begin % micro_batches);
        before = begin;
    }
    return true;
}
