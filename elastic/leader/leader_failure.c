/*
 * Decide whether the plan in force has failed: a worker that it needs is lost or stuck, or the plan
 * did not start in time.
 */
#include "elastic/leader/leader_pair_loss.h"
#include "elastic/leader/leader_starting.h"
#include "elastic/leader/leader_supersede.h"

/* Return whether some worker has state that a planned change could hand over. Without such a worker
 * the change is over: it had begun, the workers of the previous generation have left, and the new
 * ones have died since. */
static bool somebody_has_state(const struct leader_context *context)
{
    const struct roster *roster = &context->roster;
    for (unsigned i = 0; i < roster->count; i++)
        if (roster_has_state(&roster->members[i]))
            return true;
    return false;
}

bool leader_start_is_limited(const struct leader_context *context)
{
    return !context->view->plan->change.planned || !somebody_has_state(context);
}

bool leader_start_timed_out(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    return view->plan->layout.worker_count > 0 && leader_start_is_limited(context) &&
           !context->roster.any_running &&
           view->now_ns - leader_start_counts_from(context) >= leader_start_time_ns(context);
}

/*
 * Return whether a node without a lease is a failure. It is none while the generation runs without
 * complaint: the node's firnd may be restarting. It is a failure if no other worker is left to
 * complain, or if the plan is just beginning.
 */
static bool absence_is_failure(const struct leader_context *context)
{
    const struct roster *roster = &context->roster;
    bool absent = false, others = false, others_run = true;
    for (unsigned i = 0; i < roster->count; i++) {
        const struct roster_member *member = &roster->members[i];
        /* Until a planned switch, workers of the previous generation train and may complain. */
        others = others || (member->node && context->view->plan->change.planned &&
                            member->seat == SEAT_JOINING && roster_has_state(member));
        if (!roster_is_worker(roster, member))
            continue;
        absent = absent || !member->node;
        others = others || member->node;
        others_run = others_run && (!member->node || member->seat == SEAT_RUNNING);
    }
    return absent && (!others || (!context->view->plan->change.planned && !others_run));
}

/* Return whether this failure only ends the planned change, and the previous generation
 * continues. */
static bool fails_the_change_alone(const struct leader_context *context,
                                   const struct roster_member *member)
{
    return leader_gave_up(context, member) && leader_running_generation(context) != 0;
}

/*
 * Return whether the plan in force trains. A commit needs every worker, so one step of progress or
 * one checkpoint of this generation proves it, even if the report of a node that is cut off from
 * etcd still names the previous generation.
 */
static bool has_begun(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    uint64_t generation = view->plan->generation;
    return context->roster.all_running || view->progress.generation == generation ||
           view->checkpoint.generation == generation;
}

/* Return whether the member was new in a change that the plan in force has replaced, and gave up.
 */
static bool is_left_from_a_change(const struct leader_context *context,
                                  const struct roster_member *member)
{
    return member->rank < 0 && !roster_has_state(member) &&
           member->report->generation > context->view->plan->follows;
}

static bool member_failed(const struct leader_context *context, const struct roster_member *member)
{
    const struct roster *roster = &context->roster;
    const struct plan *plan = context->view->plan;
    bool empty = plan->layout.worker_count == 0;
    if (roster_is_worker(roster, member))
        return (member->seat == SEAT_BROKEN || member->seat == SEAT_LOST) &&
               !fails_the_change_alone(context, member);
    /* A donor or a leaving worker matters until the new generation runs. */
    if (has_begun(context) || (empty && !plan->change.planned))
        return false;
    return (member->seat == SEAT_BROKEN && member->node &&
            !is_left_from_a_change(context, member)) ||
           (member->seat == SEAT_LOST && member->rank >= 0 && !empty);
}

bool leader_has_failed(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++)
        if (member_failed(context, &context->roster.members[i]))
            return true;
    return absence_is_failure(context) || leader_start_timed_out(context) ||
           leader_pair_loss_is_over(context);
}
