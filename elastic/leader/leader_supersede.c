/*
 * Problem: a planned change begins when every worker of the running generation that the change
 * needs has heard of it. When the firnd of one of these workers dies just then, the worker cannot
 * hear of it: training continues in the previous generation, and this change, and every later one,
 * waits for that firnd. New workers that the change has started wait for as long as the running
 * generation computes its step. One of them may die, or find that a host does not answer: then the
 * change cannot begin any more, though nothing is lost.
 *
 * Design: the leader publishes another plan in its place. The plan of the running generation is
 * gone from etcd, so the new plan is made from the workers' own reports: each worker's generation
 * and units. The new plan follows the running generation and not the change that never began,
 * because rank 0 of the running generation begins the plan, and the records of that generation
 * still count. The new plan needs no worker whose node is gone: such a worker sees at the boundary
 * that its peers leave, and its slot is free again when its firnd is back. Only processes that are
 * present already take part.
 *
 * The same plan corrects a change that the user does not want any more: another shape is asked for,
 * or more devices again than the change leaves. Where processes lack for it, the change begins
 * first, and the leader plans from there.
 *
 * Invariants: nothing is published while any worker has entered the change in force, or while a
 * unit is only on nodes that are gone. No rank 0 begins a plan that follows another generation than
 * its own (worker/session/session.c). So if the first change begins after all, at the last moment,
 * the second one never does, and is itself superseded by a plan that follows the first. A change
 * with a lost new worker, or with a donor on a lost node, never begins, though workers may have
 * been told to leave their step for it and end a long operation first: the plan that replaces it
 * revokes it (elastic/plan/plan_change.h), and they enter that plan instead.
 *
 * If rank 0 of the running generation is on the lost node, no rank 0 would begin that plan. Then
 * the new plan breaks off: every worker that hears of it leaves the running generation at once and
 * reports its state, as after a failure, which this has become; elastic/leader/leader_recover.c
 * continues from there. Every unit is on a node that hears, so no step is lost; one step is
 * computed twice.
 */
#include "elastic/leader/leader_supersede.h"

#include <errno.h>
#include <stdio.h>

#include "base/timeouts.h"
#include "elastic/leader/leader_netsplit.h"
#include "elastic/plan/plan_words.h"

/* Return whether the member trains in the running generation, before the plan in force. */
static bool is_running(const struct roster_member *member)
{
    return member->node && member->seat == SEAT_JOINING && roster_has_state(member) &&
           member->report->phase == WORKER_RUNNING;
}

/* Return whether the member has no state and was prepared for the plan in force. */
static bool is_prepared(const struct leader_context *context, const struct roster_member *member)
{
    return member->node && member->report && !roster_has_state(member) &&
           member->report->phase == WORKER_PREPARED &&
           member->report->generation == context->view->plan->generation;
}

/* Return whether the member hands over state in the running generation, which releases it at the
 * end of its first step, which may be long. */
static bool hands_over(const struct roster_member *member)
{
    return member->node && member->seat == SEAT_JOINING && roster_has_state(member) &&
           member->report->phase == WORKER_PREPARED;
}

uint64_t leader_running_generation(const struct leader_context *context)
{
    uint64_t generation = 0;
    bool runs = false;
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (!member->node)
            continue;
        bool takes_part = is_running(member) || hands_over(member);
        if (member->seat == SEAT_LEFT || (roster_has_state(member) && !takes_part))
            return 0;
        if (!takes_part)
            continue;
        if (generation != 0 && member->report->generation != generation)
            return 0;
        generation = member->report->generation;
        runs = runs || is_running(member);
    }
    return runs ? generation : 0;
}

bool leader_change_waits(const struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    return plan->change.planned && leader_running_generation(context) == plan->follows;
}

bool leader_gave_up(const struct leader_context *context, const struct roster_member *member)
{
    const struct plan *plan = context->view->plan;
    if (!plan->change.planned || !roster_is_worker(&context->roster, member))
        return false;
    bool was_new = plan_worker_is_new(&plan->layout.workers[member->rank]);
    return member->seat == SEAT_BROKEN ? !roster_has_state(member)
                                       : member->seat == SEAT_LOST && was_new;
}

