#include "elastic/plan/pipeline_schedule.h"

unsigned schedule_deferred(const unsigned *stage_first_unit, unsigned stage, unsigned frozen_units,
                           unsigned most)
{
    unsigned first_trained = 0;

    while (first_trained < stage && stage_first_unit[first_trained + 1] <= frozen_units)
        first_trained++;
    return MIN(stage - first_trained, most);
}

struct schedule_position schedule_position_of(const struct plan_layout *layout, unsigned stage,
                                              unsigned frozen_units, unsigned micro_batch_count)
{
    return (struct schedule_position){
        .stage = stage,
        .stage_count = layout->stage_count,
        .micro_batch_count = micro_batch_count,
        .deferred =
            schedule_deferred(layout->stage_first_unit, stage, frozen_units, layout->deferred),
        .backward = layout->stage_first_unit[stage + 1] > frozen_units,
    };
}

/* Return the forwards before the first backward: enough to fill the later stages. */
static unsigned warm_up(const struct schedule_position *position)
{
    return MIN(position->stage_count - 1 - position->stage, position->micro_batch_count);
}

unsigned schedule_slots(const struct schedule_position *position)
{
    /* Two slots let a forward-only stage send one output while it computes the next. */
    if (!position->backward)
        return 2;
    return position->stage_count - position->stage + position->deferred;
}

unsigned schedule_operation_count(const struct schedule_position *position)
{
    unsigned operations = !position->backward ? 1 : position->deferred == 0 ? 2 : 3;

    return position->micro_batch_count * operations;
}

/* Micro-batches [@from, @end) whose backwards each begin or end a group of @size operations. */
struct turns {
    unsigned from, end, size;
};

/* Find the group of @turns that has the @*index-th operation; if none has it, continue behind
 * them. */
static bool is_among(const struct turns *turns, unsigned *index, unsigned *ret_micro_batch)
{
    unsigned count = turns->end > turns->from ? (turns->end - turns->from) * turns->size : 0;

    if (*index >= count) {
        *index -= count;
        return false;
    }
    *ret_micro_batch = turns->from + *index / turns->size;
    *index %= turns->size;
    return true;
}

static struct schedule_operation deferred_weight(const struct schedule_position *position,
                                                 unsigned micro_batch)
{
    return (struct schedule_operation){
        .kind = SCHEDULE_BACKWARD_WEIGHT,
        .micro_batch = micro_batch - position->deferred,
    };
}

/* Return the @index-th operation after the forwards ahead: a forward and a backward in turn until
 * the forwards run out, then backwards; behind each backward its deferred part. */
static struct schedule_operation after_warm_up(const struct schedule_position *position,
                                               unsigned index)
{
    unsigned count = position->micro_batch_count, steady = count - warm_up(position);
    unsigned deferred = MIN(position->deferred, count), weights = position->deferred > 0;
    const struct turns with_forward[] = {{0, MIN(deferred, steady), 2},
                                         {MIN(deferred, steady), steady, 2 + weights}};
    const struct turns without[] = {{steady, deferred, 1},
                                    {MAX(steady, deferred), count, 1 + weights}};
    enum schedule_kind backward = weights ? SCHEDULE_BACKWARD_INPUT : SCHEDULE_BACKWARD;
    unsigned micro_batch;

    for (unsigned i = 0; i < ARRAY_COUNT(with_forward); i++) {
        if (!is_among(&with_forward[i], &index, &micro_batch))
            continue;
        if (index == 0)
            return (struct schedule_operation){.micro_batch = count - steady + micro_batch};
        return index == 1
                   ? (struct schedule_operation){.kind = backward, .micro_batch = micro_batch}
                   : deferred_weight(position, micro_batch);
    }
    for (unsigned i = 0; i < ARRAY_COUNT(without); i++) {
        if (!is_among(&without[i], &index, &micro_batch))
            continue;
        return index == 0
                   ? (struct schedule_operation){.kind = backward, .micro_batch = micro_batch}
                   : deferred_weight(position, micro_batch);
    }
    return (struct schedule_operation){.kind = SCHEDULE_BACKWARD_WEIGHT,
                                       .micro_batch = count - deferred + index};
}

struct schedule_operation schedule_operation(const struct schedule_position *position,
                                             unsigned index)
{
    unsigned ahead = position->backward ? warm_up(position) : position->micro_batch_count;
    struct schedule_operation operation = {.micro_batch = index};

    assert(index < schedule_operation_count(position));
    if (index >= ahead)
        operation = after_warm_up(position, index - ahead);
    operation.slot = operation.micro_batch % schedule_slots(position);
    return operation;
}
