/*
 * Problem: a checkpoint with copies is read from other nodes. One that is away for a moment must
 * not cost the steps since the checkpoint before; and while a registered node does not answer, each
 * attempt fails within milliseconds, and a new plan after each would be twenty generations a
 * second.
 *
 * Design: two pauses, both only in the leader's memory. A leader that is new begins with short
 * ones.
 *
 * What is out of reach may be gone: two nodes that do not reach each other both think that the
 * other may have it. Nobody knows how long that lasts, so it is given up when it has been tried for
 * as long as the steps since the checkpoint before take to compute: then the job goes on from that
 * one, with the same bits, and in never more than twice the time of the better choice. That what
 * lies on nodes which are not even registered is waited for, where there is nothing else, is
 * another matter: somebody can bring them back.
 */
#include "elastic/leader_retry.h"

#include "elastic/leader_worth.h"

#define AWAY_TIMEOUTS  8 /* failure_timeouts that nodes with a newer checkpoint are waited for */
#define PAUSE_SHARE    4 /* of failure_timeout: the first pause */
#define PAUSE_TIMEOUTS 4 /* the longest */
#define TRIED_TIMEOUTS 8 /* how long one is tried that cannot be read, at least */

static bool waits_for_newer(struct leader_context *context, enum job_state state)
{
    const struct leader_view *view = context->view;
    struct leader_memory *memory = context->memory;
    if (view->checkpoint.missing[0] == '\0') {
        memory->away_seen_ns = 0;
        return false;
    }
    if (memory->away_seen_ns == 0)
        memory->away_seen_ns = view->now_ns;
    uint64_t due = memory->away_seen_ns + AWAY_TIMEOUTS * view->failure_timeout_ns;
    if (view->now_ns >= due)
        return false;
    leader_say(context, state, "waits for %s", view->checkpoint.missing);
    leader_wake(context, due);
    context->decision->misses_checkpoint = true;
    return true;
}

/* The plan in force is another attempt at @step, and came to nothing. */
static bool failed_again(const struct leader_view *view)
{
    const struct plan *plan = view->plan;
    return plan != NULL && plan->worker_count > 0 && plan->source == PLAN_SOURCE_CHECKPOINT &&
           plan->resume_step == view->checkpoint.step && view->progress_step <= plan->resume_step;
}

static void count_attempt(const struct leader_view *view, struct leader_memory *memory)
{
    if (memory->attempt_generation == view->plan->generation)
        return;
    if (memory->attempt_step != view->checkpoint.step) {
        memory->attempts = 0;
        memory->unread_ns = 0;
    }
    memory->attempts++;
    memory->attempt_step = view->checkpoint.step;
    memory->attempt_generation = view->plan->generation;
}

/* What a worker says that could not begin; "": nobody says anything. */
static const char *complaint(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->seat == SEAT_BROKEN && member->report->text[0] != '\0')
            return member->report->text;
    }
    return "its workers could not begin";
}

/* A worker of the plan in force could not read all of it, and not know either that it is gone. */
static bool is_out_of_reach(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (member->seat == SEAT_BROKEN && member->report->cause == CAUSE_CHECKPOINT_AWAY &&
            member->report->generation == context->view->plan->generation)
            return true;
    }
    return false;
}

/* Until when it is tried; UINT64_MAX: there is nothing else to go on from, or it can be read. */
static uint64_t tried_until_ns(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct leader_checkpoint *checkpoint = &view->checkpoint;
    struct leader_memory *memory = context->memory;
    if (memory->unread_ns == 0 && is_out_of_reach(context))
        memory->unread_ns = view->now_ns;
    if (memory->unread_ns == 0 || (checkpoint->before_step == 0 && checkpoint->before_is_away))
        return UINT64_MAX;
    uint64_t worth_ns =
        leader_worth_ns(context, view->plan, checkpoint->before_step, checkpoint->step);
    return memory->unread_ns + MAX(TRIED_TIMEOUTS * view->failure_timeout_ns, worth_ns);
}

/* Nothing is given up for what was found out before the leader was kept from trying again: by etcd
 * being away, say. */
static bool is_fresh(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    return view->now_ns <=
           context->memory->failure_seen_ns + PAUSE_TIMEOUTS * view->failure_timeout_ns;
}

static void give_up(struct leader_context *context, enum job_state state)
{
    const struct leader_view *view = context->view;
    context->decision->gives_up_checkpoint = true;
    leader_say(context, state,
               "for %.0f s nodes that may have a part of it have not answered (%.160s)",
               (double)(view->now_ns - context->memory->unread_ns) / 1e9, complaint(context));
    context->memory->unread_ns = 0;
}

static bool waits_after_failure(struct leader_context *context, enum job_state state)
{
    const struct leader_view *view = context->view;
    struct leader_memory *memory = context->memory;
    if (!failed_again(view)) {
        memory->attempts = 0;
        memory->attempt_step = memory->attempt_generation = 0;
        memory->unread_ns = 0;
        return false;
    }
    count_attempt(view, memory);
    uint64_t end = tried_until_ns(context);
    if (view->now_ns >= end && is_fresh(context)) {
        give_up(context, state);
        return true;
    }
    if (memory->attempts == 1)
        return false;
    uint64_t longest = PAUSE_TIMEOUTS * view->failure_timeout_ns;
    uint64_t pause = view->failure_timeout_ns / PAUSE_SHARE << MIN(memory->attempts - 2, 8u);
    uint64_t due = memory->failure_seen_ns + MIN(pause, longest);
    if (view->now_ns >= due)
        return false;
    leader_say(context, state,
               "the checkpoint of step %llu is out of reach (%.160s): tried again in %.1f s",
               (unsigned long long)view->checkpoint.step, complaint(context),
               (double)(due - view->now_ns) / 1e9);
    if (end != UINT64_MAX)
        leader_add(context, ", and given up after %.0f s, for step %llu",
                   (double)(end - memory->unread_ns) / 1e9,
                   (unsigned long long)view->checkpoint.before_step);
    leader_wake(context, MIN(due, end));
    return true;
}

/* Going back to step 0 throws away all that was computed, and a good copy may be at hand: that is
 * for a person to say. */
static bool asks_operator(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct leader_checkpoint *checkpoint = &view->checkpoint;
    const char *job = view->spec->name;
    if (checkpoint->step > 0 || checkpoint->damaged_count == 0)
        return false;
    leader_say(context, JOB_WAITING,
               "no sound checkpoint is left (%u damaged; %.160s). firnctl checkpoint remove %s "
               "--damaged: begins at step 0 again; a good copy put in its place and firnctl "
               "checkpoint verify %s: goes on from that",
               checkpoint->damaged_count, checkpoint->damaged, job, job);
    context->decision->misses_checkpoint = true; /* the object store may have one */
    return true;
}

bool leader_retry_waits(struct leader_context *context, enum job_state state)
{
    return asks_operator(context) || waits_for_newer(context, state) ||
           waits_after_failure(context, state);
}
