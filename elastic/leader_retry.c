/*
 * Problem: a checkpoint with copies is read from other nodes. One that is away for a moment must
 * not cost the steps since the checkpoint before; and while a registered node does not answer, each
 * attempt fails within milliseconds, and a new plan after each would be twenty generations a
 * second.
 *
 * Design: two pauses, both only in the leader's memory. A leader that is new begins with short
 * ones.
 */
#include "elastic/leader_retry.h"

#define AWAY_TIMEOUTS  8 /* failure_timeouts that nodes with a newer checkpoint are waited for */
#define PAUSE_SHARE    4 /* of failure_timeout: the first pause */
#define PAUSE_TIMEOUTS 4 /* the longest */

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
    memory->attempts = memory->attempt_step == view->checkpoint.step ? memory->attempts + 1 : 1;
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

static bool waits_after_failure(struct leader_context *context, enum job_state state)
{
    const struct leader_view *view = context->view;
    struct leader_memory *memory = context->memory;
    if (!failed_again(view)) {
        memory->attempts = 0;
        memory->attempt_step = memory->attempt_generation = 0;
        return false;
    }
    count_attempt(view, memory);
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
    leader_wake(context, due);
    return true;
}

bool leader_retry_waits(struct leader_context *context, enum job_state state)
{
    return waits_for_newer(context, state) || waits_after_failure(context, state);
}
