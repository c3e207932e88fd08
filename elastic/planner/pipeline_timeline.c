/* An operation begins when its stage is free and its input has arrived: the schedule itself
 * (elastic/plan/pipeline_schedule.h) is run, in any order in which the stages can proceed. */
#include "elastic/planner/pipeline_timeline.h"

#include <errno.h>
#include <math.h>

#include "elastic/planner/planner_time.h"

struct timeline {
    const struct stage_cost *costs;
    unsigned stages, micro_batches;
    struct schedule_position *positions;
    unsigned *done;                /* operations of each stage */
    double *free_at;               /* of each stage */
    double *activation, *gradient; /* when they leave: stage * micro_batches + micro-batch; NaN: not
                                      yet */
};

static double *leaves(const struct timeline *timeline, double *what, unsigned stage,
                      unsigned micro_batch)
{
    return &what[(size_t)stage * timeline->micro_batches + micro_batch];
}

/* Return the time at which the input of an operation is there; NaN: not known yet. */
static double input_at(const struct timeline *timeline, unsigned stage,
                       const struct schedule_operation *operation)
{
    unsigned micro_batch = operation->micro_batch;

    if (operation->kind == SCHEDULE_BACKWARD_WEIGHT)
        return 0;
    if (operation->kind == SCHEDULE_FORWARD)
        return stage == 0 ? 0
                          : *leaves(timeline, timeline->activation, stage - 1, micro_batch) +
                                timeline->costs[stage - 1].transfer;
    return stage + 1 == timeline->stages
               ? 0
               : *leaves(timeline, timeline->gradient, stage + 1, micro_batch) +
                     timeline->costs[stage].transfer;
}

static double seconds_of(const struct stage_cost *cost, enum schedule_kind kind)
{
    return kind == SCHEDULE_FORWARD           ? cost->forward
           : kind == SCHEDULE_BACKWARD_WEIGHT ? cost->weight
                                              : cost->backward;
}

/* Run the next operation of @stage. Return false if there is none, or its input is not known. */
static bool run_next(struct timeline *timeline, unsigned stage, timeline_visit visit, void *context)
{
    const struct schedule_position *position = &timeline->positions[stage];

    if (timeline->done[stage] == schedule_operation_count(position))
        return false;
    struct schedule_operation next = schedule_operation(position, timeline->done[stage]);
    double ready = input_at(timeline, stage, &next);
    if (isnan(ready))
        return false;
    double begin = fmax(ready, timeline->free_at[stage]);
    double end = begin + seconds_of(&timeline->costs[stage], next.kind);
    if (next.kind != SCHEDULE_BACKWARD_WEIGHT)
        *leaves(timeline, next.kind == SCHEDULE_FORWARD ? timeline->activation : timeline->gradient,
                stage, next.micro_batch) = end;
    timeline->free_at[stage] = end;
    timeline->done[stage]++;
    visit(context, &(struct timeline_operation){stage, next.kind, next.micro_batch, begin, end});
    return true;
}

static void run_all(struct timeline *timeline, timeline_visit visit, void *context)
{
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (unsigned stage = 0; stage < timeline->stages; stage++)
            while (run_next(timeline, stage, visit, context))
                goes_on = true;
    }
}

int pipeline_timeline(const struct planner_input *input, const struct plan_layout *layout,
                      unsigned most, timeline_visit visit, void *context, unsigned *ret_count)
{
    unsigned stages = layout->stage_count, frozen = 0;
    size_t cells = (size_t)stages * most;
    AUTO_FREE struct stage_cost *costs = calloc(stages, sizeof(*costs));
    AUTO_FREE struct schedule_position *positions = calloc(stages, sizeof(*positions));
    AUTO_FREE unsigned *done = calloc(stages, sizeof(*done));
    AUTO_FREE double *numbers = calloc(stages + 2 * cells, sizeof(*numbers));
    if (!costs || !positions || !done || !numbers)
        return -ENOMEM;
    int status = planner_stage_costs(input, layout, costs, ret_count);
    if (status < 0)
        return status;
    unsigned micro_batches = MIN(*ret_count, most);
    while (frozen < input->unit_count && !input->units[frozen].trained)
        frozen++;
    for (unsigned stage = 0; stage < stages; stage++)
        positions[stage] = schedule_position_of(layout, stage, frozen, micro_batches);
    for (size_t i = 0; i < 2 * cells; i++)
        numbers[stages + i] = NAN;
    struct timeline timeline = {.costs = costs,
                                .stages = stages,
                                .micro_batches = micro_batches,
                                .positions = positions,
                                .done = done,
                                .free_at = numbers,
                                .activation = numbers + stages,
                                .gradient = numbers + stages + cells};
    run_all(&timeline, visit, context);
    return 0;
}
