#include "elastic/leader/leader_pace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/job/job_spec.h"

#define STEPS_LEAST 5
#define SECONDS_MAX 1e9 /* beyond any job */

static int compare_seconds(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

void leader_pace_note(const struct leader_view *view, struct leader_pace *pace)
{
    const struct leader_progress *progress = &view->progress;
    uint64_t generation = view->plan ? view->plan->generation : 0;
    if (pace->generation != generation)
        *pace = (struct leader_pace){.generation = generation};
    if (pace->frozen_layers != progress->frozen_layers) {
        pace->before_freeze = leader_pace_is_known(pace) ? leader_pace_seconds(pace) : 0;
        pace->frozen_layers = progress->frozen_layers;
        pace->count = 0;
    }
    if (progress->step_seconds <= 0 || (pace->count > 0 && pace->step == progress->step))
        return;
    pace->step = progress->step;
    pace->seconds[pace->count++ % LEADER_PACE_STEPS] = progress->step_seconds;
}

double leader_pace_seconds(const struct leader_pace *pace)
{
    double sorted[LEADER_PACE_STEPS];
    unsigned count = MIN(pace->count, (unsigned)LEADER_PACE_STEPS);
    memcpy(sorted, pace->seconds, sizeof(sorted));
    qsort(sorted, count, sizeof(*sorted), compare_seconds);
    return count > 0 ? sorted[count / 2] : 0;
}

bool leader_pace_is_known(const struct leader_pace *pace)
{
    return pace->count >= STEPS_LEAST;
}

double leader_pace_of(const struct leader_pace *pace, const struct plan_layout *layout)
{
    return pace->frozen_layers == layout->frozen_layers ? leader_pace_seconds(pace)
                                                        : pace->before_freeze;
}

bool leader_pace_has_thawed(const struct leader_view *view)
{
    /* Progress may still be of the previous generation, from before the last freeze. */
    return view->progress.generation == view->plan->generation &&
           view->progress.frozen_layers < view->plan->layout.frozen_layers;
}

/* Return the measured step of @plan's layout, else of any layout: it is more accurate than a
 * prediction. */
static double step_seconds(const struct leader_context *context, const struct plan *plan)
{
    double last = context->view->progress.last_step_seconds;
    return last > 0 ? last : plan ? plan_layout_expected_seconds(&plan->layout) : 0;
}

static uint64_t to_ns(double seconds)
{
    return (uint64_t)(MIN(seconds, SECONDS_MAX) * 1e9);
}

uint64_t leader_replay_cost_ns(const struct leader_context *context, const struct plan *plan,
                               uint64_t from, uint64_t to)
{
    return to > from ? to_ns((double)(to - from) * step_seconds(context, plan)) : 0;
}

uint64_t leader_operation_ns(const struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    double least = INFINITY;
    for (unsigned replica = 0; replica < plan->layout.replica_count; replica++)
        least = fmin(least, plan_layout_lanes_computed(&plan->layout, replica));
    double count = least * context->view->spec->train.micro_batches_per_lane;
    uint64_t own_ns =
        plan->layout.replica_count > 0 ? to_ns(step_seconds(context, plan) / MAX(1, count)) : 0;
    /* Until its first commit, workers may come from an operation of the previous generation. */
    bool begins = context->view->progress.generation < plan->generation;
    return begins ? MAX(own_ns, plan->change.busy_ns) : own_ns;
}

double leader_prediction_factor(const struct leader_context *context)
{
    const struct plan_layout *layout = &context->view->plan->layout;
    const struct leader_pace *pace = &context->memory->pace;
    double seconds = leader_pace_seconds(pace);
    bool is_measured = pace->generation == context->view->plan->generation && seconds > 0 &&
                       pace->frozen_layers == layout->frozen_layers;
    return is_measured && layout->predicted_step_seconds > 0
               ? seconds / layout->predicted_step_seconds
               : layout->prediction_factor;
}

bool leader_step_is_long(const struct plan *plan)
{
    return plan_layout_expected_seconds(&plan->layout) >= 2 * plan->layout.copy_seconds;
}
