#include "elastic/leader/leader_replay_cost.h"

#define SECONDS_MAX 1e9 /* beyond any job */

uint64_t leader_replay_cost_ns(const struct leader_context *context, const struct plan *plan,
                               uint64_t from, uint64_t to)
{
    const struct leader_view *view = context->view;
    double predicted = plan ? plan_layout_expected_seconds(&plan->layout) : 0;
    double each =
        view->progress.last_step_seconds > 0 ? view->progress.last_step_seconds : predicted;
    double seconds = to > from ? (double)(to - from) * each : 0;
    return (uint64_t)(MIN(seconds, SECONDS_MAX) * 1e9);
}
