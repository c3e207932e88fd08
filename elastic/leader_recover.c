/*
 * Problem: when a worker dies the others find out one after another, some cannot say so, and every
 * tenth of a second counts.
 *
 * Design: wait until everybody of the plan has been heard of since the failure: stuck with its
 * state, or gone. Who is silent is waited for until failure_timeout after the failure was first
 * seen; who is silent and accused by its peers, or has no rank any more, an eighth of that. Where
 * the job would fall back to a checkpoint the accused get the whole time. Those whom nobody
 * accuses, and without whom a unit is missing that they may have, get several times as much, and in
 * a generation that is just beginning until all who wait for links there have given up. Then
 * recovery_decide() over what was heard, and a plan from it.
 *
 * Reports of workers that were on their way into the plan in force when it broke are older than
 * that plan, so they are read as if the worker had obeyed it: gradients of a step that the plan
 * throws away are gone, a step that the plan lets stand is applied. Both come true at the latest
 * with the next plan, which carries the same commit.
 *
 * Invariant: whoever is not heard of in time has no rank and no move in the new plan. Should it
 * live, its generation is refused by the others, and its own daemon stops it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elastic/leader_cuts.h"
#include "elastic/leader_internal.h"

#define ACCUSED_GRACE_SHARE 8 /* of failure_timeout */
#define PATIENCE_TIMEOUTS   8 /* failure_timeouts for those without whom much would be lost */

struct survivors {
    struct worker_report *reports; /* as they will be when the plan in force has been obeyed */
    const struct roster_member **members;
    unsigned count;
    bool obeyed_commit; /* somebody is counted as having applied the commit of the plan in force */
    unsigned unheard, unheard_and_spared;
    unsigned doubtful; /* heard of, but joining: may have got more state since */
    unsigned absent;   /* had state on a node whose registration has just ended */
};

static bool start_timed_out(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    return !view->plan->planned && view->plan->worker_count > 0 && !context->roster.any_running &&
           view->now_ns - context->memory->published_ns >= leader_start_time_ns(context);
}

/*
 * A node without lease is no failure while the generation runs without complaint: its daemon may be
 * restarting. It is one when nobody else is left to complain, or when the plan is just beginning.
 */
static bool absence_is_failure(const struct leader_context *context)
{
    const struct roster *roster = &context->roster;
    bool absent = false, others = false, others_run = true;
    for (unsigned i = 0; i < roster->count; i++) {
        const struct roster_member *member = &roster->members[i];
        /* Until a planned switch comes, those of the generation before train and may complain. */
        others = others || (member->node != NULL && context->view->plan->planned &&
                            member->seat == SEAT_JOINING && roster_has_state(member));
        if (!roster_is_worker(roster, member))
            continue;
        absent = absent || member->node == NULL;
        others = others || member->node != NULL;
        others_run = others_run && (member->node == NULL || member->seat == SEAT_RUNNING);
    }
    return absent && (!others || (!context->view->plan->planned && !others_run));
}

static bool member_failed(const struct leader_context *context, const struct roster_member *member)
{
    const struct roster *roster = &context->roster;
    const struct plan *plan = context->view->plan;
    bool empty = plan->worker_count == 0;
    if (roster_is_worker(roster, member))
        return member->seat == SEAT_BROKEN || member->seat == SEAT_LOST;
    /* Whoever only hands over or leaves matters until the new generation runs. */
    if (roster->all_running || (empty && !plan->planned))
        return false;
    return (member->seat == SEAT_BROKEN && member->node != NULL) ||
           (member->seat == SEAT_LOST && member->rank >= 0 && !empty);
}

bool leader_has_failed(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++)
        if (member_failed(context, &context->roster.members[i]))
            return true;
    return absence_is_failure(context) || start_timed_out(context);
}

/* No gradients for what is left of the generation before. */
static void drop_leftovers(struct worker_report *report)
{
    unsigned kept = 0;
    report->old_unit_count = 0;
    for (unsigned i = 0; i < report->extra_count; i++)
        if (report->extras[i].shadows)
            report->extras[kept++] = report->extras[i];
    report->extra_count = kept;
}

