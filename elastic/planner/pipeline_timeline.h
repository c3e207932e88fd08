/*
 * The expected time of each operation of a step, for people. The planner itself needs only the end
 * of a step (pipeline_model.h).
 */
#pragma once

#include "elastic/plan/pipeline_schedule.h"
#include "elastic/planner/planner.h"

struct timeline_operation {
    unsigned stage;
    enum schedule_kind kind;
    unsigned micro_batch;
    double begin, end; /* seconds from the beginning of the step */
};

/** timeline_visit - called with the operations of each stage in their order; stages mix */
typedef void (*timeline_visit)(void *context, const struct timeline_operation *operation);

/**
 * pipeline_timeline() - run at most @most micro-batches of the slowest replica of @layout through
 * its stages, as planner_predict() times them, without the reduction, commit and optimizer that
 * follow
 * @ret_count: of a whole step
 * Return: 0 or -ENOMEM. O(stages * micro-batches), in time and memory.
 */
int pipeline_timeline(const struct planner_input *input, const struct plan_layout *layout,
                      unsigned most, timeline_visit visit, void *context,
                      unsigned *ret_count) CHECK_RESULT;
