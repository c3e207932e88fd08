#include "elastic/leader/leader_patience.h"

#include "base/timeouts.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_pace.h"

static void cover_report(const struct worker_report *report, bool covered[STEP_RECORD_UNITS_MAX])
{
    leader_cover(covered, report->held_first_unit, report->held_unit_count);
    leader_cover(covered, report->old_first_unit, report->old_unit_count);
    for (unsigned i = 0; i < report->extra_count; i++)
        leader_cover(covered, report->extras[i].first, report->extras[i].count);
}

/*
 * Return whether @rank brings @unit into a generation from memory, to keep it or to hand it over.
 * The worker itself may not have heard of that generation yet.
 */
static bool brings(const struct plan *plan, unsigned rank, unsigned unit)
{
    if (plan->start.source != PLAN_SOURCE_MEMORY || plan_worker_is_new(&plan->layout.workers[rank]))
        return false;
    bool kept = plan_layout_keeps(&plan->layout, rank, unit);
    for (unsigned i = 0; i < plan->start.move_count; i++) {
        if (plan->start.moves[i].unit != unit)
            continue;
        if (plan->start.moves[i].from_rank == rank)
            return true;
        kept = kept && plan->start.moves[i].to_rank != rank;
    }
    return kept;
}

/* Cover the units that @member's report names, and those that its rank in the plan in force keeps
 * or brings. A worker whose node has not heard of that plan still has its earlier units. */
static void cover_unheard(const struct leader_context *context, const struct roster_member *member,
                          bool covered[STEP_RECORD_UNITS_MAX])
{
    const struct plan *plan = context->view->plan;
    if (roster_has_state(member))
        cover_report(member->report, covered);
    if (member->before)
        cover_report(member->before, covered);
    if (member->rank < 0)
        return;
    unsigned rank = (unsigned)member->rank;
    bool runs = member->seat == SEAT_RUNNING && roster_is_worker(&context->roster, member);
    for (unsigned unit = 0; unit < plan_layout_unit_count(&plan->layout); unit++)
        if ((runs && plan_layout_keeps(&plan->layout, rank, unit)) ||
            (member->seat == SEAT_SILENT && brings(plan, rank, unit)))
            leader_cover(covered, unit, 1);
}

/*
 * Return whether every unit may be present once all missing reports have arrived. If not, the job
 * goes back to the checkpoint in any case, and waiting is in vain.
 */
static bool may_be_complete(const struct leader_context *context,
                            const struct leader_survivors *survivors)
{
    bool covered[STEP_RECORD_UNITS_MAX] = {false};
    unsigned units = job_model_unit_count(&context->view->spec->model);
    for (unsigned i = 0; i < survivors->count; i++) {
        const struct worker_report *report = &survivors->reports[i];
        if (leader_checkpoint_is_ahead(context, report->applied_step + 1))
            continue;
        cover_report(report, covered);
    }
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->node && !leader_is_heard(context, member))
            cover_unheard(context, member, covered);
    }
    for (unsigned unit = 0; unit < units; unit++)
        if (!covered[unit])
            return false;
    return true;
}

/* Return whether the member opens links. A member without state does so too if it is prepared for
 * the plan, or stuck in the previous generation and told to join. */
static bool opens_links(const struct leader_context *context, const struct roster_member *member)
{
    enum worker_phase phase = member->report->phase;
    return roster_has_state(member) || (roster_is_worker(&context->roster, member) &&
                                        (phase == WORKER_PREPARED || phase == WORKER_STUCK));
}

/* Return whether a worker waits for links of the plan in force, perhaps to a peer that is dead. */
static bool somebody_waits_for_links(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->node && member->seat == SEAT_JOINING && opens_links(context, member))
            return true;
    }
    return false;
}

/* Return the first step of the plan in force. Only workers that run in it know the step of a
 * planned one. */
static uint64_t first_step(const struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    for (unsigned i = 0; plan->change.planned && i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->seat == SEAT_RUNNING && member->report->phase == WORKER_RUNNING)
            return member->report->applied_step;
    }
    return plan->start.resume_step;
}

/* Return whether a worker of the plan in force gave up before its first commit: workers with links
 * hear of that only now. */
static bool somebody_gave_up(const struct leader_context *context)
{
    uint64_t step = first_step(context);
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->seat == SEAT_BROKEN &&
            member->report->generation == context->view->plan->generation &&
            (member->report->applied_step == step || !roster_has_state(member)))
            return true;
    }
    return false;
}

/* Return the end of the wait for workers whose loss sends the job back to a checkpoint. */
static uint64_t patient_until(const struct leader_context *context)
{
    uint64_t timeout_ns = context->view->failure_timeout_ns;
    uint64_t computing_ns = leader_operation_ns(context);
    /* A worker without links reports when it gives up; workers with all links report only then. */
    bool begins = somebody_waits_for_links(context) || somebody_gave_up(context);
    return context->memory->failure_seen.ns + computing_ns +
           (begins ? leader_start_time_ns(context) + timeout_ns
                   : TIMEOUTS_SILENT_WORKER * timeout_ns);
}

/* Return whether to wait for workers that have not reported; sets the next wake-up. */
bool leader_patience_lasts(struct leader_context *context, const struct leader_survivors *survivors,
                           bool falls_back)
{
    const struct leader_view *view = context->view;
    uint64_t seen = context->memory->failure_seen.ns;
    /* No peer accuses these workers, and the lease of a dead node ends soon enough. */
    bool late =
        survivors->unheard > survivors->unheard_and_spared || survivors->unheard_of_before > 0;
    bool patient = falls_back && late && may_be_complete(context, survivors);
    /* Survivors may be in the middle of a micro-batch when the links break. If the others are
     * enough, a hung worker must not delay them for long. */
    uint64_t computing_ns =
        MIN(leader_operation_ns(context), TIMEOUTS_SILENT_WORKER * view->failure_timeout_ns);
    uint64_t hard =
        patient ? patient_until(context) : seen + view->failure_timeout_ns + computing_ns;
    uint64_t soft = seen + view->failure_timeout_ns / TIMEOUT_PARTS_ACCUSED;
    /* A live firnd whose registration ended registers again at once under the same name. */
    bool all_heard = survivors->unheard == 0 &&
                     !(falls_back && (survivors->doubtful > 0 || survivors->absent > 0));
    if (all_heard || view->now_ns >= hard)
        return false;
    if (survivors->unheard == survivors->unheard_and_spared && !falls_back) {
        if (view->now_ns >= soft)
            return false;
        leader_wake(context, soft);
    }
    leader_wake(context, hard);
    return true;
}