/* The report of a worker that was told to join @plan before it broke, as if it had. */
static bool obey_plan(const struct plan *plan, struct worker_report *report)
{
    bool applied = false;
    if (plan->source != PLAN_SOURCE_MEMORY) {
        report->held_unit_count = report->old_unit_count = report->extra_count = 0;
        report->record.step = 0;
    } else if (plan->has_commit && report->holds && report->applied_step + 1 == plan->commit.step) {
        report->applied_step = plan->commit.step;
        report->record = plan->commit;
        drop_leftovers(report);
        applied = true;
    } else if (report->holds) {
        report->record.step = 0;
    }
    report->holds = false;
    return applied;
}

/* Has this one been heard of since the failure, so that nothing more is to come from it? */
static bool is_heard(const struct leader_context *context, const struct roster_member *member)
{
    switch (member->seat) {
    case SEAT_RUNNING:
        return member->report->phase == WORKER_FINISHED;
    case SEAT_SILENT:
        return false;
    case SEAT_JOINING:
        if (member->report->phase == WORKER_RUNNING || member->report->phase == WORKER_FINISHED)
            return false;
        return !roster_has_state(member) || context->roster.never_started;
    case SEAT_BROKEN:
    case SEAT_LOST:
    case SEAT_LEFT:
    case SEAT_SPARE:
        break;
    }
    return true;
}

/* May its state be counted now that waiting is over? */
static bool is_survivor(const struct roster_member *member)
{
    if (member->node == NULL || member->report == NULL || !roster_has_state(member))
        return false;
    return member->seat == SEAT_BROKEN || member->report->phase == WORKER_FINISHED ||
           (member->seat == SEAT_JOINING && member->report->phase != WORKER_RUNNING);
}

/*
 * Not worth the whole wait: it has no rank, or peers lost its node and nothing has come from there
 * since. Where a node has spoken, its daemon lives, and a worker of it that is only late is waited
 * for.
 */
static bool is_spared(const struct leader_context *context, const struct roster_member *member)
{
    const struct roster *roster = &context->roster;
    if (member->rank < 0)
        return true;
    for (unsigned i = 0; i < roster->count; i++) {
        const struct roster_member *other = &roster->members[i];
        bool speaks = other->report != NULL && is_heard(context, other) && other->rank >= 0;
        if (speaks && strcmp(other->node_name, member->node_name) == 0)
            return false;
    }
    return roster_accused(roster, member);
}

static int gather(const struct leader_context *context, struct survivors *survivors)
{
    const struct roster *roster = &context->roster;
    survivors->reports = calloc((size_t)roster->count + 1, sizeof(*survivors->reports));
    survivors->members = calloc((size_t)roster->count + 1, sizeof(const struct roster_member *));
    if (survivors->reports == NULL || survivors->members == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < roster->count; i++) {
        const struct roster_member *member = &roster->members[i];
        if (member->node == NULL) {
            survivors->absent += roster_has_state(member) && member->seat != SEAT_LOST;
            continue;
        }
        if (!is_heard(context, member)) {
            survivors->unheard++;
            survivors->unheard_and_spared += is_spared(context, member);
        }
        survivors->doubtful += member->seat == SEAT_JOINING && is_heard(context, member) &&
                               member->report->phase != WORKER_STARTING &&
                               context->view->plan->source == PLAN_SOURCE_MEMORY;
        if (!is_survivor(member))
            continue;
        struct worker_report *report = &survivors->reports[survivors->count];
        *report = *member->report;
        /* A donor hands over and stays behind: it never was in the generation as the others are.
         * Nor was one that was on its way there when it spoke last: it may be dead since. */
        if ((!roster_is_worker(roster, member) || member->seat == SEAT_JOINING) &&
            report->generation == context->view->plan->generation)
            report->generation--;
        if (member->seat == SEAT_JOINING && !context->view->plan->planned)
            survivors->obeyed_commit |= obey_plan(context->view->plan, report);
        survivors->members[survivors->count++] = member;
    }
    return 0;
}

/* The units of [first, first + count) are somewhere. */
static void cover(bool covered[STEP_RECORD_UNITS_MAX], unsigned first, unsigned count)
{
    for (unsigned unit = first; unit < MIN(first + count, (unsigned)STEP_RECORD_UNITS_MAX); unit++)
        covered[unit] = true;
}

