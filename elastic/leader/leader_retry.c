/*
 * Problem: a generation that cannot begin fails within milliseconds: nodes that have a part of its
 * checkpoint do not answer, a device has no memory, links are refused. A new plan after each
 * attempt would be twenty generations a second, each written to etcd and to the logs. Besides, a
 * checkpoint with copies is read from other nodes: a node that is away for a moment must not cost
 * the steps since the previous checkpoint.
 *
 * Design: attempts at one step are counted, whether its state comes from a checkpoint, the job's
 * beginning, or the workers' memory. The first failure is retried at once, every further failure
 * after a pause that doubles. Counts and pauses are only in the leader's memory: a new leader
 * begins with short pauses.
 *
 * A part out of reach may be gone: two nodes that do not reach each other both assume that the
 * other node may have it. The length of the outage is not known, so the checkpoint is given up when
 * it has been tried for as long as the steps since the previous checkpoint take to compute. Then
 * the job continues from that earlier checkpoint, with the same bits, and in never more than twice
 * the time of the better choice. Parts on nodes that are not even registered are a different case:
 * if nothing else is left, the job waits for these nodes, because an operator can bring them back.
 */
#include "elastic/leader/leader_retry.h"

#include <stdio.h>

#include "base/timeouts.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_pace.h"

#define COMPLAINT_SIZE 352

static bool waits_for_newer(struct leader_context *context, enum job_state state)
{
    const struct leader_view *view = context->view;
    struct leader_retries *retry = &context->memory->retry;
    if (view->checkpoint.missing[0] == '\0') {
        instant_clear(&retry->away_seen);
        return false;
    }
    instant_note(&retry->away_seen, view->now_ns);
    uint64_t due = retry->away_seen.ns + TIMEOUTS_NEWER_CHECKPOINT * view->failure_timeout_ns;
    if (view->now_ns >= due)
        return false;
    leader_say(context, state, "waits for %s", view->checkpoint.missing);
    leader_wake(context, due);
    context->decision->misses_checkpoint = true;
    return true;
}

/* Return whether the plan in force was another attempt at the newest checkpoint's step, or at the
 * job's beginning, and failed. A plan from memory counts too: workers that die one after another
 * leave such a plan between two others. */
static bool failed_again(const struct leader_view *view)
{
    const struct plan *plan = view->plan;
    return plan && plan->layout.worker_count > 0 && !plan->change.planned &&
           plan->start.resume_step == view->checkpoint.step &&
           view->progress.step <= plan->start.resume_step;
}

static void count_attempt(const struct leader_view *view, struct leader_retries *retry)
{
    if (retry->generation == view->plan->generation)
        return;
    if (retry->step != view->checkpoint.step) {
        retry->attempts = 0;
        instant_clear(&retry->unread);
    }
    retry->attempts++;
    retry->step = view->checkpoint.step;
    retry->generation = view->plan->generation;
}

/* Write the text of a worker that could not begin, with its place; a general text if no worker has
 * one. */
static const char *complaint(const struct leader_context *context, char ret_text[COMPLAINT_SIZE])
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if ((member->seat == SEAT_BROKEN || member->seat == SEAT_LOST) &&
            member->report->text[0] != '\0') {
            snprintf(ret_text, COMPLAINT_SIZE, "%.63s/%u: %.256s", member->node_name, member->slot,
                     member->report->text);
            return ret_text;
        }
    }
    snprintf(ret_text, COMPLAINT_SIZE, "its workers could not begin");
    return ret_text;
}

/* Return whether a worker of the plan in force could not read all of the checkpoint, and could not
 * determine that it is gone. */
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

/* Return whether, without @checkpoint, the job would wait for absent nodes or for the operator. */
static bool is_last_hope(const struct leader_checkpoint *checkpoint)
{
    return !leader_checkpoint_has_before(checkpoint) && checkpoint->given_up_count == 0 &&
           (checkpoint->before_is_away || checkpoint->damaged_count > 0);
}

/* Return the time at which to give up the checkpoint; UINT64_MAX: it can be read, or there is no
 * other state to continue from. */
static uint64_t tried_until_ns(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct leader_checkpoint *checkpoint = &view->checkpoint;
    struct leader_retries *retry = &context->memory->retry;
    if (!retry->unread.is_set && is_out_of_reach(context))
        retry->unread = instant_at(view->now_ns);
    if (!retry->unread.is_set || is_last_hope(checkpoint))
        return UINT64_MAX;
    uint64_t worth_ns =
        leader_replay_cost_ns(context, view->plan, checkpoint->before_step, checkpoint->step);
    return retry->unread.ns +
           MAX(TIMEOUTS_UNREADABLE_CHECKPOINT * view->failure_timeout_ns, worth_ns);
}

/* Return whether the last attempt failed just now, because of the checkpoint. Any other failure
 * gives up no checkpoint, nor does an old one: the leader may have been unable to try again,
 * because etcd was away, say. */
static bool is_cause(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    uint64_t fresh_ns = TIMEOUTS_RETRY_PAUSE_MAX * view->failure_timeout_ns;
    return view->now_ns <= context->memory->failure_seen.ns + fresh_ns && is_out_of_reach(context);
}

static void give_up(struct leader_context *context, enum job_state state)
{
    const struct leader_view *view = context->view;
    char text[COMPLAINT_SIZE];
    context->decision->gives_up_checkpoint = true;
    leader_say(context, state, "for %.0f s a part of it could not be read (%.160s)",
               (double)(view->now_ns - context->memory->retry.unread.ns) / 1e9,
               complaint(context, text));
    instant_clear(&context->memory->retry.unread);
}

