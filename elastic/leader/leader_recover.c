/*
 * Problem: when a worker dies, its peers notice one after another, some cannot report it, and every
 * tenth of a second counts.
 *
 * Design: wait until every worker of the plan has reported since the failure: stuck with its state,
 * or gone (elastic/leader/leader_survivors.h), but not forever (elastic/leader/leader_patience.h).
 * Then call recovery_decide() over these reports, and make a plan from the result.
 *
 * Invariant: a worker that has not reported in time has no rank and no move in the new plan. If
 * that worker is alive, its peers refuse its generation, and its own firnd makes it step aside.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_netsplit.h"
#include "elastic/leader/leader_pair_loss.h"
#include "elastic/leader/leader_patience.h"
#include "elastic/leader/leader_retry.h"
#include "elastic/leader/leader_starting.h"

/* List the workers that are lost: "b/1, c/0 and 2 more". */
static void name_lost(const struct leader_context *context, char *text, size_t size)
{
    unsigned count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->rank < 0 || member->seat == SEAT_LEFT || leader_is_survivor(member) ||
            (member->seat == SEAT_JOINING && member->node))
            continue;
        if (count++ < 3 && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%.40s/%u", count > 1 ? ", " : "",
                                     member->node_name, member->slot);
    }
    if (count > 3 && used < size)
        snprintf(text + used, size - used, " and %u more", count - 3);
}

/* Return the number of frozen layers at the newest known step. It serves only to estimate costs:
 * the state has the actual number. */
static unsigned frozen_layers(const struct leader_context *context,
                              const struct leader_survivors *survivors)
{
    unsigned frozen = context->view->progress.frozen_layers;
    uint64_t newest = context->view->progress.step;
    for (unsigned i = 0; i < survivors->count; i++) {
        const struct worker_report *report = &survivors->reports[i];
        if (!report->held_unit_count || report->applied_step < newest)
            continue;
        frozen = report->applied_step > newest ? report->frozen_layers
                                               : MAX(frozen, report->frozen_layers);
        newest = report->applied_step;
    }
    return frozen;
}

static struct state_moves_range widest(const struct recovery_range *ranges, unsigned count)
{
    struct state_moves_range widest = {0, 0};
    for (unsigned i = 0; i < count; i++)
        if (ranges[i].count > widest.count)
            widest = (struct state_moves_range){ranges[i].first, ranges[i].count};
    return widest;
}

/* Pool the slots of the survivors whose nodes stay. */
static int pool_survivors(struct leader_context *context, const struct leader_survivors *survivors,
                          const struct recovery *recovery, struct slot_pool *pool)
{
    for (unsigned i = 0; i < survivors->count; i++) {
        const struct roster_member *member = survivors->members[i];
        struct recovery_range ranges[REPORT_RANGES_MAX];
        if (member->node->draining || leader_netsplit_leave_out(context, member->node))
            continue;
        unsigned count = recovery_ranges(recovery, &survivors->reports[i], ranges);
        struct state_moves_range held = widest(ranges, count);
        /* A new process may as well replace one without usable state. */
        int status = slot_pool_add(context, pool, member->node, member->slot,
                                   count > 0 ? member->report->instance : 0, &held);
        if (status < 0)
            return status;
        pool->devices_least += count > 0;
    }
    return 0;
}

/*
 * Plan over the live workers alone if they are enough, else over every free slot too. -ENOSPC: the
 * job waits, and the text says so. A slot that another job asks for stays in this plan: a plan
 * after a failure soon ends the workers that it leaves out, and their state may be needed next. The
 * next planned change gives up the slot.
 */
static int layout_without_the_left_out(struct leader_context *context,
                                       const struct leader_survivors *survivors,
                                       const struct recovery *recovery, struct plan **ret_plan)
{
    struct slot_pool pool = {0};
    unsigned frozen = frozen_layers(context, survivors), least = leader_devices_min(context->view);
    int status = pool_survivors(context, survivors, recovery, &pool);
    if (status == 0)
        status = pool.count < least ? -ENOSPC : leader_layout(context, &pool, frozen, ret_plan);
    if (status == -ENOSPC) {
        status = slot_pool_add_free(context, &pool, context->view->queue.kept_before);
        if (status == 0 && pool.count < least) {
            leader_explain_wait(context, JOB_RECOVERING, pool.count, NULL);
            status = -ENOSPC;
        } else if (status == 0) {
            status = leader_layout(context, &pool, frozen, ret_plan);
            if (status == -ENOSPC)
                leader_explain_wait(context, JOB_RECOVERING, pool.count, context->error->text);
        }
    }
    slot_pool_done(&pool);
    return status;
}

