/*
 * Problem: thousands of layouts must be ranked in milliseconds, by a time that matches the workers'
 * schedule.
 *
 * Design: the schedule that the workers run is simulated (pipeline_model.h). A closed form below
 * every simulation lets the planner skip nearly all of them.
 *
 * Model: transfers overlap with computation and cost latency + bytes / bandwidth; the reduction
 * begins when the backwards are done (an upper estimate: it overlaps), moves each trained byte
 * twice except the replica's own share, and more often when a replica's lanes are not one subtree;
 * the optimizer processes bytes at a fixed rate. The commit is one message up and one down a tree.
 * The sum of a shared lane's head travels while its owner computes all but one lane's worth of
 * micro-batches, and costs what takes longer than that.
 */
#include "elastic/planner/planner_time.h"

#include <limits.h>
#include <math.h>

#include "elastic/plan/commit_tree.h"
#include "elastic/plan/lanes.h"
#include "elastic/plan/pipeline_schedule.h"
#include "elastic/planner/pipeline_model.h"
#include "elastic/planner/process_memory.h"

/* Return whether the unit keeps only its input and is recomputed for backward. */
static bool is_computed_again(const struct planner_unit *unit, enum plan_recompute recompute)
{
    return unit->trained && unit->again != PLAN_RECOMPUTE_NONE && recompute >= unit->again;
}

/* Return whether the first stage loads kept outputs: it has all units that they stand for. */
static bool loads_kept(const struct planner_input *input, const struct layout_shape *shape,
                       const unsigned *first)
{
    return first[1] >= input->kept.unit_count && (!input->kept_alone || shape->stage_count == 1);
}

void stage_costs(const struct planner_input *input, const struct layout_shape *shape,
                 const unsigned *first, struct stage_cost *ret_costs)
{
    bool trained = false, loads = loads_kept(input, shape, first);
    unsigned trained_before = 0; /* stages */
    for (unsigned stage = 0; stage < shape->stage_count; stage++) {
        struct stage_cost cost = {.deferred = MIN(trained_before, shape->deferred)};
        for (unsigned u = first[stage]; u < first[stage + 1]; u++) {
            const struct planner_unit *unit = &input->units[u];
            trained = trained || unit->trained;
            cost.forward +=
                (unit->forward_seconds - (loads ? unit->kept_seconds : 0)) / shape->speed;
            cost.backward += unit->backward_seconds / shape->speed;
            if (is_computed_again(unit, shape->recompute)) {
                cost.backward += unit->forward_seconds / shape->speed;
            } else if (cost.deferred > 0) {
                cost.backward -= unit->weight_seconds / shape->speed;
                cost.weight += unit->weight_seconds / shape->speed;
            }
            cost.trained_bytes += unit->trained ? unit->parameter_bytes : 0;
        }
        cost.has_backward = trained;
        trained_before += trained;
        if (stage + 1 < shape->stage_count) {
            const struct planner_unit *last = &input->units[first[stage + 1] - 1];
            cost.transfer = input->link_latency_seconds +
                            (double)last->boundary_bytes / input->link_bytes_per_second;
        }
        ret_costs[stage] = cost;
    }
}

static size_t largest_trained_bytes(const struct layout_shape *shape,
                                    const struct stage_cost *costs)
{
    size_t largest = 0;
    for (unsigned stage = 0; stage < shape->stage_count; stage++)
        largest = MAX(largest, costs[stage].trained_bytes);
    return largest;
}

/* Return the seconds of reduction, commit and optimizer when each replica contributes @subtrees
 * partial sums on average. */
static double closing_seconds(const struct planner_input *input, const struct layout_shape *shape,
                              const struct stage_cost *costs, double subtrees)
{
    double bytes = (double)largest_trained_bytes(shape, costs);
    double others = (double)(shape->replica_count - 1) / (double)shape->replica_count;
    double updated = input->updated_bytes_second > 0
                         ? input->updated_bytes_second
                         : slot_rates(false, JOB_PRECISION_F32).updated_bytes_second;
    double seconds = bytes / updated / shape->slowest;
    if (shape->replica_count > 1)
        seconds += others * bytes * (subtrees + 1) / input->link_bytes_per_second +
                   2 * input->link_latency_seconds;
    unsigned levels = 0;
    for (unsigned reach = 1; reach < shape->stage_count * shape->replica_count;
         reach *= COMMIT_TREE_FAN)
        levels++;
    return seconds + 2 * levels * input->link_latency_seconds;
}

/* The path of one micro-batch through stages: down, and the gradient back. */
struct way {
    double down, back;
};

static struct way way_through(const struct stage_cost *cost)
{
    return (struct way){cost->forward + cost->transfer,
                        cost->has_backward ? cost->backward + cost->transfer : 0};
}

