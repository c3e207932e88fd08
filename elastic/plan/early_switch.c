#include "elastic/plan/early_switch.h"

#include "base/compiler.h"

/* Below this gain a change waits: a switch costs links, an engine and a wait for the slowest. */
#define GAIN_LEAST_SECONDS 0.5

double early_switch_gain_seconds(double pause_seconds)
{
    return MAX(GAIN_LEAST_SECONDS, 2 * pause_seconds);
}

static bool same_stages(const struct plan_layout *layout, const struct plan_layout *next)
{
    if (layout->stage_count != next->stage_count)
        return false;
    for (unsigned stage = 0; stage <= layout->stage_count; stage++)
        if (layout->stage_first_unit[stage] != next->stage_first_unit[stage])
            return false;
    return true;
}

/* Return whether all workers of @replica keep their stages, in one replica of @next. */
static bool stays_together(const struct plan_layout *layout, const struct plan_layout *next,
                           unsigned replica)
{
    unsigned together = 0;

    for (unsigned stage = 0; stage < layout->stage_count; stage++) {
        const struct plan_worker *worker =
            &layout->workers[plan_layout_rank(layout, replica, stage)];
        int there = plan_layout_find(next, worker->node, worker->slot);
        if (there < 0 || (unsigned)there >= next->worker_count ||
            (unsigned)there % next->stage_count != stage)
            return false;
        unsigned into = (unsigned)there / next->stage_count;
        if (stage && into != together)
            return false;
        together = into;
    }
    return true;
}

/* Return whether all workers of @replica are in @next, so that they can give their sums. */
static bool gives_all(const struct plan_layout *layout, const struct plan_layout *next,
                      unsigned replica)
{
    for (unsigned stage = 0; stage < layout->stage_count; stage++) {
        const struct plan_worker *worker =
            &layout->workers[plan_layout_rank(layout, replica, stage)];
        if (plan_layout_find(next, worker->node, worker->slot) < 0)
            return false;
    }
    return true;
}

double early_switch_kept(const struct plan_layout *layout, const struct plan *next)
{
    const unsigned *first = layout->replica_first_lane;
    bool same = same_stages(layout, &next->layout), moves = next->start.sums_count > 0;
    unsigned kept = 0;

    if (!next->layout.worker_count)
        return 0;
    for (unsigned replica = 0; replica < layout->replica_count; replica++)
        if ((same && stays_together(layout, &next->layout, replica)) ||
            (moves && gives_all(layout, &next->layout, replica)))
            kept += first[replica + 1] - first[replica];
    return (double)kept / first[layout->replica_count];
}

/* Return the time of a step under @next, relative to @layout. */
static double relative_time(const struct plan_layout *layout, const struct plan *next)
{
    double before = next->change.before_seconds > 0 ? next->change.before_seconds
                                                    : layout->predicted_step_seconds;

    if (before > 0 && next->layout.predicted_step_seconds > 0)
        return next->layout.predicted_step_seconds / before;
    return (double)layout->replica_count / next->layout.replica_count;
}

/* Return the seconds of work that are computed again if the step is left for @next. */
static double lost_seconds(const struct plan_layout *layout, const struct plan *next,
                           const struct early_switch *step)
{
    double kept = step->keeps_sums ? early_switch_kept(layout, next) : 0;

    return (1 - kept) * step->passed_seconds;
}

static bool pays(const struct plan_layout *layout, const struct plan *next,
                 const struct early_switch *step)
{
    double under_next =
        relative_time(layout, next) * (step->left_seconds + lost_seconds(layout, next, step));

    return step->left_seconds - under_next > early_switch_gain_seconds(step->pause_seconds);
}

static double seconds(uint64_t duration_ns)
{
    return (double)duration_ns / 1e9;
}

/* Return whether the step ends too late for @next. If no node goes, a step of which little is left
 * is ended: to leave it would cost more. */
static bool comes_too_late(const struct plan *plan, const struct plan *next,
                           const struct early_switch *step)
{
    const struct plan_change *change = &next->change;
    double end = step->waited_seconds + step->left_seconds;
    double lost = lost_seconds(&plan->layout, next, step), limit = seconds(change->limit_ns);
    bool is_abandoned = step->ends && next->layout.worker_count == 0;

    if (!change->is_limited)
        return false;
    if (is_abandoned || change->limit_ns == change->spare_ns)
        return end > seconds(change->spare_ns);
    return end > seconds(change->spare_ns) ||
           (end > limit && step->left_seconds > MIN(lost, limit));
}

bool early_switch_begins(const struct plan *plan, const struct plan *next,
                         const struct early_switch *step)
{
    if (!next->change.planned || next->follows != plan->generation)
        return false;
    if (next->layout.worker_count > 0 && !step->near_end && pays(&plan->layout, next, step))
        return true;
    return comes_too_late(plan, next, step);
}
