#include "elastic/leader/leader_survivors.h"

#include <errno.h>
#include <string.h>

/* Drop units of the previous generation: there are no gradients for them. */
static void drop_leftovers(struct worker_report *report)
{
    unsigned kept = 0;
    report->old_unit_count = 0;
    for (unsigned i = 0; i < report->extra_count; i++)
        if (report->extras[i].shadows)
            report->extras[kept++] = report->extras[i];
    report->extra_count = kept;
}

static void let_go(struct worker_report *report)
{
    report->held_unit_count = report->old_unit_count = report->extra_count = 0;
    report->record.step = 0;
}

/* Return whether @rank's state is neither used by @plan, which is in force after a failure, nor
 * kept aside. */
static bool lets_go(const struct plan *plan, int rank, const struct worker_report *report)
{
    if (plan->start.source != PLAN_SOURCE_MEMORY ||
        (rank < 0 && report->generation < plan->follows))
        return true;
    return (rank < 0 || plan_worker_is_new(&plan->layout.workers[rank])) &&
           report->applied_step != plan->start.resume_step;
}

/* Return whether the worker has read its state for the plan in force, from a checkpoint that would
 * not be used again. After a dispute its state may be older than the dispute. */
static bool has_read(const struct leader_view *view, const struct worker_report *report)
{
    const struct plan *plan = view->plan;

    return view->checkpoint.step != plan->start.resume_step &&
           plan->start.source == PLAN_SOURCE_CHECKPOINT && !plan->start.disputed &&
           report->phase == WORKER_PREPARED && report->generation == plan->generation &&
           report->applied_step == plan->start.resume_step;
}

/* Change the report as if its worker had obeyed @plan, which broke. Return: whether it applied the
 * commit and kept its state. */
static bool obey_plan(const struct plan *plan, int rank, struct worker_report *report)
{
    bool applies = plan->start.has_commit && report->holds &&
                   report->applied_step + 1 == plan->start.commit.step;
    if (applies) {
        report->applied_step = plan->start.commit.step;
        report->record = plan->start.commit;
        drop_leftovers(report);
    } else if (report->holds) {
        report->record.step = 0;
    }
    report->holds = false;
    if (!lets_go(plan, rank, report))
        return applies;
    let_go(report);
    return false;
}

bool leader_is_heard(const struct leader_context *context, const struct roster_member *member)
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
    case SEAT_ASIDE:
    case SEAT_LOST:
    case SEAT_LEFT:
    case SEAT_SPARE:
        break;
    }
    return true;
}

bool leader_is_survivor(const struct roster_member *member)
{
    if (!member->node || !member->report || !roster_has_state(member))
        return false;
    return member->seat == SEAT_BROKEN || member->seat == SEAT_ASIDE ||
           member->report->phase == WORKER_FINISHED ||
           (member->seat == SEAT_JOINING && member->report->phase != WORKER_RUNNING);
}

/*
 * Return whether the member does not deserve the whole wait: it has no rank, or peers lost its node
 * and no report has arrived from there since. A node with a report has a live firnd, so a worker of
 * it that is only late gets the whole wait.
 */
static bool is_spared(const struct leader_context *context, const struct roster_member *member)
{
    const struct roster *roster = &context->roster;
    if (member->rank < 0)
        return true;
    for (unsigned i = 0; i < roster->count; i++) {
        const struct roster_member *other = &roster->members[i];
        bool speaks = other->report && leader_is_heard(context, other) && other->rank >= 0;
        if (speaks && strcmp(other->node_name, member->node_name) == 0)
            return false;
    }
    return roster_accused(roster, member);
}

/* Return whether the member, which has no rank in the plan, trains until the switch to it. */
static bool trains_until_the_switch(const struct plan *plan, const struct roster_member *member)
{
    return member->rank < 0 && plan->change.planned && member->report &&
           member->report->generation == plan->follows;
}

/*
 * Return whether the member was never in the generation that its report names as a worker: a donor,
 * which hands over and stays behind, or a worker that was still entering it at its last report, and
 * may have died since. A donor of the previous generation may still be present when the next change
 * is planned; it looks like the workers that leave.
 */
static bool stands_beside(const struct roster *roster, const struct roster_member *member)
{
    const struct plan *plan = roster->view->plan;
    uint64_t generation = member->report->generation;
    if (generation == plan->generation)
        return !roster_is_worker(roster, member) || member->seat == SEAT_JOINING;
    return trains_until_the_switch(plan, member);
}

int leader_survivors_gather(const struct leader_context *context,
                            struct leader_survivors *survivors)
{
    const struct roster *roster = &context->roster;
    survivors->reports = calloc((size_t)roster->count + 1, sizeof(*survivors->reports));
    survivors->members = calloc((size_t)roster->count + 1, sizeof(const struct roster_member *));
    if (!survivors->reports || !survivors->members)
        return -ENOMEM;
    for (unsigned i = 0; i < roster->count; i++) {
        const struct roster_member *member = &roster->members[i];
        if (!member->node) {
            survivors->absent += roster_has_state(member) && member->seat != SEAT_LOST;
            continue;
        }
        if (!leader_is_heard(context, member)) {
            survivors->unheard++;
            survivors->unheard_and_spared += is_spared(context, member);
            survivors->unheard_of_before += trains_until_the_switch(context->view->plan, member);
        }
        survivors->doubtful += member->seat == SEAT_JOINING && leader_is_heard(context, member) &&
                               member->report->phase != WORKER_STARTING &&
                               context->view->plan->start.source == PLAN_SOURCE_MEMORY;
        if (!leader_is_survivor(member))
            continue;
        struct worker_report *report = &survivors->reports[survivors->count];
        worker_report_copy(member->report, report);
        if (stands_beside(roster, member))
            report->generation = 0;
        if (member->seat == SEAT_JOINING && !context->view->plan->change.planned &&
            !has_read(context->view, member->report))
            survivors->obeyed_commit |= obey_plan(context->view->plan, member->rank, report);
        survivors->members[survivors->count++] = member;
    }
    return 0;
}

void leader_cover(bool covered[STEP_RECORD_UNITS_MAX], unsigned first, unsigned count)
{
    for (unsigned unit = first; unit < MIN(first + count, (unsigned)STEP_RECORD_UNITS_MAX); unit++)
        covered[unit] = true;
}

void leader_survivors_done(struct leader_survivors *survivors)
{
    free(survivors->reports);
    free(survivors->members);
}
