/*
 * Planned changes: a working generation is replaced by a better or a required one.
 *
 * Design: the layout of the plan in force tells which worker holds which units only once every
 * worker reports that it runs in that plan, so no change is planned before. A layout that needs new
 * processes is written as `next` first and published when they are prepared; a layout that needs
 * none is published at once. Free slots that would help are watched for one failure_timeout first,
 * so that nodes that join together make one generation.
 *
 * Failure modes: `next` is useless when a node that it needs goes: `next` is dropped, the failed
 * slot is avoided for a while, and planning begins again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "base/size_words.h"
#include "base/timeouts.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_internal.h"
#include "elastic/leader/leader_netsplit.h"
#include "elastic/leader/leader_pace.h"
#include "elastic/leader/leader_pair_loss.h"
#include "elastic/leader/leader_slow.h"
#include "elastic/leader/leader_starting.h"
#include "elastic/leader/leader_supersede.h"
#include "elastic/leader/leader_trial.h"
#include "elastic/plan/early_switch.h"
#include "elastic/plan/plan_words.h"
#include "elastic/planner/shadow_stages.h"
#include "elastic/recovery/sum_moves.h"

#define GAIN_LEAST 0.05 /* of the step time, for an optional change */

/* The reasons why the layout in force may not stay. */
struct demand {
    const char *draining, *absent; /* a node that must be left */
    bool scale;                    /* more devices than the user wants, or another shape */
    bool frozen, thawed;           /* more, or fewer, layers than the layout was made for */
    bool slow;                     /* a worker is slower than the plan knows, or no longer slow */
    bool slower;                   /* the layout is slower than the one it replaced for speed */
};

static bool must_change(const struct demand *demand)
{
    return demand->draining || demand->absent || demand->scale;
}

static struct demand find_demand(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct plan *plan = view->plan;
    struct demand demand = {0};
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (!roster_is_worker(&context->roster, member))
            continue;
        if (!member->node && !demand.absent)
            demand.absent = member->node_name;
        else if (member->node && member->node->draining && !demand.draining)
            demand.draining = member->node_name;
    }
    /* Do not give up slots while leaving a node: the plan after it is early enough. */
    if (demand.draining || demand.absent)
        context->gives = 0;
    demand.scale = plan->layout.worker_count > leader_devices_now(context) ||
                   !leader_wants(view, &plan->layout);
    demand.frozen = view->progress.frozen_layers > plan->layout.frozen_layers;
    demand.thawed = leader_pace_has_thawed(view);
    demand.slow = leader_slow_found(context);
    demand.slower = !must_change(&demand) && leader_trial_has_failed(context);
    return demand;
}

static struct state_moves_range units_of_rank(const struct plan_layout *layout, unsigned rank)
{
    unsigned stage = rank % layout->stage_count;
    unsigned first = layout->stage_first_unit[stage];
    return (struct state_moves_range){first, layout->stage_first_unit[stage + 1] - first};
}

/* Pool the running workers that may stay, and every free slot. */
static int pool_for_change(struct leader_context *context, struct slot_pool *pool)
{
    const struct roster *roster = &context->roster;
    for (unsigned i = 0; i < roster->count; i++) {
        const struct roster_member *member = &roster->members[i];
        if (!roster_is_worker(roster, member) || !member->node || member->node->draining)
            continue;
        struct state_moves_range held =
            units_of_rank(&context->view->plan->layout, (unsigned)member->rank);
        int status = slot_pool_add(context, pool, member->node, member->slot,
                                   member->report->instance, &held);
        if (status < 0)
            return status;
    }
    leader_netsplit_choose(context, NULL, NULL);
    return slot_pool_add_free(context, pool, context->view->queue.kept);
}

static bool needs_processes(const struct plan_layout *layout)
{
    for (unsigned rank = 0; rank < layout->worker_count; rank++)
        if (plan_worker_is_new(&layout->workers[rank]))
            return true;
    return false;
}

