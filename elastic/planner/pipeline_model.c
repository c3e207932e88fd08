/*
 * Problem: the planner simulates hundreds of pipelines of up to a hundred thousand operations each,
 * and has milliseconds for all of them.
 *
 * Design: an operation begins when its stage is free and its input has arrived. The schedule
 * (elastic/plan/pipeline_schedule.h) makes the trained stages a systolic array. Number the trained
 * stages from the last one, which is a = 0. The operations of stage a get these ticks:
 *
 *     forward of micro-batch m     2m - a - 1
 *     backward of micro-batch m    2m + a
 *
 * At every tick a stage runs one operation or none: forwards at one parity, backwards at the other.
 * The input of a forward is the output of the previous stage at the previous tick. The input of a
 * backward is the output of the next stage at the previous tick. The schedule's order on one stage
 * is the order of ticks. So two numbers per stage, the end of its latest operation and that of its
 * latest gradient, are the whole state: no table of micro-batches and no search for ready
 * operations. The two ends differ if weights are deferred: the weights' parts that follow a
 * backward belong to its tick, behind the gradient. Ticks only order the computation; they are not
 * time.
 *
 * Stages without a backward precede the trained ones and do not wait for later stages, so the ends
 * of their forwards are computed first.
 *
 * Invariant: each operation's end is the result of the same two operations (maximum, sum), so every
 * order of evaluation gives the same bits.
 */
#include "elastic/planner/pipeline_model.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* With more micro-batches the pipeline reaches its steady state, and the rest is extrapolated from
 * the measured period. */
#define SIMULATED_MICRO_BATCHES_MAX 512u

/* The trained stages, the last one first: a is the index. [count] is the source of their input. */
struct trained_stages {
    int count;
    double *forward, *backward, *weight;
    double *deferred;   /* micro-batches whose weights wait */
    double *transfer;   /* to the stage of the index below, and of the gradient back */
    double *now, *next; /* ends of the latest operations, before and after a tick */
    double *gradient;   /* end of the latest one */
};

#define NUMBERS_OF_A_STAGE 8

/* Not fmax(): nothing here is NaN, and this is one instruction. */
static inline double later(double a, double b)
{
    return a > b ? a : b;
}

/* Return the smallest number >= @low with the parity of @tick. */
static int with_parity(int low, int tick)
{
    return low + ((low ^ tick) & 1);
}

/* Advance all stages by one tick. @micro_batches is the count of micro-batches. */
static void advance(struct trained_stages *stages, int tick, int micro_batches)
{
    double *now = stages->now, *next = stages->next;
    int backward_last = MIN(stages->count - 1, tick);
    int forward_last = MIN(stages->count - 1, 2 * micro_batches - 3 - tick);

    memcpy(next, now, ((size_t)stages->count + 1) * sizeof(double));
    for (int a = with_parity(MAX(0, tick - 2 * (micro_batches - 1)), tick); a <= backward_last;
         a += 2) {
        double input = a == 0 ? 0 : stages->gradient[a - 1] + stages->transfer[a];
        int micro_batch = (tick - a) / 2;
        stages->gradient[a] = next[a] = later(input, now[a]) + stages->backward[a];
        if (micro_batch >= stages->deferred[a])
            next[a] += stages->weight[a];
    }
    for (int a = with_parity(MAX(0, -tick - 1), tick + 1); a <= forward_last; a += 2)
        next[a] = later(now[a + 1] + stages->transfer[a + 1], now[a]) + stages->forward[a];
    stages->now = next;
    stages->next = now;
}

