/*
 * Problem: any firnd may become the leader at any time, and several may believe that they are the
 * leader; a decision must not depend on anything that only one of them remembers.
 *
 * Design: each call reads the view once and makes one decision. The caller writes the decision
 * under its leadership in etcd; the next view shows the result, or a change that came in between.
 * The checks come in order of importance: is the job over, has it failed, must it stop, could it be
 * better.
 *
 * Invariants: generation numbers grow; a planned plan is published only when every worker runs in
 * the plan before it; a plan from memory names a source for every unit that a worker lacks.
 */
#include "elastic/leader/leader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/timeouts.h"
#include "elastic/copies/output_hosts.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_internal.h"
#include "elastic/leader/leader_netsplit.h"
#include "elastic/leader/leader_pace.h"
#include "elastic/leader/leader_slow.h"
#include "elastic/leader/leader_starting.h"
#include "elastic/leader/leader_supersede.h"

static bool everybody_is_gone(const struct roster *roster)
{
    for (unsigned i = 0; i < roster->count; i++)
        if (roster_alive(&roster->members[i]))
            return false;
    return true;
}

/* Return a refusal's text if every node that could run the job has refused it; else NULL. */
static const char *refused_by_all(const struct leader_context *context)
{
    const char *refusal = NULL;
    for (unsigned n = 0; n < context->view->node_count; n++) {
        const struct member *node = &context->view->nodes[n];
        const char *text = roster_refused(&context->roster, node->name);
        if (!text && !node->draining && node->slot_count > 0)
            return NULL;
        if (text)
            refusal = text;
    }
    return refusal;
}

/* Describe a diverged step, from which no layout can continue, and the checkpoint to continue
 * from. */
static void describe_divergence(const struct leader_context *context,
                                const struct worker_report *report, char ret_text[PLAN_REASON_SIZE])
{
    uint64_t step = context->view->checkpoint.step;
    bool is_origin = step == context->view->progress.step; /* of the step that diverged */
    if (step == 0)
        snprintf(ret_text, PLAN_REASON_SIZE, "%.120s; there is no checkpoint to go on from",
                 report->text);
    else
        snprintf(ret_text, PLAN_REASON_SIZE,
                 "%.120s; to go on from the checkpoint of step %llu%s with other settings: firnctl "
                 "job submit --from",
                 report->text, (unsigned long long)step,
                 is_origin ? ", or from an older one," : "");
}

/*
 * Return whether the job cannot continue on any node, and the reason. The plan that ends such a job
 * keeps the reason, because no node has reported under that plan yet.
 */
static bool is_refused(const struct leader_context *context, char ret_text[PLAN_REASON_SIZE])
{
    const struct plan *plan = context->view->plan;
    const struct worker_report *diverged = roster_diverged(&context->roster);
    const char *refusal = refused_by_all(context);
    if (plan && plan->layout.worker_count == 0 && plan->change.reason == PLAN_REASON_REFUSED)
        snprintf(ret_text, PLAN_REASON_SIZE, "%s", plan->change.text);
    else if (diverged)
        describe_divergence(context, diverged, ret_text);
    else if (refusal)
        snprintf(ret_text, PLAN_REASON_SIZE, "%s", refusal);
    else
        return false;
    return true;
}

static int finish(struct leader_context *context, enum job_state state, const char *text)
{
    context->decision->action = LEADER_FINISH;
    leader_say(context, state, "%s", text);
    return 0;
}

/* Return whether nodes will go that the plan in force, which has not begun, does not know of. */
static bool is_overtaken(const struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    return plan->change.spare_ns == PLAN_SPARE_ENDLESS && leader_change_waits(context) &&
           leader_time_left(context) != UINT64_MAX;
}

/* Publish the same plan again, in time for nodes that will go. */
static int hurry(struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    return leader_empty_plan_instead(context, plan->follows, plan->change.reason,
                                     plan->change.text);
}