/* Plan without the left-out nodes, else with them: a layout that may not start, because its nodes
 * are cut from each other, is better than none. */
static int layout_after_failure(struct leader_context *context,
                                const struct leader_survivors *survivors,
                                const struct recovery *recovery, struct plan **ret_plan)
{
    int status = layout_without_the_left_out(context, survivors, recovery, ret_plan);
    if (status == -ENOSPC && leader_netsplit_give_in(context))
        status = layout_without_the_left_out(context, survivors, recovery, ret_plan);
    return status;
}

/* List sources of state, and (without ranges) processes whose nodes have the metrics history. */
static struct state_moves_holder *list_holders(const struct leader_context *context,
                                               const struct leader_survivors *survivors,
                                               const struct recovery *recovery, unsigned *ret_count)
{
    const struct roster *roster = &context->roster;
    const struct plan *plan = context->view->plan;
    struct state_moves_holder *holders =
        calloc((size_t)survivors->count + roster->count + 1, sizeof(*holders));
    if (!holders)
        return NULL;
    unsigned count = 0;
    for (unsigned i = 0; i < survivors->count; i++) {
        struct recovery_range ranges[REPORT_RANGES_MAX];
        unsigned range_count = recovery_ranges(recovery, &survivors->reports[i], ranges);
        if (leader_netsplit_leave_out(context, survivors->members[i]->node))
            continue;
        holders[count] = leader_holder(survivors->members[i], &plan->layout);
        for (unsigned n = 0; n < range_count; n++)
            holders[count].held[n] = (struct state_moves_range){ranges[n].first, ranges[n].count};
        count++;
    }
    for (unsigned i = 0; i < roster->count; i++) {
        const struct roster_member *member = &roster->members[i];
        if (member->node && member->rank >= 0 && member->seat == SEAT_LOST &&
            !leader_netsplit_leave_out(context, member->node) &&
            member->report->generation == plan->generation)
            holders[count++] = leader_holder(member, &plan->layout);
    }
    *ret_count = count;
    return holders;
}

/* Say which step is not lost, or which is computed again. After the last step that is the final
 * evaluation, or whatever else precedes the end. */
static void name_step(const struct leader_context *context, const struct recovery *recovery,
                      char *text, size_t size)
{
    unsigned long long step = recovery->step;
    if (recovery->kind == RECOVERY_STANDS)
        snprintf(text, size, "step %llu stands", step);
    else if (step >= context->view->spec->train.steps)
        snprintf(text, size, "step %llu, the last one, stands", step);
    else
        snprintf(text, size, "step %llu is replayed", step + 1);
}

static void explain(const struct leader_context *context, const struct recovery *recovery,
                    struct plan *plan)
{
    char lost[160], cut[160], step[64];
    const struct plan *before = context->view->plan;
    name_lost(context, lost, sizeof(lost));
    unsigned slots_before =
        before->layout.worker_count > 0 ? before->layout.worker_count : before->layout.donor_count;
    const char *broke = leader_netsplit_words(context, cut, sizeof(cut));
    if (!broke)
        broke = leader_netsplit_parted_words(context, &plan->layout, cut, sizeof(cut));
    name_step(context, recovery, step, sizeof(step));
    snprintf(plan->change.text, sizeof(plan->change.text), "%s%s: %u slot%s -> %u, %s",
             broke             ? broke
             : lost[0] != '\0' ? "lost "
                               : "links broke",
             broke ? "" : lost, slots_before, plural(slots_before), plan->layout.worker_count,
             step);
}

static int publish_from_memory(struct leader_context *context,
                               const struct leader_survivors *survivors, struct recovery *recovery)
{
    const struct step_record *ordered = &context->view->plan->start.commit;
    if (step_record_is_empty(&recovery->commit) && survivors->obeyed_commit &&
        ordered->step == recovery->step)
        recovery->commit = *ordered; /* workers counted as having applied it may not have yet */
    struct plan *plan = NULL;
    int status = layout_after_failure(context, survivors, recovery, &plan);
    if (status < 0)
        return status == -ENOSPC ? 0 : status;
    assert(plan);
    plan->change.reason = PLAN_REASON_FAILURE;
    plan->change.planned = false;
    plan->start.source = PLAN_SOURCE_MEMORY;
    plan->start.resume_step = recovery->step;
    plan->start.has_commit = !step_record_is_empty(&recovery->commit);
    plan->start.commit = recovery->commit;
    explain(context, recovery, plan);

    unsigned holder_count = 0;
    AUTO_FREE struct state_moves_holder *holders =
        list_holders(context, survivors, recovery, &holder_count);
    status = !holders ? -ENOMEM : leader_transfer(context, plan, holders, holder_count);
    if (status < 0) {
        plan_free(plan);
        return status;
    }
    leader_act(context, LEADER_PUBLISH, plan);
    leader_say(context, JOB_RECOVERING, "%s", plan->change.text);
    return 0;
}