/* Return the end of the last operation when micro-batches arrive at @arrivals. */
static double run_trained(struct trained_stages *stages, const double *arrivals,
                          unsigned micro_batch_count)
{
    int micro_batches = (int)micro_batch_count, count = stages->count;
    double end = 0;
    for (int a = 0; a <= count; a++)
        stages->now[a] = 0;
    for (int tick = -count; tick <= 2 * (micro_batches - 1) + count - 1; tick++) {
        /* The first of these stages has index count - 1; its forward of m comes at 2m - count. */
        int m = (tick + count) / 2;
        if (m < micro_batches)
            stages->now[count] = arrivals[m];
        advance(stages, tick, micro_batches);
    }
    for (int a = 0; a < count; a++) {
        double waiting = stages->deferred[a] < micro_batches ? stages->deferred[a] : micro_batches;
        end = later(end, stages->now[a] + waiting * stages->weight[a]);
    }
    return end;
}

/* Run one stage that has only forwards; @ends: on entry of the previous stage, on return of this
 * one. */
static void run_forwards(const struct stage_cost *cost, double transfer, double *ends,
                         unsigned micro_batch_count)
{
    double free_at = 0;
    for (unsigned m = 0; m < micro_batch_count; m++)
        ends[m] = free_at = later(ends[m] + transfer, free_at) + cost->forward;
}

static double run_pipeline(const struct stage_cost *costs, unsigned stage_count,
                           struct trained_stages *trained, double *ends, unsigned micro_batch_count)
{
    unsigned first_trained = stage_count - (unsigned)trained->count;
    double end = 0;
    memset(ends, 0, micro_batch_count * sizeof(double));
    for (unsigned stage = 0; stage < first_trained; stage++) {
        run_forwards(&costs[stage], stage > 0 ? costs[stage - 1].transfer : 0, ends,
                     micro_batch_count);
        end = ends[micro_batch_count - 1];
    }
    return trained->count > 0 ? later(end, run_trained(trained, ends, micro_batch_count)) : end;
}

/* Lay out the stages from @first on, which have a backward, in @numbers: NUMBERS_OF_A_STAGE *
 * (count
 * + 1) zeros. */
static struct trained_stages trained_stages(const struct stage_cost *costs, unsigned first,
                                            unsigned stage_count, double *numbers)
{
    unsigned count = stage_count - first;
    size_t room = (size_t)count + 1;
    struct trained_stages stages = {.count = (int)count,
                                    .forward = numbers,
                                    .backward = numbers + room,
                                    .weight = numbers + 2 * room,
                                    .deferred = numbers + 3 * room,
                                    .transfer = numbers + 4 * room,
                                    .now = numbers + 5 * room,
                                    .next = numbers + 6 * room,
                                    .gradient = numbers + 7 * room};
    for (unsigned a = 0; a < count; a++) {
        const struct stage_cost *cost = &costs[stage_count - 1 - a];
        assert(cost->has_backward);
        stages.forward[a] = cost->forward;
        stages.backward[a] = cost->backward;
        stages.weight[a] = cost->weight;
        stages.deferred[a] = cost->deferred;
        stages.transfer[a] = cost->transfer;
    }
    stages.transfer[count] = first > 0 ? costs[first - 1].transfer : 0;
    return stages;
}

int pipeline_seconds(const struct stage_cost *costs, unsigned stage_count, unsigned count,
                     double *ret_seconds)
{
    unsigned simulated = MIN(count, SIMULATED_MICRO_BATCHES_MAX), first_trained = 0;
    size_t number_count = NUMBERS_OF_A_STAGE * ((size_t)stage_count + 1);
    AUTO_FREE double *numbers = calloc(number_count + simulated, sizeof(double));
    if (!numbers)
        return -ENOMEM;
    while (first_trained < stage_count && !costs[first_trained].has_backward)
        first_trained++;
    struct trained_stages trained = trained_stages(costs, first_trained, stage_count, numbers);
    double *ends = numbers + number_count;
    double seconds = run_pipeline(costs, stage_count, &trained, ends, simulated);
    if (count > simulated) {
        double half = run_pipeline(costs, stage_count, &trained, ends, simulated / 2);
        double period = (seconds - half) / (simulated - simulated / 2);
        seconds += period * (count - simulated);
    }
    *ret_seconds = seconds;
    return 0;
}