/* Return a generation that had begun, unreported, when the plan in force replaced its plan: it
 * runs, and the plan in force does not follow it. 0: none. */
static uint64_t begun_all_the_same(const struct leader_context *context)
{
    const struct plan *plan = context->view->plan;

    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct worker_report *report = context->roster.members[i].report;
        if (context->roster.members[i].node && report && report->phase == WORKER_RUNNING &&
            report->root && report->generation > plan->follows &&
            report->generation < plan->generation)
            return report->generation;
    }
    return 0;
}

static int wait_for_leaving(struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    leader_say(context, JOB_PAUSING, "%s: workers are leaving", plan->change.text);
    if (!plan->change.planned)
        return 0;
    uint64_t running = begun_all_the_same(context);
    if (running > 0)
        return leader_empty_plan_instead(context, running, plan->change.reason, plan->change.text);
    return is_overtaken(context) ? hurry(context) : leader_supersede(context);
}

/* End the running generation without saving anything more; finish when all workers are gone. */
static int end_now(struct leader_context *context, enum plan_reason reason, enum job_state state,
                   const char *text)
{
    const struct plan *plan = context->view->plan;
    if (!plan || (plan->layout.worker_count == 0 && everybody_is_gone(&context->roster)))
        return finish(context, state, text);
    if (plan->layout.worker_count > 0 || plan->change.planned)
        return leader_empty_plan(context, reason, false, text);
    return wait_for_leaving(context);
}

/*
 * Return whether workers are still leaving by themselves. Workers of a working generation see that
 * all steps are done, and leave. A worker that has not heard of that yet would mistake the end of
 * the others for a failure. A worker that has not left after failure_timeout is ordered to leave.
 */
static bool still_leave_by_themselves(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    struct leader_memory *memory = context->memory;
    bool somebody_runs = false;
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (!roster_is_worker(&context->roster, member) || !member->node)
            continue;
        if (member->seat == SEAT_BROKEN)
            return false;
        somebody_runs = somebody_runs || member->seat == SEAT_RUNNING;
    }
    instant_note(&memory->finished_seen, view->now_ns);
    uint64_t due = memory->finished_seen.ns + view->failure_timeout_ns;
    if (!somebody_runs || view->now_ns >= due)
        return false;
    leader_say(context, JOB_RUNNING, "all steps are committed: workers are leaving");
    leader_wake(context, due);
    return true;
}

static int complete(struct leader_context *context)
{
    if (context->view->plan && still_leave_by_themselves(context))
        return 0;
    return end_now(context, PLAN_REASON_PAUSE, JOB_COMPLETED, "all steps are committed");
}

/* Return whether the change in force has waited for the end of a possibly long step for a while:
 * then a pause comes first. */
static bool waits_for_a_step(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    uint64_t due = context->memory->published.ns + TIMEOUTS_HURRY * view->failure_timeout_ns;
    if (!leader_change_waits(context))
        return false;
    if (view->now_ns < due)
        leader_wake(context, due);
    return view->now_ns >= due;
}

static int pause_when_possible(struct leader_context *context)
{
    const char *text = "pause is asked for";
    if (context->roster.all_running)
        return leader_empty_plan(context, PLAN_REASON_PAUSE, true, text);
    bool dead = leader_change_is_dead(context);
    if (!dead && waits_for_a_step(context))
        return leader_empty_plan_instead(context, context->view->plan->follows, PLAN_REASON_PAUSE,
                                         text);
    leader_say(context, JOB_PAUSING,
               dead ? "pause is asked for: generation %llu must be replaced first"
                    : "pause is asked for: generation %llu must begin first",
               (unsigned long long)context->view->plan->generation);
    return dead ? leader_supersede(context) : 0;
}

static void note_that_it_runs(struct leader_context *context)
{
    instant_clear(&context->memory->pair_loss.seen);
    leader_netsplit_mended(context);
}