/* Return whether @layout gains by kept outputs and not by more slots. */
static bool loads_more(const struct leader_context *context, const struct plan_layout *layout)
{
    const struct leader_progress *progress = &context->view->progress;

    return progress->kept.unit_count > 0 &&
           layout->worker_count <= context->view->plan->layout.worker_count;
}

/* Return whether @layout is for layers that train again and not for more slots. */
static bool is_for_thaw(const struct leader_context *context, const struct demand *demand,
                        const struct plan_layout *layout)
{
    return demand->thawed && layout->worker_count <= context->view->plan->layout.worker_count;
}

static void explain(struct leader_context *context, const struct demand *demand, struct plan *plan)
{
    const struct leader_view *view = context->view;
    char why[160], layout[LAYOUT_WORDS_SIZE], step[64] = "", pause[48] = "";
    if (demand->draining) {
        plan->change.reason = PLAN_REASON_DRAIN;
        snprintf(why, sizeof(why), "node %s drains", demand->draining);
    } else if (demand->absent) {
        plan->change.reason = PLAN_REASON_DRAIN;
        snprintf(why, sizeof(why), "node %s is gone from the cluster", demand->absent);
    } else if (demand->scale) {
        plan->change.reason = PLAN_REASON_SCALE;
        if (context->gives > 0)
            snprintf(why, sizeof(why), "job %s waits for slots", view->queue.first);
        else
            snprintf(why, sizeof(why), "another scale is asked for");
        if (view->plan->layout.worker_count > leader_devices_max(view))
            plan->change.asked_devices = leader_devices_max(view);
    } else if (demand->slower) {
        plan->change.reason = PLAN_REASON_FREEZE;
        leader_trial_words(context, why, sizeof(why));
    } else if (demand->frozen) {
        plan->change.reason = PLAN_REASON_FREEZE;
        snprintf(why, sizeof(why), "%u layer%s frozen", view->progress.frozen_layers,
                 view->progress.frozen_layers == 1 ? " is" : "s are");
    } else if (is_for_thaw(context, demand, &plan->layout)) {
        unsigned thawed = view->plan->layout.frozen_layers - view->progress.frozen_layers;
        plan->change.reason = PLAN_REASON_FREEZE;
        snprintf(why, sizeof(why), "%u layer%s again", thawed, thawed == 1 ? " trains" : "s train");
    } else if (leader_slow_words(context, &plan->layout, why, sizeof(why))) {
        plan->change.reason = PLAN_REASON_STRAGGLER;
    } else if (loads_more(context, &plan->layout)) {
        plan->change.reason = PLAN_REASON_FREEZE;
        snprintf(why, sizeof(why), "outputs of %u frozen layers are kept",
                 view->progress.kept.unit_count / 2);
    } else if (view->wish.devices != 0) {
        plan->change.reason = PLAN_REASON_SCALE;
        snprintf(why, sizeof(why), "up to %u slot%s asked for", view->wish.devices,
                 view->wish.devices == 1 ? " is" : "s are");
    } else {
        plan->change.reason = PLAN_REASON_JOIN;
        snprintf(why, sizeof(why), "free slots are put to use");
    }
    if (plan->change.switch_seconds > 0)
        snprintf(pause, sizeof(pause), ", the last switch took %.0f ms",
                 plan->change.switch_seconds * 1e3);
    double step_seconds = leader_pace_of(&context->memory->pace, &view->plan->layout);
    if (step_seconds > 0)
        snprintf(step, sizeof(step), ", before %.1f ms (predicted %.1f ms)", step_seconds * 1e3,
                 plan_layout_expected_seconds(&view->plan->layout) * 1e3);
    int length = snprintf(
        plan->change.text, sizeof(plan->change.text),
        "%s: %s -> %u x %u, predicted step %.1f ms%s%s", why,
        plan_layout_words(view->plan->layout.stage_count, view->plan->layout.replica_count, layout),
        plan->layout.stage_count, plan->layout.replica_count,
        plan_layout_expected_seconds(&plan->layout) * 1e3, step, pause);
    if (length >= (int)sizeof(plan->change.text))
        memcpy(plan->change.text + sizeof(plan->change.text) - sizeof("..."), "...", sizeof("..."));
}

