/*
 * Problem: a step waits for its slowest worker, and times are noisy: one slow step, a slow start or
 * a cluster that is slow as a whole must not cost a worker its place.
 *
 * Design: times are summed over windows of `steps` steps, each worker's own time beside the time
 * that its work should have taken (its reference). At the end of a window a worker's slowness is
 * the quotient of the two sums. The step that exceeded its reference most is left out, so one slow
 * step never counts. A window's quotient is an average, because a throttled process is stopped in
 * some steps and not in others.
 *
 * References. Replicas of a stage do the same work, so a worker's reference is the lower median of
 * its stage's other workers, in the same step. A slowdown of all replicas slows the reference too,
 * and a minority of slow workers does not hide itself. If a stage has one replica, no other worker
 * does the same work. The planner's expectation is no reference: it knows proportions of
 * arithmetic, whose error exceeds the delay of a straggler. The reference is then the worker's own
 * best window in this generation, times the growth of the other workers (the lower median) against
 * their best windows. A worker that alone becomes slower is found; a worker that was slow from the
 * beginning is not. The only worker of a job has no peer to compare with.
 *
 * Hysteresis: a judgement begins at `factor` and stands until a window is below its square root.
 * The plan that follows from the judgement knows the speed; from then on only a difference from
 * that speed by the factor makes a judgement. A slot that is known as slow counts as fast again
 * below the square root.
 *
 * Invariant: the first step after the beginning counts for nothing (caches, pages and connections
 * are new).
 */
#include "elastic/plan/straggler.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct judged {
    double known; /* speed in the plan in force */
    double best;  /* seconds of a lane in its best window so far; 0: none. One replica only */
    double own, reference, worst; /* sums of this window, and the largest excess of a step */
    bool stands;                  /* a judgement of an earlier window */
    double speed;                 /* of that judgement */
};

struct straggler {
    unsigned stage_count, replica_count, worker_count;
    double factor;
    unsigned steps;
    double *lanes;        /* of each replica */
    struct judged *ranks; /* worker_count */
    double *seconds;      /* of a lane, of each rank, in this step */
    double *sorted;       /* scratch: worker_count */
    bool begun;
    unsigned steps_seen; /* in this window */
};

void straggler_slowest(const struct plan_layout *layout, const uint64_t *busy_ns,
                       struct straggler_stage *ret_stages)
{
    assert(layout->stage_count > 0);
    for (unsigned stage = 0; stage < layout->stage_count; stage++)
        ret_stages[stage] = (struct straggler_stage){.rank = stage};
    for (unsigned rank = 0; rank < layout->worker_count; rank++) {
        struct straggler_stage *slowest = &ret_stages[rank % layout->stage_count];
        double lanes = plan_layout_lanes_computed(layout, rank / layout->stage_count);
        uint64_t lane_ns = (uint64_t)((double)busy_ns[rank] / lanes);
        if (lane_ns == 0)
            continue;
        if (slowest->lane_ns == 0 || lane_ns < slowest->fastest_ns)
            slowest->fastest_ns = lane_ns;
        if (lane_ns > slowest->lane_ns) {
            slowest->rank = rank;
            slowest->lane_ns = lane_ns;
        }
    }
}

static void take_known(struct straggler *straggler, const struct plan *plan)
{
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++)
        straggler->ranks[rank].known = 1;
    for (unsigned i = 0; i < plan->slow_count; i++) {
        int rank = plan_layout_find(&plan->layout, plan->slow[i].node, plan->slow[i].slot);
        if (rank >= 0 && (unsigned)rank < plan->layout.worker_count)
            straggler->ranks[rank].known = plan->slow[i].speed;
    }
}

int straggler_new(const struct plan *plan, double factor, unsigned steps,
                  struct straggler **ret_straggler)
{
    assert(factor > 1 && steps >= 2 && plan->layout.worker_count > 0);
    struct straggler *straggler = calloc(1, sizeof(*straggler));
    if (!straggler)
        return -ENOMEM;
    straggler->stage_count = plan->layout.stage_count;
    straggler->replica_count = plan->layout.replica_count;
    straggler->worker_count = plan->layout.worker_count;
    straggler->factor = factor;
    straggler->steps = steps;
    straggler->lanes = calloc(plan->layout.replica_count, sizeof(*straggler->lanes));
    straggler->ranks = calloc(plan->layout.worker_count, sizeof(*straggler->ranks));
    straggler->seconds = calloc(plan->layout.worker_count, sizeof(*straggler->seconds));
    straggler->sorted = calloc(plan->layout.worker_count, sizeof(*straggler->sorted));
    if (!straggler->lanes || !straggler->ranks || !straggler->seconds || !straggler->sorted) {
        straggler_free(straggler);
        return -ENOMEM;
    }
    for (unsigned replica = 0; replica < plan->layout.replica_count; replica++)
        straggler->lanes[replica] = plan_layout_lanes_computed(&plan->layout, replica);
    take_known(straggler, plan);
    *ret_straggler = straggler;
    return 0;
}