static int decide(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    char refusal[PLAN_REASON_SIZE];
    if (view->finished)
        return complete(context);
    if (view->wish.desired == JOB_DESIRED_CANCELLED)
        return end_now(context, PLAN_REASON_CANCEL, JOB_CANCELLED, "cancelled");
    if (is_refused(context, refusal))
        return end_now(context, PLAN_REASON_REFUSED, JOB_FAILED, refusal);
    if (view->plan && leader_has_failed(context))
        return leader_recover(context);
    instant_clear(&context->memory->failure_seen);
    if (context->roster.all_running)
        note_that_it_runs(context);

    bool paused = view->wish.desired == JOB_DESIRED_PAUSED;
    if (!view->plan || view->plan->layout.worker_count == 0) {
        if (view->plan && !everybody_is_gone(&context->roster))
            return wait_for_leaving(context);
        return paused ? finish(context, JOB_PAUSED, "paused") : leader_start(context);
    }
    return paused ? pause_when_possible(context) : leader_change(context);
}

/* Forget times of another generation, and remember the used generation numbers. */
static void refresh_memory(const struct leader_view *view, struct leader_memory *memory)
{
    uint64_t generation = view->plan ? view->plan->generation : 0;
    uint64_t next = view->next ? view->next->generation : 0;
    if (memory->generation != generation || !memory->published.is_set) {
        memory->generation = generation;
        memory->published = instant_at(view->now_ns);
        instant_clear(&memory->failure_seen);
        instant_clear(&memory->better_seen);
        instant_clear(&memory->finished_seen);
        instant_clear(&memory->gone_seen);
    }
    if (memory->next_generation != next) {
        memory->next_generation = next;
        memory->next_seen_ns = view->now_ns;
        instant_clear(&memory->better_seen);
    }
    memory->generation_last = MAX(memory->generation_last, MAX(generation, next));
    /* The job may begin from another job's checkpoint, whose part folders may still be on disk. */
    memory->generation_last = MAX(memory->generation_last, view->checkpoint.generation);
    leader_slow_refresh(view, &memory->slow);
    leader_pace_note(view, &memory->pace);
}

/* Workers must know which nodes have which files of checkpoints with copies, and which have outputs
 * of frozen layers. */
static int name_nodes(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    struct plan *plan = context->decision->plan;
    int status = 0;
    if (!plan)
        return 0;
    bool reads = plan->start.source == PLAN_SOURCE_CHECKPOINT || plan->layout.worker_count == 0;
    const char *shares = reads ? view->checkpoint.shares : NULL;
    if (job_keeps_copies(view->spec))
        status =
            copies_fill(plan, view->spec->checkpoint.copies, shares, view->nodes, view->node_count);
    if (status == 0)
        status =
            output_hosts_fill(plan, &view->spec->elastic.freeze, view->nodes, view->node_count);
    if (status < 0) {
        plan_free(plan);
        context->decision->plan = NULL;
    }
    return status;
}

int leader_decide(const struct leader_view *view, struct leader_memory *memory,
                  struct leader_decision *ret_decision, struct error *error)
{
    struct leader_decision decision = {.wake_at_ns = UINT64_MAX};
    struct error unread;
    struct leader_context context = {
        .view = view, .memory = memory, .decision = &decision, .error = error ? error : &unread};
    error_clear(context.error);
    refresh_memory(view, memory);
    int status = roster_init(&context.roster, view);
    if (status == 0) {
        leader_starting_note(&context);
        status = decide(&context);
    }
    if (status == 0 && decision.plan)
        leader_slow_carry(&context, decision.plan);
    if (status == 0)
        status = name_nodes(&context);
    roster_done(&context.roster);
    if (status < 0 && context.error->code == 0)
        return error_set(context.error, status, "deciding about job %s: %s", view->spec->name,
                         strerror(-status));
    if (status == 0) {
        error_clear(context.error); /* the text has an intermediate refusal by the planner */
        *ret_decision = decision;
    }
    return status;
}