/* List the units of a running worker: its stage and the stages that it shadows. */
static void list_kept(const struct plan_layout *layout, unsigned rank,
                      struct state_moves_range ret_held[STATE_MOVES_RANGES_MAX])
{
    unsigned count = 0;
    ret_held[count++] = units_of_rank(layout, rank);
    for (unsigned i = 0; i < layout->shadow_count; i++)
        if (layout->shadows[i].rank == rank) {
            assert(count < STATE_MOVES_RANGES_MAX);
            ret_held[count++] = units_of_rank(layout, layout->shadows[i].stage);
        }
}

/* Return whether a worker computes on a GPU, where sums stay. */
static bool uses_gpus(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        for (unsigned k = 0; member->node && k < member->node->slot_count; k++)
            if (member->node->slots[k].index == member->slot && member->node->slots[k].gpu)
                return true;
    }
    return false;
}

/* Return whether the sums of a whole model, which are about as large as its state, arrive in half
 * of the time before a node goes: links that break under way would cost more than the sums. */
static bool sums_arrive_in_time(struct leader_context *context)
{
    uint64_t left_ns = leader_time_left(context);
    double link_bytes_per_second, sum_bytes = 0;
    AUTO_FREE size_t *unit_bytes =
        leader_unit_bytes(context, context->view->progress.frozen_layers, &link_bytes_per_second);
    unsigned units = job_model_unit_count(&context->view->spec->model);
    for (unsigned unit = 0; unit_bytes && unit < units; unit++)
        sum_bytes += (double)unit_bytes[unit];
    return unit_bytes &&
           (left_ns == UINT64_MAX || 2e9 * sum_bytes / link_bytes_per_second < (double)left_ns);
}

/* Return whether sums may move: a step takes so long that a change may begin before its end. */
static bool sums_may_move(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    double seconds = MAX(view->progress.step_seconds, leader_pace_seconds(&context->memory->pace));
    if (seconds <= 0)
        seconds = plan_layout_expected_seconds(&view->plan->layout);
    return seconds > early_switch_gain_seconds(0) && !uses_gpus(context) &&
           sums_arrive_in_time(context);
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
        if (!roster_is_worker(roster, &roster->members[i]) || !roster->members[i].node)
            continue; /* a worker whose node is gone cannot be told to hand over */
        holders[count] = leader_holder(&roster->members[i], &context->view->plan->layout);
        list_kept(&context->view->plan->layout, (unsigned)roster->members[i].rank,
                  holders[count++].held);
    }
    int status = leader_transfer(context, plan, holders, count);
    if (status == 0 && sums_may_move(context))
        status = sum_moves_fill(plan, &context->view->plan->layout, holders, count,
                                job_model_frozen_units(context->view->progress.frozen_layers));
    return status;
}

static void say_running(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct plan *plan = view->plan;
    char layout[LAYOUT_WORDS_SIZE];
    plan_layout_words(plan->layout.stage_count, plan->layout.replica_count, layout);
    if (view->progress.generation == plan->generation &&
        view->progress.step == view->spec->train.steps)
        leader_say(context, JOB_RUNNING, "all steps are committed: the finished model is %ssaved",
                   view->spec->evaluate.every ? "evaluated and " : "");
    else if (view->progress.step_seconds > 0)
        leader_say(context, JOB_RUNNING, "%s, step %.1f ms (predicted %.1f ms)", layout,
                   view->progress.step_seconds * 1e3,
                   plan_layout_expected_seconds(&plan->layout) * 1e3);
    else
        leader_say(context, JOB_RUNNING, "%s", layout);
    unsigned bare = view->spec->elastic.shadow ? shadow_stages_bare_stages(&plan->layout) : 0;
    if (bare > 0)
        leader_add(context,
                   "; %u %s no shadow: no worker of another node has room, so losing a node may go "
                   "back to a checkpoint",
                   bare, bare == 1 ? "stage has" : "stages have");
    leader_slow_say(context);
    leader_compatibility_say(context);
}