static int restart_on_survivors(struct leader_context *context,
                                const struct leader_survivors *survivors,
                                const struct recovery *recovery, const char *why)
{
    struct slot_pool pool = {0};
    int status = pool_survivors(context, survivors, recovery, &pool);
    if (status == 0)
        status = slot_pool_add_free(context, &pool, context->view->queue.kept_before);
    if (status == 0)
        status = leader_restart(context, &pool, PLAN_REASON_FAILURE, why);
    slot_pool_done(&pool);
    return status;
}

static int fall_back(struct leader_context *context, const struct leader_survivors *survivors,
                     const struct recovery *recovery, const char *contradiction)
{
    const struct plan *plan = context->view->plan;
    char lost[120], why[224], starter[160];
    snprintf(why, sizeof(why), "%.160s: going back to the newest checkpoint",
             contradiction ? contradiction : "state is incomplete");
    if (plan->layout.worker_count == 0 || context->view->wish.desired == JOB_DESIRED_PAUSED)
        return leader_empty_plan(context, PLAN_REASON_PAUSE, false, why);
    name_lost(context, lost, sizeof(lost));
    const char *starting =
        lost[0] != '\0' ? NULL : leader_starting_words(context, starter, sizeof(starter));
    if (contradiction)
        snprintf(why, sizeof(why), "reports contradict each other (%.180s)", contradiction);
    else if (recovery->step > 0)
        snprintf(why, sizeof(why), "lost %s, only step %llu survives",
                 lost[0] != '\0' ? lost : "state", (unsigned long long)recovery->step);
    else if (starting)
        snprintf(why, sizeof(why), "a start has stopped (%.159s)", starting);
    else if (context->view->progress.step == 0 &&
             !leader_checkpoint_exists(&context->view->checkpoint))
        snprintf(why, sizeof(why), "lost %s at the start", lost[0] != '\0' ? lost : "a worker");
    else
        snprintf(why, sizeof(why), "lost %s, unit %u has no survivor",
                 lost[0] != '\0' ? lost : "state", recovery->missing_unit);
    int status = restart_on_survivors(context, survivors, recovery, why);
    if (status == 0 && leader_waits_for_slots(context) && leader_netsplit_take_in_readers(context))
        status = restart_on_survivors(context, survivors, recovery, why);
    if (status == 0 && leader_waits_for_slots(context) && leader_netsplit_give_in(context))
        status = restart_on_survivors(context, survivors, recovery, why);
    return status;
}

/* Avoid for a while the slots of workers that did not report or never started. */
static void avoid_the_unheard(struct leader_context *context)
{
    bool timed_out = leader_start_timed_out(context);
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        bool hangs =
            timed_out && member->seat == SEAT_JOINING && member->report->phase == WORKER_STARTING;
        if (member->node && (hangs || !leader_is_heard(context, member)) &&
            !leader_is_survivor(member))
            leader_avoid(context, member->node_name, member->slot);
    }
}

/*
 * Return whether the recovered state is older than the checkpoint: a worker kept it while later
 * generations continued without that worker and saved newer state.
 */
static bool is_outdated(const struct leader_context *context, const struct recovery *recovery)
{
    return recovery->kind != RECOVERY_CHECKPOINT &&
           leader_checkpoint_is_ahead(context, recovery->step);
}

struct remains {
    const struct leader_survivors *survivors;
    const struct recovery *recovery;
};

/* Return whether every unit is on a node that is not left out. */
static bool state_stays(const struct leader_context *context, const void *argument)
{
    const struct remains *remains = argument;
    bool covered[STEP_RECORD_UNITS_MAX] = {false};
    for (unsigned i = 0; i < remains->survivors->count; i++) {
        struct recovery_range ranges[REPORT_RANGES_MAX];
        if (leader_netsplit_leave_out(context, remains->survivors->members[i]->node))
            continue;
        unsigned count =
            recovery_ranges(remains->recovery, &remains->survivors->reports[i], ranges);
        for (unsigned n = 0; n < count; n++)
            leader_cover(covered, ranges[n].first, ranges[n].count);
    }
    for (unsigned unit = 0; unit < job_model_unit_count(&context->view->spec->model); unit++)
        if (!covered[unit])
            return false;
    return true;
}

