#include "elastic/planner/start_time.h"

#include "base/clock.h"
#include "base/timeouts.h"
#include "elastic/planner/planner.h"

#define STATE_ARRAYS 3 /* parameters and the optimizer's two moments */

static uint64_t stage_bytes(const struct plan_layout *layout, const struct job_model *model,
                            unsigned stage)
{
    uint64_t bytes = 0;
    for (unsigned unit = layout->stage_first_unit[stage];
         unit < layout->stage_first_unit[stage + 1]; unit++)
        bytes += STATE_ARRAYS * (uint64_t)planner_parameter_bytes(model, unit);
    return bytes;
}

/* Return the largest state of one worker: its own stage, and with shadows the largest other
 * stage. */
static uint64_t worker_bytes_max(const struct plan_layout *layout, const struct job_model *model)
{
    uint64_t stage_max = 0, shadow_max = 0;
    for (unsigned stage = 0; stage < layout->stage_count; stage++)
        stage_max = MAX(stage_max, stage_bytes(layout, model, stage));
    for (unsigned i = 0; i < layout->shadow_count; i++)
        shadow_max = MAX(shadow_max, stage_bytes(layout, model, layout->shadows[i].stage));
    return stage_max + shadow_max;
}

uint64_t start_time_ns(const struct plan_layout *layout, const struct job_model *model,
                       uint64_t failure_timeout_ns)
{
    uint64_t bytes = worker_bytes_max(layout, model);
    uint64_t seconds = bytes / START_BYTES_PER_SECOND, rest = bytes % START_BYTES_PER_SECOND;

    return TIMEOUTS_LINKS_OPEN * failure_timeout_ns + seconds * NS_PER_SECOND +
           rest * NS_PER_SECOND / START_BYTES_PER_SECOND;
}