/* Return whether to wait a little for more reasons to change to @layout or a similar one, so that
 * several improvements become one change. */
static bool must_wait(struct leader_context *context, const struct demand *demand,
                      const struct plan_layout *layout)
{
    const struct leader_view *view = context->view;
    struct leader_memory *memory = context->memory;
    if (demand->draining || demand->scale || demand->frozen || demand->slow || demand->slower ||
        is_for_thaw(context, demand, layout))
        return false;
    instant_note(&memory->better_seen, view->now_ns);
    uint64_t due = memory->better_seen.ns + view->failure_timeout_ns;
    if (view->now_ns >= due)
        return false;
    leader_wake(context, due);
    return true;
}

/* Checkpoint and leave: other slots could take the state, but there is no time to move it. */
static int save_in_time(struct leader_context *context, const struct demand *demand,
                        const struct preemption *numbers)
{
    char text[PLAN_REASON_SIZE], size[SIZE_WORDS_SIZE];
    snprintf(text, sizeof(text),
             "node %.63s goes in %.1f s, handing over %s would take %.1f s: checkpoint",
             demand->draining, (double)numbers->left_ns / 1e9,
             size_words(numbers->alone_bytes, size), preemption_seconds(numbers));
    return leader_empty_plan(context, PLAN_REASON_DRAIN, true, text);
}

/* Return whether @layout shadows every stage that a single node could take along, and the plan in
 * force does not. */
static bool covers_more(const struct leader_context *context, const struct plan_layout *layout)
{
    return context->view->spec->elastic.shadow && shadow_stages_bare_stages(layout) == 0 &&
           shadow_stages_bare_stages(&context->view->plan->layout) > 0;
}

/* Wait for a node whose lease is gone: its workers continue to train, but only its firnd can tell
 * them to hand over their state. */
static int wait_for_absent(struct leader_context *context, const struct demand *demand)
{
    leader_add(context, "; waits for node %s, which alone has some of the state", demand->absent);
    return 0;
}

/* Limit the wait of the change for the end of a step, so that a leaving node has the time to hand
 * over its state. */
static void limit_change(struct leader_context *context, const struct demand *demand,
                         struct plan_change *change)
{
    uint64_t patience_ns = TIMEOUTS_STEP_END * context->view->failure_timeout_ns;
    struct preemption numbers;
    leader_preempted(context, false, &numbers);
    change->is_limited = must_change(demand);
    change->spare_ns = MIN(PLAN_SPARE_ENDLESS, preemption_spare_ns(&numbers));
    change->limit_ns = MIN(patience_ns, change->spare_ns);
}

/* Learn the planner's error from the plan in force: slots are slower together than alone, and links
 * are slower than in their first measurement. The plan was predicted again, to @now_seconds,
 * because its slots may have been measured after it was made. A step with other frozen layers than
 * the plan was made for proves nothing: it may load kept outputs. */
static void calibrate(struct leader_context *context, double now_seconds,
                      struct plan_layout *layout)
{
    const struct leader_view *view = context->view;
    double *factor = &context->memory->prediction_factor;
    double step_seconds = leader_pace_seconds(&context->memory->pace);
    if (step_seconds > 0 && now_seconds > 0 &&
        view->progress.frozen_layers == view->plan->layout.frozen_layers)
        *factor = step_seconds / now_seconds;
    layout->prediction_factor = *factor > 0 ? *factor : view->plan->layout.prediction_factor;
}