/* Go back to the checkpoint without one end of a cut, though its state is lost. Makes no plan if
 * the other slots are not enough. */
static int go_back_without_one(struct leader_context *context,
                               const struct leader_survivors *survivors, struct recovery *recovery)
{
    char why[120];
    enum recovery_kind kind = recovery->kind;
    leader_netsplit_choose_for_checkpoint(context);
    if (context->left_out_count == 0 || !leader_netsplit_words(context, why, sizeof(why)))
        return 0;
    recovery->kind = RECOVERY_CHECKPOINT;
    int status = restart_on_survivors(context, survivors, recovery, why);
    recovery->kind = kind;
    return status;
}

/* Continue from the survivors' state, if its holders reach each other or may do so yet. */
static int go_on(struct leader_context *context, const struct leader_survivors *survivors,
                 struct recovery *recovery)
{
    struct remains remains = {survivors, recovery};
    leader_netsplit_choose(context, state_stays, &remains);
    if (context->left_out_count == 0 && leader_pair_loss_is_over(context)) {
        int status = go_back_without_one(context, survivors, recovery);
        if (status < 0 || context->decision->plan)
            return status;
        context->decision->misses_checkpoint = context->decision->gives_up_checkpoint = false;
        context->decision->takes_back_checkpoints = false;
        (void)leader_netsplit_give_in(context);
        leader_pair_loss_goes_on(context);
    }
    return publish_from_memory(context, survivors, recovery);
}

/* Return whether the remaining state is older than the committed steps: a worker kept it aside. The
 * nodes of the workers that continued may be back in a moment. */
static bool loses_steps(const struct leader_context *context, const struct recovery *recovery)
{
    const struct leader_progress *progress = &context->view->progress;
    return progress->generation == context->view->plan->generation &&
           recovery->step < progress->step;
}

static int recover(struct leader_context *context, struct leader_survivors *survivors,
                   struct recovery *recovery)
{
    const struct job_spec *spec = context->view->spec;
    struct error contradiction = {0};
    bool disputed = roster_disputed(&context->roster);
    int status = leader_survivors_gather(context, survivors);
    if (status == 0)
        status = recovery_decide(survivors->reports, survivors->count,
                                 job_model_unit_count(&spec->model), spec->train.lanes,
                                 spec->train.on_nan, recovery, &contradiction);
    if (status == 0 && disputed) /* some survivors may not have heard of it */
        status =
            error_set(&contradiction, -EBADMSG, "replicas held different parameters or moments");
    if (status == 0 && recovery->kind != RECOVERY_CHECKPOINT &&
        leader_compatibility_has_changed(context))
        status = error_set(&contradiction, -EBADMSG,
                           "workers with the state speak another link protocol than nodes start");
    if (status == -EBADMSG)
        *recovery = (struct recovery){.kind = RECOVERY_CHECKPOINT};
    else if (status < 0)
        return status;
    if (is_outdated(context, recovery))
        recovery->kind = RECOVERY_CHECKPOINT;
    bool falls_back = recovery->kind == RECOVERY_CHECKPOINT;
    if (leader_patience_lasts(context, survivors, falls_back || loses_steps(context, recovery))) {
        leader_say(context, JOB_RECOVERING, "a worker failed: waits for %u to be heard of",
                   survivors->unheard + survivors->doubtful);
        return 0;
    }
    avoid_the_unheard(context);
    if (!falls_back && leader_retry_waits_in_memory(context, recovery->step))
        return 0;
    if (falls_back)
        leader_netsplit_choose_for_checkpoint(context);
    status = falls_back ? fall_back(context, survivors, recovery,
                                    status == -EBADMSG ? contradiction.text : NULL)
                        : go_on(context, survivors, recovery);
    if (status == 0 && !context->decision->plan && leader_compatibility_is_over(context))
        return leader_empty_plan(context, PLAN_REASON_UPGRADE, false,
                                 "no node starts workers of this job's link protocol any more: "
                                 "going back to the newest checkpoint");
    if (status == 0 && context->decision->plan && context->decision->plan->layout.worker_count > 0)
        leader_pair_loss_enter(context, context->decision->plan, recovery->step);
    return status;
}

int leader_recover(struct leader_context *context)
{
    instant_note(&context->memory->failure_seen, context->view->now_ns);
    leader_netsplit_note(context);
    struct leader_survivors survivors = {0};
    AUTO_FREE struct recovery *recovery = calloc(1, sizeof(*recovery));
    int status = !recovery ? -ENOMEM : recover(context, &survivors, recovery);
    leader_survivors_done(&survivors);
    return status;
}