double time_bound(const struct planner_input *input, const struct layout_shape *shape,
                  const struct stage_cost *costs)
{
    unsigned stages = shape->stage_count;
    double count = shape->micro_batches, bound = 0, ahead = 0;
    struct way behind = {0};
    for (unsigned stage = 0; stage < stages; stage++)
        ahead += way_through(&costs[stage]).down + way_through(&costs[stage]).back;
    for (unsigned stage = 0; stage < stages; stage++) {
        const struct stage_cost *cost = &costs[stage];
        struct way through = way_through(cost);
        ahead -= through.down + through.back;
        double own = count * (cost->forward + cost->backward + cost->weight);
        /* The last forward of a forward-only stage precedes the whole path down and back. */
        if (!cost->has_backward)
            own += ahead + cost->transfer;
        /* The weights behind the last gradient, while it passes the previous stages. */
        double waiting = fmin(cost->deferred + 1, count) * cost->weight;
        bound = fmax(bound, behind.down + own + fmax(behind.back - waiting, 0));
        behind.down += through.down;
        behind.back += through.back;
    }
    /* The simulation adds in another order; the margin keeps the bound below it despite
     * rounding. */
    return (bound + closing_seconds(input, shape, costs, 1)) * (1 - 1e-9);
}

double subtrees_even(unsigned lanes, unsigned replicas)
{
    unsigned subtrees = 0;
    for (unsigned replica = 0; replica < replicas; replica++)
        subtrees +=
            lanes_subtrees(lanes, replica * lanes / replicas, (replica + 1) * lanes / replicas);
    return (double)subtrees / replicas;
}

/* Return the seconds in which a stage's sum of a lane's head is passed on. */
static double passing_seconds(const struct planner_input *input, size_t trained_bytes)
{
    return input->link_latency_seconds + (double)trained_bytes / input->link_bytes_per_second;
}

double layout_head_seconds(const struct planner_input *input, unsigned stages,
                           const unsigned *first)
{
    size_t largest = 0;
    for (unsigned stage = 0; stage < stages; stage++) {
        size_t bytes = 0;
        for (unsigned u = first[stage]; u < first[stage + 1]; u++)
            bytes += input->units[u].trained ? input->units[u].parameter_bytes : 0;
        largest = MAX(largest, bytes);
    }
    return passing_seconds(input, largest);
}

/* Return the seconds that a replica waits for the head of a lane, when its own part of the step
 * takes @seconds. */
static double head_wait_seconds(const struct planner_input *input, const struct layout_shape *shape,
                                const struct stage_cost *costs, double seconds)
{
    if (!shape->shares)
        return 0;
    double passing = passing_seconds(input, largest_trained_bytes(shape, costs));
    double others = 1 - (double)input->micro_batches_per_lane / shape->micro_batches;
    return fmax(0, passing - others * seconds);
}

int time_predict(const struct planner_input *input, const struct layout_shape *shape,
                 const struct stage_cost *costs, struct time_prediction *ret_time)
{
    unsigned count = shape->micro_batches;
    double seconds, busy = 0;
    int status = pipeline_seconds(costs, shape->stage_count, count, &seconds);
    if (status < 0)
        return status;
    for (unsigned stage = 0; stage < shape->stage_count; stage++)
        busy += count * (costs[stage].forward + costs[stage].backward + costs[stage].weight);
    ret_time->bubble_share = seconds > 0 ? 1 - busy / (seconds * shape->stage_count) : 0;
    double subtrees =
        shape->subtrees > 0 ? shape->subtrees : subtrees_even(input->lanes, shape->replica_count);
    ret_time->step_seconds = seconds + head_wait_seconds(input, shape, costs, seconds) +
                             closing_seconds(input, shape, costs, subtrees);
    return 0;
}

unsigned layout_buffers(const struct plan_layout *layout, unsigned replica)
{
    const unsigned *first = &layout->replica_first_lane[replica];
    return lanes_buffers(first[0], first[1], plan_layout_head(layout, replica) > 0,
                         plan_layout_head(layout, replica + 1) > 0);
}

unsigned buffers_even(unsigned lanes, unsigned micro_batches, unsigned replicas)
{
    uint64_t total = (uint64_t)lanes * MAX(1u, micro_batches);
    unsigned most = 0, batches = MAX(1u, micro_batches);
    for (unsigned replica = 0; replica < replicas; replica++) {
        uint64_t begin = total * replica / replicas, end = total * (replica + 1) / replicas;
        most = MAX(most, lanes_buffers((unsigned)(begin / batches), (unsigned)(end / batches),
                                       begin % batches > 0, end % batches > 0));
    }
    return most;
}

static unsigned room_of(unsigned subtrees, unsigned own_least, unsigned replicas)
{
    assert(replicas > 0);
    return (ROOM_PARTS * (subtrees - own_least) + replicas - 1) / replicas;
}