/* Take the planner's layout, keep it for later or drop it. */
static int weigh(struct leader_context *context, const struct demand *demand,
                 const struct slot_pool *pool, struct plan *plan)
{
    double now_seconds;
    int status = leader_predict(context, pool, &context->view->plan->layout,
                                context->view->progress.frozen_layers, &now_seconds);
    bool worth = must_change(demand) || demand->slower || covers_more(context, &plan->layout) ||
                 plan->layout.predicted_step_seconds < (1 - GAIN_LEAST) * now_seconds;
    if (status == 0 && !worth)
        instant_clear(&context->memory->better_seen);
    if (status == 0)
        calibrate(context, now_seconds, &plan->layout);
    if (status < 0 || !worth || must_wait(context, demand, &plan->layout)) {
        plan_free(plan);
        return status;
    }
    struct preemption numbers;
    if (demand->draining && leader_preempted(context, needs_processes(&plan->layout), &numbers) ==
                                PREEMPTION_CHECKPOINT) {
        plan_free(plan);
        return save_in_time(context, demand, &numbers);
    }
    plan->change.planned = true;
    plan->start.source = PLAN_SOURCE_MEMORY;
    plan->start.resume_step = context->view->progress.step;
    plan->change.before_seconds = now_seconds;
    plan->change.switch_seconds = context->view->progress.switch_seconds > 0
                                      ? context->view->progress.switch_seconds
                                      : context->view->plan->change.switch_seconds;
    leader_trial_enter(context, demand->frozen, demand->slower, plan);
    explain(context, demand, plan);
    limit_change(context, demand, &plan->change);
    status = add_moves(context, plan);
    if (status < 0) {
        plan_free(plan);
        return status == -ENODATA && demand->absent ? wait_for_absent(context, demand) : status;
    }
    leader_act(context, needs_processes(&plan->layout) ? LEADER_PREPARE : LEADER_PUBLISH, plan);
    leader_say(context, JOB_RUNNING, "%s", plan->change.text);
    return 0;
}

/*
 * Leave a draining node if no layout works without it: the job checkpoints at the next boundary and
 * leaves, rather than losing steps when the node goes. It begins again from that checkpoint as soon
 * as there are slots.
 */
static int leave_for_drain(struct leader_context *context, const struct demand *demand)
{
    char text[PLAN_REASON_SIZE];
    snprintf(text, sizeof(text),
             "node %s drains and the other slots are not enough: checkpoint, then wait",
             demand->draining);
    return leader_empty_plan(context, PLAN_REASON_DRAIN, true, text);
}

/* Move the job to another link protocol: no node starts workers of the job's protocol any more, and
 * slots of the other protocol are enough. */
static int move_over(struct leader_context *context)
{
    return leader_empty_plan(context, PLAN_REASON_UPGRADE, true,
                             "no node starts workers of this job's link protocol any more: "
                             "checkpoint, then on with those that are there now");
}

/* Say that the job keeps slots that another job waits for, because no layout works with fewer. */
static void say_that_it_keeps_them(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    unsigned kept = view->plan->layout.worker_count;
    leader_add(context,
               "; keeps its %u slot%s, of which job %s waits for %u: no layout of fewer works",
               kept, plural(kept), view->queue.first, context->gives);
}

/* Plan within the limits of the known layouts: back to the previous one, if it has enough slots. */
static int layout_for(struct leader_context *context, const struct slot_pool *pool,
                      struct demand *demand, struct plan **ret_plan)
{
    unsigned frozen = context->view->progress.frozen_layers;
    if (!must_change(demand))
        leader_trial_limit(context, demand->slower);
    int status = leader_layout(context, pool, frozen, ret_plan);
    if (status != -ENOSPC || !demand->slower)
        return status;
    demand->slower = false;
    leader_trial_limit(context, false);
    return leader_layout(context, pool, frozen, ret_plan);
}