/* Return whether the links to a donor cannot be made: its node is gone. */
static bool is_gone_donor(const struct leader_context *context, const struct roster_member *member)
{
    const struct plan *plan = context->view->plan;
    return plan->change.planned && !member->node && plan->layout.worker_count > 0 &&
           member->rank >= (int)plan->layout.worker_count;
}

bool leader_change_is_dead(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++)
        if (leader_gave_up(context, &context->roster.members[i]) ||
            is_gone_donor(context, &context->roster.members[i]))
            return true;
    return false;
}

/* Return whether rank 0 of the running generation reports, so that it has heard of the plan too. */
static bool root_hears(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++)
        if (is_running(&context->roster.members[i]) && context->roster.members[i].report->root)
            return true;
    return false;
}

/* Return whether the user asks for something else than the planned change in force brings. */
static bool is_regretted(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct plan *plan = view->plan;
    return plan->change.planned && plan->layout.worker_count > 0 && leader_regrets(view, plan);
}

/* Return a node that is gone and has a member that must hear of the plan in force; NULL: none. */
static const char *find_gone(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++)
        if (context->roster.members[i].rank >= 0 && !context->roster.members[i].node)
            return context->roster.members[i].node_name;
    return NULL;
}

static struct state_moves_range stage_of(const struct roster_member *member)
{
    return (struct state_moves_range){member->report->held_first_unit,
                                      member->report->held_unit_count};
}

/* Pool the workers of the running generation and the prepared ones.
 * @draining: also the running ones on nodes that drain */
static int pool_present(struct leader_context *context, bool draining, struct slot_pool *pool)
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        bool runs = is_running(member);
        if (!runs && !is_prepared(context, member))
            continue;
        if (member->node->draining && !(runs && draining))
            continue;
        struct state_moves_range held = {0, 0};
        if (runs)
            held = stage_of(member);
        int status = slot_pool_add(context, pool, member->node, member->slot,
                                   runs ? member->report->instance : 0, runs ? &held : NULL);
        if (status < 0)
            return status;
    }
    return 0;
}

/* List the units of a worker in its running generation: its stage, and the stages that it shadows.
 * Units of the previous generation were dropped with the first commit. */
static void list_kept(const struct roster_member *member,
                      struct state_moves_range ret_held[STATE_MOVES_RANGES_MAX])
{
    unsigned count = 0;
    ret_held[count++] = stage_of(member);
    for (unsigned i = 0; i < member->report->extra_count; i++)
        if (member->report->extras[i].shadows)
            ret_held[count++] = (struct state_moves_range){member->report->extras[i].first,
                                                           member->report->extras[i].count};
}

static int add_moves(struct leader_context *context, struct plan *plan)
{
    const struct roster *roster = &context->roster;
    AUTO_FREE struct state_moves_holder *holders =
        calloc((size_t)roster->count + 1, sizeof(*holders));
    if (!holders)
        return -ENOMEM;
    unsigned count = 0;
    for (unsigned i = 0; i < roster->count; i++) {
        if (!is_running(&roster->members[i]))
            continue;
        holders[count] = leader_holder(&roster->members[i], &context->view->plan->layout);
        list_kept(&roster->members[i], holders[count++].held);
    }
    return leader_transfer(context, plan, holders, count);
}

/* Say why the plan in force does not begin: @gone; if NULL, another generation than the one it
 * follows runs, or it has taken too long. */
static void explain(const struct leader_context *context, const char *gone, struct plan *plan)
{
    unsigned long long held_up = context->view->plan->generation;
    char layout[LAYOUT_WORDS_SIZE];
    plan_layout_words(plan->layout.stage_count, plan->layout.replica_count, layout);
    if (gone)
        snprintf(plan->change.text, sizeof(plan->change.text),
                 "node %.63s is gone and cannot hear of generation %llu: %s instead%s", gone,
                 held_up, layout,
                 plan->change.breaks_off ? ", broken off, for rank 0 is gone" : "");
    else if (plan->change.breaks_off)
        snprintf(plan->change.text, sizeof(plan->change.text),
                 "rank 0 is gone, so generation %llu cannot begin: %s instead, broken off", held_up,
                 layout);
    else if (leader_change_is_dead(context))
        snprintf(plan->change.text, sizeof(plan->change.text),
                 "a new worker of generation %llu is gone: %s instead", held_up, layout);
    else if (is_regretted(context))
        snprintf(plan->change.text, sizeof(plan->change.text),
                 "something else is asked for than generation %llu: %s instead", held_up, layout);
    else
        snprintf(plan->change.text, sizeof(plan->change.text),
                 "generation %llu was made for a layout that is over: %s instead", held_up, layout);
}