unsigned sums_room(unsigned lanes, unsigned replicas, const unsigned *first_lane)
{
    unsigned subtrees = 0, least = UINT_MAX;
    for (unsigned replica = 0; replica < replicas; replica++) {
        unsigned own = lanes_subtrees(lanes, first_lane[replica], first_lane[replica + 1]);
        subtrees += own;
        least = MIN(least, own);
    }
    return room_of(subtrees, least, replicas);
}

unsigned sums_room_even(unsigned lanes, unsigned replicas)
{
    unsigned subtrees = 0, least = UINT_MAX;
    for (unsigned replica = 0; replica < replicas; replica++) {
        unsigned own =
            lanes_subtrees(lanes, replica * lanes / replicas, (replica + 1) * lanes / replicas);
        subtrees += own;
        least = MIN(least, own);
    }
    return room_of(subtrees, least, replicas);
}

void planned_stage_grow(struct planned_stage *stage, const struct planner_unit *unit, unsigned room,
                        enum plan_recompute recompute)
{
    bool takes = planner_unit_takes(unit);
    bool is_frozen = !takes && unit->again != PLAN_RECOMPUTE_NONE; /* a sublayer */
    bool keeps = !is_frozen && (unit->again == PLAN_RECOMPUTE_NONE || recompute < unit->again);
    bool is_first = stage->state == 0;
    stage->boundary = MAX(stage->boundary, unit->boundary_bytes);
    stage->link = MAX(stage->link, unit->link_bytes);
    stage->tied = MAX(stage->tied, unit->tied_bytes);
    stage->tied_ends += unit->tied_bytes > 0;
    stage->scratch = MAX(stage->scratch, unit->scratch_bytes);
    stage->trained |= takes;
    stage->state += unit->parameter_bytes * (takes ? 3 : 1) + unit->weight_bytes;
    if (takes)
        stage->state += unit->parameter_bytes * room / ROOM_PARTS;
    stage->norms += keeps && !unit->head ? unit->norm_bytes : 0;
    stage->unread_norms = MAX(stage->unread_norms, unit->norm_bytes);
    if (unit->head)
        stage->head += unit->activation_bytes;
    else
        stage->in_flight += keeps ? unit->activation_bytes : is_frozen ? 0 : unit->boundary_bytes;
    if (is_frozen) /* model/net/stage.h */
        stage->frozen_streams = 2 * unit->boundary_bytes / MAX(unit->samples, 1u);
    if (is_frozen && is_first) /* the stage's input, which each micro-batch has */
        stage->in_flight += unit->boundary_bytes;
    size_t own = unit->activation_bytes - unit->boundary_bytes; /* all except the input */
    if (is_frozen && recompute < unit->again)
        own /= MAX(unit->samples, 1u);
    if (!keeps)
        stage->again[unit->again] = MAX(stage->again[unit->again], own);
}

size_t planned_stage_bytes(const struct planned_stage *stage, unsigned stages_left,
                           unsigned deferred)
{
    size_t bytes = stage->state + stage->scratch;
    /* schedule_slots(): two in a stage without trained units; the last stage always has trained
     * units */
    unsigned slots = stage->trained ? stages_left + deferred : MIN(stages_left, 2u);
    size_t in_flight = stage->in_flight + stage->boundary + (deferred > 0 ? stage->norms : 0);
    for (unsigned kind = 0; kind < PLAN_RECOMPUTES; kind++)
        bytes += stage->again[kind];
    bytes += deferred > 0 ? stage->unread_norms : 0;
    bytes += stage->frozen_streams;
    if (stage->tied_ends == 1)
        bytes += stage->tied;
    return bytes + in_flight * slots + stage->head * (deferred > 0 ? 1 : slots) +
           stage->link * process_messages(stages_left);
}

size_t planner_stage_bytes(const struct planner_unit *units, unsigned first, unsigned end,
                           unsigned stages_left, unsigned room, enum plan_recompute recompute,
                           unsigned deferred)
{
    struct planned_stage stage = {0};
    for (unsigned u = first; u < end; u++)
        planned_stage_grow(&stage, &units[u], room, recompute);
    return planned_stage_bytes(&stage, stages_left, deferred);
}

size_t layout_stage_bytes(const struct planner_unit *units, const unsigned *stage_first_unit,
                          unsigned stage_count, unsigned stage, unsigned room,
                          enum plan_recompute recompute, unsigned deferred)
{
    unsigned frozen = 0;
    while (frozen < stage_first_unit[stage_count] && !planner_unit_takes(&units[frozen]))
        frozen++;
    return planner_stage_bytes(units, stage_first_unit[stage], stage_first_unit[stage + 1],
                               stage_count - stage, room, recompute,
                               schedule_deferred(stage_first_unit, stage, frozen, deferred));
}