static int look_for_better(struct leader_context *context)
{
    context->gives = context->view->queue.gives;
    struct demand demand = find_demand(context);
    struct slot_pool pool = {0};
    struct plan *plan = NULL;
    if (!demand.absent && leader_compatibility_is_over(context))
        return move_over(context);
    say_running(context);
    int status = pool_for_change(context, &pool);
    leader_netsplit_say(context);
    if (status == 0 && pool.count < leader_devices_min(context->view)) {
        if (demand.draining)
            status = leave_for_drain(context, &demand);
        else
            leader_explain_wait(context, JOB_RUNNING, pool.count, NULL);
    } else if (status == 0) {
        status = layout_for(context, &pool, &demand, &plan);
        if (status == -ENOSPC && context->gives > 0) {
            say_that_it_keeps_them(context);
            context->gives = 0;
            demand = find_demand(context);
            status = layout_for(context, &pool, &demand, &plan);
        }
        if (status == 0)
            status = weigh(context, &demand, &pool, plan);
        else if (status == -ENOSPC && demand.draining)
            status = leave_for_drain(context, &demand);
        else if (status == -ENOSPC)
            leader_explain_wait(context, JOB_RUNNING, pool.count, context->error->text);
        if (status == -ENOSPC)
            status = 0;
    }
    slot_pool_done(&pool);
    return status;
}

/* The state of one worker of `next`. */
enum readiness { READY, NOT_YET, HOPELESS };

static bool slot_in_service(const struct member *node, unsigned slot)
{
    for (unsigned i = 0; i < node->slot_count; i++)
        if (node->slots[i].index == slot)
            return !node->slots[i].bad && !node->slots[i].busy;
    return false;
}

/* Return the readiness of a worker that runs now and keeps or hands over its state. */
static enum readiness readiness_of_runner(const struct roster_member *member, uint64_t instance)
{
    bool there = member && member->seat == SEAT_RUNNING && member->report->instance == instance;
    return there ? READY : HOPELESS;
}

static enum readiness readiness_of(const struct leader_context *context, unsigned rank)
{
    const struct plan *next = context->view->next;
    const struct plan_worker *worker = &next->layout.workers[rank];
    const struct member *node = roster_node(&context->roster, worker->node);
    const struct roster_member *member = roster_find(&context->roster, worker->node, worker->slot);
    if (rank < next->layout.worker_count && (!node || node->draining))
        return HOPELESS;
    if (!plan_worker_is_new(worker))
        return readiness_of_runner(member, worker->instance);
    if (rank >= next->layout.worker_count || !slot_in_service(node, worker->slot) ||
        roster_refused(&context->roster, worker->node))
        return HOPELESS;
    if (!member || member->seat == SEAT_LEFT)
        return NOT_YET;
    if (member->seat == SEAT_LOST) /* lost before this preparation: it proves nothing */
        return member->report->generation < next->generation ? NOT_YET : HOPELESS;
    return member->seat == SEAT_SPARE && member->report->phase == WORKER_PREPARED &&
                   member->report->generation == next->generation
               ? READY
               : NOT_YET;
}

/* Return whether `next` is still the layout that the user wants. */
static bool next_is_wanted(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct plan *next = view->next;
    return next->generation > view->plan->generation && next->layout.worker_count > 0 &&
           !leader_regrets(view, next);
}

static void drop_next(struct leader_context *context, const char *why)
{
    context->decision->action = LEADER_DROP_NEXT;
    leader_say(context, JOB_RUNNING, "preparing generation %llu is given up: %s",
               (unsigned long long)context->view->next->generation, why);
}

static int publish_next(struct leader_context *context)
{
    struct plan *plan = plan_copy(context->view->next);
    if (!plan)
        return -ENOMEM;
    const struct demand demand = find_demand(context);
    plan->change.planned = true;
    limit_change(context, &demand, &plan->change);
    leader_act(context, LEADER_PUBLISH, plan);
    leader_say(context, JOB_RUNNING, "%s", plan->change.text);
    return 0;
}