/* Revoke the plan in force if one of its new workers is gone, and in any case the plans that it has
 * revoked.
 */
static void revoke(const struct leader_context *context, struct plan_change *change)
{
    const struct plan *plan = context->view->plan;
    change->revokes_first = plan->change.revokes_first;
    change->revokes_last = plan->change.revokes_last;
    if (!leader_change_is_dead(context))
        return;
    if (change->revokes_first == 0)
        change->revokes_first = plan->generation;
    change->revokes_last = plan->generation;
}

static void publish(struct leader_context *context, uint64_t generation, const char *gone,
                    struct plan *plan)
{
    plan->change.breaks_off = !root_hears(context);
    revoke(context, &plan->change);
    if (!is_regretted(context)) /* the limit still holds */
        plan->change.asked_devices = context->view->plan->change.asked_devices;
    plan->change.reason = gone || !is_regretted(context) ? PLAN_REASON_DRAIN : PLAN_REASON_SCALE;
    plan->change.planned = true;
    plan->start.source = PLAN_SOURCE_MEMORY;
    plan->start.resume_step = context->view->progress.step;
    explain(context, gone, plan);
    leader_act(context, LEADER_PUBLISH, plan);
    plan->follows = generation;
    leader_say(context, JOB_RUNNING, "%s", plan->change.text);
}

static int make_plan(struct leader_context *context, bool draining, struct plan **ret_plan)
{
    struct slot_pool pool = {0};
    struct plan *plan = NULL;
    int status = pool_present(context, draining, &pool);
    if (status == 0)
        status = pool.count < leader_devices_min(context->view)
                     ? -ENOSPC
                     : leader_layout(context, &pool, context->view->progress.frozen_layers, &plan);
    slot_pool_done(&pool);
    if (status == 0)
        status = add_moves(context, plan);
    if (status == 0)
        *ret_plan = plan;
    else
        plan_free(plan);
    return status;
}

/* Workers that left a step for a dead change need a generation in which they all meet: nodes that
 * drain stay for it where the others are not enough. */
static int plan_anew(struct leader_context *context, uint64_t generation, const char *gone)
{
    struct plan *plan = NULL;
    int status = make_plan(context, false, &plan);
    if ((status == -ENOSPC || status == -ENODATA) && leader_change_is_dead(context))
        status = make_plan(context, true, &plan);
    if (status == 0) {
        publish(context, generation, gone, plan);
        return 0;
    }
    if (status != -ENOSPC && status != -ENODATA)
        return status;
    if (gone)
        leader_add(context, "; waits for node %s, %s", gone,
                   status == -ENOSPC ? "without which there are not enough slots"
                                     : "which alone has some of the state");
    return 0;
}

int leader_supersede(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    struct leader_memory *memory = context->memory;
    uint64_t generation = leader_running_generation(context);
    const char *gone = find_gone(context);
    bool held_up = gone || generation != view->plan->follows || leader_change_is_dead(context) ||
                   is_regretted(context);
    if (generation == 0 || view->plan->change.breaks_off || (!held_up && root_hears(context))) {
        instant_clear(&memory->gone_seen);
        return 0;
    }
    leader_netsplit_note(context); /* new workers may have given up for that */
    instant_note(&memory->gone_seen, view->now_ns);
    uint64_t due =
        memory->gone_seen.ns +
        (held_up ? TIMEOUTS_UNHEARD_GONE : TIMEOUTS_UNHEARD_SILENT) * view->failure_timeout_ns;
    if (view->now_ns >= due)
        return plan_anew(context, generation, gone);
    leader_wake(context, due);
    return 0;
}