static void cover_report(const struct worker_report *report, bool covered[STEP_RECORD_UNITS_MAX])
{
    cover(covered, report->held_first_unit, report->held_unit_count);
    cover(covered, report->old_first_unit, report->old_unit_count);
    for (unsigned i = 0; i < report->extra_count; i++)
        cover(covered, report->extras[i].first, report->extras[i].count);
}

/* It goes into a planned generation with the unit that it keeps there, and may not know of it yet.
 */
static bool brings(const struct plan *plan, unsigned rank, unsigned unit)
{
    if (!plan->planned || plan->workers[rank].instance == 0)
        return false;
    for (unsigned i = 0; i < plan->move_count; i++)
        if (plan->moves[i].to_rank == rank && plan->moves[i].unit == unit)
            return false;
    return true;
}

/* What @report names, and what the rank that computes in the plan in force keeps. */
static void cover_unheard(const struct leader_context *context, const struct roster_member *member,
                          bool covered[STEP_RECORD_UNITS_MAX])
{
    const struct plan *plan = context->view->plan;
    if (roster_has_state(member))
        cover_report(member->report, covered);
    if (!roster_is_worker(&context->roster, member) ||
        (member->seat != SEAT_RUNNING && member->seat != SEAT_SILENT))
        return;
    for (unsigned unit = 0; unit < plan_unit_count(plan); unit++)
        if (plan_keeps(plan, (unsigned)member->rank, unit) &&
            (member->seat == SEAT_RUNNING || brings(plan, (unsigned)member->rank, unit)))
            cover(covered, unit, 1);
}

/*
 * Could every unit be there once the unheard have spoken? Else the checkpoint it is, whatever they
 * say, and waiting for them is in vain.
 */
static bool may_be_complete(const struct leader_context *context, const struct survivors *survivors)
{
    bool covered[STEP_RECORD_UNITS_MAX] = {false};
    unsigned units = job_spec_unit_count(context->view->spec);
    for (unsigned i = 0; i < survivors->count; i++) {
        const struct worker_report *report = &survivors->reports[i];
        if (report->applied_step + 1 < context->view->checkpoint.step)
            continue;
        cover_report(report, covered);
    }
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->node != NULL && !is_heard(context, member))
            cover_unheard(context, member, covered);
    }
    for (unsigned unit = 0; unit < units; unit++)
        if (!covered[unit])
            return false;
    return true;
}

/* Somebody waits for links of the plan in force, perhaps with one that is dead. */
static bool somebody_waits_for_links(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->node != NULL && member->seat == SEAT_JOINING &&
            (roster_has_state(member) || (roster_is_worker(&context->roster, member) &&
                                          member->report->phase == WORKER_PREPARED)))
            return true;
    }
    return false;
}

/* The step that the plan in force began at: of a planned one those know it who run there. */
static uint64_t first_step(const struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    for (unsigned i = 0; plan->planned && i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->seat == SEAT_RUNNING && member->report->phase == WORKER_RUNNING)
            return member->report->applied_step;
    }
    return plan->resume_step;
}

/* Somebody of the plan in force has given up before its first commit: those who have their links
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

/* Until when those are waited for without whom the job goes back to a checkpoint. */
static uint64_t patient_until(const struct leader_context *context)
{
    uint64_t timeout_ns = context->view->failure_timeout_ns;
    /* Who waits for links speaks when it gives up, and only then do those who have theirs. */
    bool begins = somebody_waits_for_links(context) || somebody_gave_up(context);
    return context->memory->failure_seen_ns +
           (begins ? leader_start_time_ns(context) + timeout_ns : PATIENCE_TIMEOUTS * timeout_ns);
}

/* Wait for those not yet heard of? Sets when to look again. */
static bool must_wait(struct leader_context *context, const struct survivors *survivors,
                      bool falls_back)
{
    const struct leader_view *view = context->view;
    uint64_t seen = context->memory->failure_seen_ns;
    /* Nobody misses them but us, and a lease tells about dead nodes soon enough. */
    bool patient = falls_back && survivors->unheard > survivors->unheard_and_spared &&
                   may_be_complete(context, survivors);
    uint64_t hard = patient ? patient_until(context) : seen + view->failure_timeout_ns;
    uint64_t soft = seen + view->failure_timeout_ns / ACCUSED_GRACE_SHARE;
    /* A daemon whose registration ended, and that lives, is back at once under the same name. */
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

/* "b/1, c/0 and 2 more": who is not coming along. */
static void name_lost(const struct leader_context *context, char *text, size_t size)
{
    unsigned count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->rank < 0 || member->seat == SEAT_LEFT || is_survivor(member) ||
            (member->seat == SEAT_JOINING && member->node != NULL))
            continue;
        if (count++ < 3 && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%.40s/%u", count > 1 ? ", " : "",
                                     member->node_name, member->slot);
    }
    if (count > 3 && used < size)
        snprintf(text + used, size - used, " and %u more", count - 3);
}