/* Return the time at which another generation may follow @attempts (at least 2) failed ones. */
static uint64_t next_attempt_ns(const struct leader_context *context, unsigned attempts)
{
    uint64_t timeout_ns = context->view->failure_timeout_ns;
    return context->memory->failure_seen.ns +
           timeouts_doubled(timeout_ns / TIMEOUT_PARTS_RETRY_PAUSE_MIN, attempts - 1,
                            TIMEOUTS_RETRY_PAUSE_MAX * timeout_ns);
}

/* Return whether hosts gave no sign of life to the plan in force while links were made. Waiting for
 * them has taken time already, so such an attempt needs no pause. A host that is asked for a file
 * may be found away at once. */
static bool hosts_were_silent(const struct leader_context *context)
{
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct worker_report *report = context->roster.members[i].report;
        if (report && report->unreached_count > 0 && report->cause != CAUSE_CHECKPOINT_AWAY &&
            report->generation == context->view->plan->generation)
            return true;
    }
    return false;
}

static bool waits_after_failure(struct leader_context *context, enum job_state state)
{
    const struct leader_view *view = context->view;
    struct leader_retries *retry = &context->memory->retry;
    char text[COMPLAINT_SIZE];
    if (!failed_again(view)) {
        retry->attempts = 0;
        retry->step = retry->generation = 0;
        instant_clear(&retry->unread);
        return false;
    }
    count_attempt(view, retry);
    uint64_t end = tried_until_ns(context);
    if (view->now_ns >= end && is_cause(context)) {
        give_up(context, state);
        return true;
    }
    if (retry->attempts == 1 || hosts_were_silent(context))
        return false;
    uint64_t due = next_attempt_ns(context, retry->attempts);
    if (view->now_ns >= due)
        return false;
    if (leader_checkpoint_exists(&view->checkpoint))
        leader_say(context, state,
                   "the checkpoint of step %llu is out of reach (%.160s): tried again in %.1f s",
                   (unsigned long long)view->checkpoint.step, complaint(context, text),
                   (double)(due - view->now_ns) / 1e9);
    else
        leader_say(context, state, "the job cannot begin (%.330s): tried again in %.1f s",
                   complaint(context, text), (double)(due - view->now_ns) / 1e9);
    leader_add(context, " (attempt %u)", retry->attempts + 1);
    if (end != UINT64_MAX)
        leader_add(context, ", and given up after %.0f s, for step %llu",
                   (double)(end - retry->unread.ns) / 1e9,
                   (unsigned long long)view->checkpoint.before_step);
    leader_wake(context, end > view->now_ns ? MIN(due, end) : due);
    return true;
}

/* Ask the operator before going back to step 0, which discards all computed steps: a good copy of a
 * checkpoint may be at hand. */
static bool asks_operator(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct leader_checkpoint *checkpoint = &view->checkpoint;
    const char *job = view->spec->name;
    if (leader_checkpoint_exists(checkpoint) || checkpoint->damaged_count == 0)
        return false;
    leader_say(context, JOB_WAITING,
               "no sound checkpoint is left (%u damaged; %.160s). firnctl checkpoint remove %s "
               "--damaged: begins at step 0 again; a good copy put in its place and firnctl "
               "checkpoint verify %s: goes on from that",
               checkpoint->damaged_count, checkpoint->damaged, job, job);
    context->decision->misses_checkpoint = true; /* the object store may have a sound one */
    return true;
}

bool leader_retry_takes_back(struct leader_context *context, enum job_state state)
{
    const struct leader_checkpoint *checkpoint = &context->view->checkpoint;
    bool begins_anew = checkpoint->damaged_count == 0 && checkpoint->missing[0] == '\0';
    if (leader_checkpoint_exists(checkpoint) || checkpoint->given_up_count == 0 || begins_anew)
        return false;
    context->decision->takes_back_checkpoints = true;
    leader_say(context, state,
               "no other checkpoint is available: trying those that were given up again (%.200s)",
               checkpoint->damaged_count > 0 ? checkpoint->damaged : checkpoint->missing);
    return true;
}

bool leader_retry_waits(struct leader_context *context, enum job_state state)
{
    return asks_operator(context) || waits_for_newer(context, state) ||
           waits_after_failure(context, state);
}

/* Return whether the plan in force was another attempt at @step from the workers' memory, and
 * failed. */
static bool failed_again_in_memory(const struct leader_context *context, uint64_t step)
{
    const struct plan *plan = context->view->plan;
    return plan->layout.worker_count > 0 && plan->start.source == PLAN_SOURCE_MEMORY &&
           !plan->change.planned && step <= plan->start.resume_step && !hosts_were_silent(context);
}

bool leader_retry_waits_in_memory(struct leader_context *context, uint64_t step)
{
    const struct leader_view *view = context->view;
    struct leader_retries *retry = &context->memory->retry;
    char text[COMPLAINT_SIZE];
    if (!failed_again_in_memory(context, step)) {
        retry->memory_attempts = 0;
        return false;
    }
    if (retry->memory_generation != view->plan->generation) {
        retry->memory_generation = view->plan->generation;
        retry->memory_attempts++;
    }
    if (retry->memory_attempts == 1)
        return false;
    uint64_t due = next_attempt_ns(context, retry->memory_attempts);
    if (view->now_ns >= due)
        return false;
    leader_say(context, JOB_RECOVERING,
               "step %llu does not go on (%.256s): tried again in %.1f s (attempt %u)",
               (unsigned long long)step, complaint(context, text),
               (double)(due - view->now_ns) / 1e9, retry->memory_attempts + 1);
    leader_wake(context, due);
    return true;
}
