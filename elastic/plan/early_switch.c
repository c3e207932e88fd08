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

static bool has_pair(const struct plan *next, unsigned rank)
{
    for (unsigned i = 0; i < next->start.sums_count; i++)
        if (next->start.sums[i].from_rank == rank)
            return true;
    return false;
}

/* Return whether each worker of @replica gives its sums to another one, or keeps its units. */
static bool gives_all(const struct plan_layout *layout, const struct plan *next, unsigned replica)
{
    for (unsigned stage = 0; stage < layout->stage_count; stage++) {
        const struct plan_worker *worker =
            &layout->workers[plan_layout_rank(layout, replica, stage)];
        const unsigned *units = &layout->stage_first_unit[stage];
        int rank = plan_layout_find(&next->layout, worker->node, worker->slot);
        if (rank < 0)
            return false;
        const unsigned *now =
            &next->layout.stage_first_unit[(unsigned)rank % next->layout.stage_count];
        bool keeps =
            (unsigned)rank < next->layout.worker_count && now[0] <= units[0] && units[1] <= now[1];
        if (!keeps && !has_pair(next, (unsigned)rank))
            return false;
    }
    return true;
}

double early_switch_kept(const struct plan_layout *layout, const struct plan *next)
{
    bool same = same_stages(layout, &next->layout), moves = next->start.sums_count > 0;
    double kept = 0;

    if (!next->layout.worker_count)
        return 0;
    for (unsigned replica = 0; replica < layout->replica_count; replica++)
        if ((same && stays_together(layout, &next->layout, replica)) ||
            (moves && gives_all(layout, next, replica)))
            kept += plan_layout_lanes_computed(layout, replica);
    return kept / plan_layout_lane_count(layout);
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

/* Return the seconds of work that are computed again if the step is left. */
static double lost_seconds(const struct early_switch *step)
{
    return (1 - step->kept) * step->passed_seconds;
}

static bool pays(const struct plan_layout *layout, const struct plan *next,
                 const struct early_switch *step)
{
    double relative = relative_time(layout, next), left = step->left_seconds;
    double least = early_switch_gain_seconds(step->pause_seconds);

    return left - relative * left > least && left - relative * (left + lost_seconds(step)) > least;
}

static double seconds(uint64_t duration_ns)
{
    return (double)duration_ns / 1e9;
}

/* Return whether a step that people have waited for is ended all the same: little is left of it,
 * and to leave it would cost more. */
static bool is_worth_ending(const struct plan *next, const struct early_switch *step)
{
    double limit = seconds(next->change.limit_ns), left = step->left_seconds;

    /* Nothing left: rank 0 waits for others, and does not know how long. */
    return left > 0 && left <= limit && step->waited_seconds <= limit && left <= lost_seconds(step);
}

/* Return whether the step ends too late for @next. */
static bool comes_too_late(const struct plan *next, const struct early_switch *step)
{
    const struct plan_change *change = &next->change;
    double end = step->waited_seconds + step->left_seconds;
    bool is_abandoned = step->ends && next->layout.worker_count == 0;

    if (!change->is_limited)
        return false;
    if (end > seconds(change->spare_ns))
        return true;
    return !is_abandoned && end > seconds(change->limit_ns) && !is_worth_ending(next, step);
}

bool early_switch_begins(const struct plan *plan, const struct plan *next,
                         const struct early_switch *step)
{
    if (!next->change.planned || next->follows != plan->generation)
        return false;
    if (next->layout.worker_count > 0 && !step->near_end && pays(&plan->layout, next, step))
        return true;
    return comes_too_late(next, step);
}