/* The largest boundary that anybody knows: freezing is part of the state, this is for costs. */
static unsigned frozen_layers(const struct leader_context *context,
                              const struct survivors *survivors)
{
    unsigned frozen = context->view->frozen_layers;
    for (unsigned i = 0; i < survivors->count; i++)
        frozen = MAX(frozen, survivors->reports[i].frozen_layers);
    return frozen;
}

static struct transfer_range widest(const struct recovery_range *ranges, unsigned count)
{
    struct transfer_range widest = {0, 0};
    for (unsigned i = 0; i < count; i++)
        if (ranges[i].count > widest.count)
            widest = (struct transfer_range){ranges[i].first, ranges[i].count};
    return widest;
}

/* The slots of the survivors whose nodes stay. */
static int pool_survivors(struct leader_context *context, const struct survivors *survivors,
                          const struct recovery *recovery, struct slot_pool *pool)
{
    for (unsigned i = 0; i < survivors->count; i++) {
        const struct roster_member *member = survivors->members[i];
        struct recovery_range ranges[REPORT_RANGES_MAX];
        if (member->node->draining || leader_cuts_leave_out(context, member->node))
            continue;
        unsigned count = recovery_ranges(recovery, &survivors->reports[i], ranges);
        struct transfer_range held = widest(ranges, count);
        /* A process whose state is worthless may as well be another one. */
        int r = slot_pool_add(context, pool, member->node, member->slot,
                              count > 0 ? member->report->instance : 0, &held);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Living workers alone if they are enough, else every free slot too; -ENOSPC: waits, said so. */
static int layout_without_the_left_out(struct leader_context *context,
                                       const struct survivors *survivors,
                                       const struct recovery *recovery, struct plan **ret_plan)
{
    struct slot_pool pool = {0};
    unsigned frozen = frozen_layers(context, survivors), least = leader_devices_min(context->view);
    int r = pool_survivors(context, survivors, recovery, &pool);
    if (r == 0)
        r = pool.count < least ? -ENOSPC : leader_layout(context, &pool, frozen, ret_plan);
    if (r == -ENOSPC) {
        r = slot_pool_add_free(context, &pool);
        if (r == 0 && pool.count < least) {
            leader_explain_wait(context, JOB_RECOVERING, pool.count, NULL);
            r = -ENOSPC;
        } else if (r == 0) {
            r = leader_layout(context, &pool, frozen, ret_plan);
            if (r == -ENOSPC)
                leader_explain_wait(context, JOB_RECOVERING, pool.count, context->error->text);
        }
    }
    slot_pool_done(&pool);
    return r;
}

/* A layout that may not come up, because nodes of it are cut from each other, is better than none.
 */
static int layout_after_failure(struct leader_context *context, const struct survivors *survivors,
                                const struct recovery *recovery, struct plan **ret_plan)
{
    int r = layout_without_the_left_out(context, survivors, recovery, ret_plan);
    if (r == -ENOSPC && leader_cuts_give_in(context))
        r = layout_without_the_left_out(context, survivors, recovery, ret_plan);
    return r;
}

/* Sources of state, and (without ranges) processes whose nodes have the metrics history. */
static struct transfer_holder *list_holders(const struct leader_context *context,
                                            const struct survivors *survivors,
                                            const struct recovery *recovery, unsigned *ret_count)
{
    const struct roster *roster = &context->roster;
    const struct plan *plan = context->view->plan;
    struct transfer_holder *holders =
        calloc((size_t)survivors->count + roster->count + 1, sizeof(*holders));
    if (holders == NULL)
        return NULL;
    unsigned count = 0;
    for (unsigned i = 0; i < survivors->count; i++) {
        struct recovery_range ranges[REPORT_RANGES_MAX];
        unsigned range_count = recovery_ranges(recovery, &survivors->reports[i], ranges);
        if (leader_cuts_leave_out(context, survivors->members[i]->node))
            continue;
        holders[count] = leader_holder(survivors->members[i], plan);
        for (unsigned n = 0; n < range_count; n++)
            holders[count].held[n] = (struct transfer_range){ranges[n].first, ranges[n].count};
        count++;
    }
    for (unsigned i = 0; i < roster->count; i++) {
        const struct roster_member *member = &roster->members[i];
        if (member->node != NULL && member->rank >= 0 && member->seat == SEAT_LOST &&
            !leader_cuts_leave_out(context, member->node) &&
            member->report->generation == plan->generation)
            holders[count++] = leader_holder(member, plan);
    }
    *ret_count = count;
    return holders;
}

static void explain(const struct leader_context *context, const struct recovery *recovery,
                    struct plan *plan)
{
    char lost[160], cut[160];
    const struct plan *before = context->view->plan;
    name_lost(context, lost, sizeof(lost));
    const char *broke = leader_cuts_words(context, cut, sizeof(cut));
    snprintf(plan->reason_text, sizeof(plan->reason_text), "%s%s: %u slots -> %u, step %llu %s",
             broke != NULL     ? broke
             : lost[0] != '\0' ? "lost "
                               : "links broke",
             broke != NULL ? "" : lost,
             before->worker_count > 0 ? before->worker_count : before->donor_count,
             plan->worker_count,
             (unsigned long long)(recovery->kind == RECOVERY_STANDS ? recovery->step
                                                                    : recovery->step + 1),
             recovery->kind == RECOVERY_STANDS ? "stands" : "is replayed");
}

static int publish_from_memory(struct leader_context *context, const struct survivors *survivors,
                               struct recovery *recovery)
{
    const struct step_record *ordered = &context->view->plan->commit;
    if (recovery->commit.step == 0 && survivors->obeyed_commit && ordered->step == recovery->step)
        recovery->commit = *ordered; /* those counted as having applied it may yet have to */
    struct plan *plan = NULL;
    int r = layout_after_failure(context, survivors, recovery, &plan);
    if (r < 0)
        return r == -ENOSPC ? 0 : r;
    assert(plan != NULL);
    plan->reason = PLAN_REASON_FAILURE;
    plan->planned = false;
    plan->source = PLAN_SOURCE_MEMORY;
    plan->resume_step = recovery->step;
    plan->has_commit = recovery->commit.step > 0;
    plan->commit = recovery->commit;
    explain(context, recovery, plan);

    unsigned holder_count = 0;
    AUTO_FREE struct transfer_holder *holders =
        list_holders(context, survivors, recovery, &holder_count);
    r = holders == NULL ? -ENOMEM : leader_transfer(context, plan, holders, holder_count);
    if (r < 0) {
        plan_free(plan);
        return r;
    }
    leader_act(context, LEADER_PUBLISH, plan);
    leader_say(context, JOB_RECOVERING, "%s", plan->reason_text);
    return 0;
}

static int restart_on_survivors(struct leader_context *context, const struct survivors *survivors,
                                const struct recovery *recovery, const char *why)
{
    struct slot_pool pool = {0};
    int r = pool_survivors(context, survivors, recovery, &pool);
    if (r == 0)
        r = slot_pool_add_free(context, &pool);
    if (r == 0)
        r = leader_restart(context, &pool, PLAN_REASON_FAILURE, why);
    slot_pool_done(&pool);
    return r;
}

static int fall_back(struct leader_context *context, const struct survivors *survivors,
                     const struct recovery *recovery, const char *contradiction)
{
    const struct plan *plan = context->view->plan;
    if (plan->worker_count == 0 || context->view->desired == JOB_DESIRED_PAUSED)
        return leader_empty_plan(context, PLAN_REASON_PAUSE, false,
                                 "state is incomplete: the newest checkpoint counts");
    char lost[120], why[224];
    name_lost(context, lost, sizeof(lost));
    if (contradiction != NULL)
        snprintf(why, sizeof(why), "reports contradict each other (%.180s)", contradiction);
    else if (recovery->step > 0)
        snprintf(why, sizeof(why), "lost %s, only step %llu survives",
                 lost[0] != '\0' ? lost : "state", (unsigned long long)recovery->step);
    else
        snprintf(why, sizeof(why), "lost %s, unit %u has no survivor",
                 lost[0] != '\0' ? lost : "state", recovery->missing_unit);
    int r = restart_on_survivors(context, survivors, recovery, why);
    bool waits_for_slots = context->decision->plan == NULL && !context->decision->misses_checkpoint;
    if (r == 0 && waits_for_slots && leader_cuts_give_in(context))
        r = restart_on_survivors(context, survivors, recovery, why);
    return r;
}

/* Whoever does not answer, or never came up, is not asked again at once. */
static void avoid_the_unheard(struct leader_context *context)
{
    bool timed_out = start_timed_out(context);
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        bool hangs =
            timed_out && member->seat == SEAT_JOINING && member->report->phase == WORKER_STARTING;
        if (member->node != NULL && (hangs || !is_heard(context, member)) && !is_survivor(member))
            leader_avoid(context, member->node_name, member->slot);
    }
}

/*
 * State that somebody kept through generations that went on without it, until they ended: what they
 * saved is newer.
 */
static bool is_outdated(const struct leader_context *context, const struct recovery *recovery)
{
    return recovery->kind != RECOVERY_CHECKPOINT && recovery->step < context->view->checkpoint.step;
}

struct remains {
    const struct survivors *survivors;
    const struct recovery *recovery;
};

/* Is every unit on a node that is not left out? */
static bool state_stays(const struct leader_context *context, const void *argument)
{
    const struct remains *remains = argument;
    bool covered[STEP_RECORD_UNITS_MAX] = {false};
    for (unsigned i = 0; i < remains->survivors->count; i++) {
        struct recovery_range ranges[REPORT_RANGES_MAX];
        if (leader_cuts_leave_out(context, remains->survivors->members[i]->node))
            continue;
        unsigned count =
            recovery_ranges(remains->recovery, &remains->survivors->reports[i], ranges);
        for (unsigned n = 0; n < count; n++)
            cover(covered, ranges[n].first, ranges[n].count);
    }
    for (unsigned unit = 0; unit < job_spec_unit_count(context->view->spec); unit++)
        if (!covered[unit])
            return false;
    return true;
}

static bool any_may_go(const struct leader_context *context, const void *argument)
{
    (void)context;
    (void)argument;
    return true;
}

static int recover(struct leader_context *context, struct survivors *survivors,
                   struct recovery *recovery)
{
    const struct job_spec *spec = context->view->spec;
    struct error contradiction = {0};
    int r = gather(context, survivors);
    if (r == 0)
        r = recovery_decide(survivors->reports, survivors->count, job_spec_unit_count(spec),
                            spec->train.lanes, recovery, &contradiction);
    if (r == -EBADMSG)
        *recovery = (struct recovery){.kind = RECOVERY_CHECKPOINT};
    else if (r < 0)
        return r;
    if (is_outdated(context, recovery))
        recovery->kind = RECOVERY_CHECKPOINT;
    bool falls_back = recovery->kind == RECOVERY_CHECKPOINT;
    if (must_wait(context, survivors, falls_back)) {
        leader_say(context, JOB_RECOVERING, "a worker failed: waits for %u to be heard of",
                   survivors->unheard + survivors->doubtful);
        return 0;
    }
    avoid_the_unheard(context);
    struct remains remains = {survivors, recovery};
    leader_cuts_choose(context, falls_back ? any_may_go : state_stays, &remains);
    return falls_back
               ? fall_back(context, survivors, recovery, r == -EBADMSG ? contradiction.text : NULL)
               : publish_from_memory(context, survivors, recovery);
}

int leader_recover(struct leader_context *context)
{
    if (context->memory->failure_seen_ns == 0)
        context->memory->failure_seen_ns = context->view->now_ns;
    leader_cuts_note(context);
    struct survivors survivors = {0};
    AUTO_FREE struct recovery *recovery = calloc(1, sizeof(*recovery));
    int r = recovery == NULL ? -ENOMEM : recover(context, &survivors, recovery);
    free(survivors.reports);
    free(survivors.members);
    return r;
}