static int supervise_next(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct plan *next = view->next;
    uint64_t since_ns = MAX(context->memory->next_seen_ns, context->memory->starting_ns);
    uint64_t due = since_ns + TIMEOUTS_PREPARE * view->failure_timeout_ns;
    unsigned missing = 0, hopeless = 0;
    for (unsigned rank = 0; rank < next->layout.worker_count + next->layout.donor_count; rank++) {
        enum readiness readiness = readiness_of(context, rank);
        missing += readiness == NOT_YET;
        hopeless += readiness == HOPELESS;
        bool failed = readiness == HOPELESS || (readiness == NOT_YET && view->now_ns >= due);
        if (failed && plan_worker_is_new(&next->layout.workers[rank]))
            leader_avoid(context, next->layout.workers[rank].node, next->layout.workers[rank].slot);
    }
    struct preemption numbers;
    if (missing > 0 && leader_preempted(context, false, &numbers) == PREEMPTION_CHECKPOINT)
        drop_next(context, "a node that it takes state from goes before that");
    else if (!next_is_wanted(context))
        drop_next(context, "something else is asked for");
    else if (hopeless > 0)
        drop_next(context, "somebody it needs is gone");
    else if (missing == 0)
        return publish_next(context);
    else if (view->now_ns >= due)
        drop_next(context, "new workers were not ready in time");
    else {
        leader_wake(context, due);
        leader_say(context, JOB_RUNNING, "prepares generation %llu: waits for %u new workers",
                   (unsigned long long)next->generation, missing);
        leader_starting_say(context);
    }
    return 0;
}

/* Return whether nodes will go before the plan in force begins, which does not know of that and
 * waits for the end of a step. If there is still time, the leader checks again when it is short. */
static bool is_short_of_time(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct plan *plan = view->plan;
    uint64_t least_ns = TIMEOUTS_HURRY * view->failure_timeout_ns;
    struct preemption numbers;
    bool knows = plan->change.is_limited && plan->change.spare_ns != PLAN_SPARE_ENDLESS;
    if (!leader_change_waits(context) || knows || leader_time_left(context) == UINT64_MAX)
        return false;
    leader_preempted(context, false, &numbers);
    uint64_t spare_ns = preemption_spare_ns(&numbers);
    if (spare_ns > least_ns)
        leader_wake(context, view->now_ns + spare_ns - least_ns);
    return spare_ns <= least_ns;
}

/* Save the boundary before the step in progress instead of the change. */
static int save_instead(struct leader_context *context)
{
    char text[PLAN_REASON_SIZE];
    snprintf(text, sizeof(text),
             "a node goes before generation %llu can begin: checkpoint, then on without it",
             (unsigned long long)context->view->plan->generation);
    return leader_empty_plan_instead(context, context->view->plan->follows, PLAN_REASON_DRAIN,
                                     text);
}

static void say_beginning(struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    leader_say(context, plan->change.reason == PLAN_REASON_FAILURE ? JOB_RECOVERING : JOB_PREPARING,
               leader_change_waits(context) ? "generation %llu waits for the step in progress: %s"
                                            : "generation %llu begins: %s",
               (unsigned long long)plan->generation, plan->change.text);
}

int leader_change(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    if (!context->roster.all_running) {
        say_beginning(context);
        leader_pair_loss_say(context);
        leader_starting_say(context);
        uint64_t due = leader_start_counts_from(context) + leader_start_time_ns(context);
        if (leader_start_is_limited(context) &&
            view->now_ns < due) /* later only reports change the decision */
            leader_wake(context, due);
        if (is_short_of_time(context) && !leader_change_is_dead(context))
            return save_instead(context);
        return view->plan->change.planned ? leader_supersede(context) : 0;
    }
    return view->next ? supervise_next(context) : look_for_better(context);
}