void straggler_free(struct straggler *straggler)
{
    if (!straggler)
        return;
    free(straggler->lanes);
    free(straggler->ranks);
    free(straggler->seconds);
    free(straggler->sorted);
    free(straggler);
}

static int compare_numbers(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Return the lower median of @count sorted numbers without one that equals @own, which is among
 * them. */
static double median_of_others(const double *sorted, unsigned count, double own)
{
    unsigned middle = (count - 2) / 2;
    return own <= sorted[middle] ? sorted[middle + 1] : sorted[middle];
}

static void add_step(struct judged *judged, double own, double reference)
{
    judged->own += own;
    judged->reference += reference;
    judged->worst = fmax(judged->worst, own - reference);
}

static void compare_replicas(struct straggler *straggler, unsigned stage)
{
    unsigned stages = straggler->stage_count, replicas = straggler->replica_count;
    for (unsigned replica = 0; replica < replicas; replica++)
        straggler->sorted[replica] = straggler->seconds[replica * stages + stage];
    qsort(straggler->sorted, replicas, sizeof(double), compare_numbers);
    for (unsigned rank = stage; rank < straggler->worker_count; rank += stages) {
        double own = straggler->seconds[rank];
        add_step(&straggler->ranks[rank], own, median_of_others(straggler->sorted, replicas, own));
    }
}

static double growth(const struct straggler *straggler, unsigned rank)
{
    return straggler->seconds[rank] / straggler->ranks[rank].best;
}

static void compare_with_past(struct straggler *straggler)
{
    unsigned count = straggler->worker_count;
    bool first = straggler->ranks[0].best <= 0;
    for (unsigned rank = 0; rank < count && !first; rank++)
        straggler->sorted[rank] = growth(straggler, rank);
    if (!first)
        qsort(straggler->sorted, count, sizeof(double), compare_numbers);
    for (unsigned rank = 0; rank < count; rank++) {
        double common =
            first ? 1 : median_of_others(straggler->sorted, count, growth(straggler, rank));
        add_step(&straggler->ranks[rank], straggler->seconds[rank],
                 straggler->ranks[rank].best * fmax(common, 1));
    }
}

static void judge(const struct straggler *straggler, struct judged *judged)
{
    double slowness = (judged->own - judged->worst) / judged->reference;
    double below = sqrt(straggler->factor), against_known = slowness * judged->known;
    if (judged->stands) {
        judged->stands = judged->speed < 1 ? against_known >= below : slowness <= below;
        return;
    }
    bool slower = against_known >= straggler->factor;
    bool well_again = judged->known < 1 && slowness <= below;
    judged->stands = slower || well_again;
    judged->speed = slower ? 1 / slowness : 1;
}

static void end_window(struct straggler *straggler)
{
    for (unsigned rank = 0; rank < straggler->worker_count; rank++) {
        struct judged *judged = &straggler->ranks[rank];
        if (judged->reference > 0)
            judge(straggler, judged);
        double mean = judged->own / straggler->steps;
        judged->best = judged->best > 0 ? fmin(judged->best, mean) : mean;
        judged->own = judged->reference = judged->worst = 0;
    }
    straggler->steps_seen = 0;
}

void straggler_step(struct straggler *straggler, const uint64_t *busy_ns)
{
    for (unsigned rank = 0; rank < straggler->worker_count; rank++) {
        if (busy_ns[rank] == 0)
            return;
        straggler->seconds[rank] =
            (double)busy_ns[rank] / 1e9 / straggler->lanes[rank / straggler->stage_count];
    }
    if (!straggler->begun || straggler->worker_count < 2) {
        straggler->begun = true;
        return;
    }
    for (unsigned stage = 0; straggler->replica_count > 1 && stage < straggler->stage_count;
         stage++)
        compare_replicas(straggler, stage);
    if (straggler->replica_count == 1)
        compare_with_past(straggler);
    if (++straggler->steps_seen == straggler->steps)
        end_window(straggler);
}

unsigned straggler_judgements(const struct straggler *straggler,
                              struct straggler_judgement ret_judgements[STRAGGLER_JUDGEMENTS_MAX])
{
    unsigned count = 0;
    for (unsigned rank = 0; rank < straggler->worker_count && count < STRAGGLER_JUDGEMENTS_MAX;
         rank++)
        if (straggler->ranks[rank].stands)
            ret_judgements[count++] =
                (struct straggler_judgement){rank, straggler->ranks[rank].speed};
    return count;
}
