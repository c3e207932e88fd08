#include "elastic/plan/early_switch.h"

#include "base/compiler.h"

static bool same_stages(const struct plan_layout *layout, const struct plan_layout *next)
{
    if (layout->stage_count != next->stage_count)
        return false;
    for (unsigned stage = 0; stage <= layout->stage_count; stage++)
        if (layout->stage_first_unit[stage] != next->stage_first_unit[stage])
            return false;
    return true;
}

bool early_switch_keeps_sums(const struct plan *plan, const struct plan *next)
{
    const struct plan_layout *layout = &plan->layout;

    if (!next->layout.worker_count || !same_stages(layout, &next->layout))
        return false;
    for (unsigned rank = 0; rank < layout->worker_count; rank++) {
        const struct plan_worker *worker = &layout->workers[rank];
        int there = plan_layout_find(&next->layout, worker->node, worker->slot);
        if (there < 0 || (unsigned)there >= next->layout.worker_count ||
            (unsigned)there % layout->stage_count != rank % layout->stage_count)
            return false;
    }
    return true;
}

/* The time of a step under @next, relative to @plan. */
static double relative_time(const struct plan_layout *layout, const struct plan_layout *next)
{
    if (layout->predicted_step_seconds > 0 && next->predicted_step_seconds > 0)
        return next->predicted_step_seconds / layout->predicted_step_seconds;
    return (double)layout->replica_count / next->replica_count;
}

bool early_switch_pays(const struct plan *plan, const struct plan *next, double left_seconds,
                       double pause_seconds)
{
    if (!next->change.planned || next->follows != plan->generation ||
        !early_switch_keeps_sums(plan, next))
        return false;
    double gain_seconds = left_seconds * (1 - relative_time(&plan->layout, &next->layout));
    return gain_seconds > MAX(EARLY_SWITCH_GAIN_SECONDS, 2 * pause_seconds);
}
