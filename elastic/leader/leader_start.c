/*
 * Generations that begin from only a checkpoint or the seed, and plans that end the job's run.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/timeouts.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_internal.h"
#include "elastic/leader/leader_netsplit.h"
#include "elastic/leader/leader_retry.h"
#include "elastic/plan/plan_words.h"

/* Return whether state was disputed. Some workers may not have been in the plan that first found
 * the dispute, or the next plan never began, so the mark is carried over. */
static bool was_disputed(const struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    return roster_disputed(&context->roster) ||
           (plan && plan->start.disputed &&
            context->view->checkpoint.step <= plan->start.resume_step);
}

/* Plan for the frozen layers of the restored state, not of the lost one. A record need not have
 * their number: then fewer slots may be enough than it seems. */
static int lay_out(struct leader_context *context, const struct slot_pool *pool,
                   struct plan **ret_plan)
{
    const struct leader_view *view = context->view;
    unsigned from_start = view->spec->elastic.freeze.from_start;
    bool restores = leader_checkpoint_exists(&view->checkpoint);
    unsigned frozen = restores ? view->checkpoint.frozen_layers : from_start;
    unsigned most = restores ? MAX(view->progress.frozen_layers, from_start) : from_start;
    int status = leader_layout(context, pool, frozen, ret_plan);
    if (status != -ENOSPC || frozen > 0 || most == 0)
        return status;
    return leader_layout(context, pool, most, ret_plan);
}

int leader_restart(struct leader_context *context, const struct slot_pool *pool,
                   enum plan_reason reason, const char *why)
{
    const struct leader_view *view = context->view;
    const struct leader_checkpoint *checkpoint = &view->checkpoint;
    enum job_state waiting = reason == PLAN_REASON_FAILURE ? JOB_RECOVERING : JOB_WAITING;
    if (pool->count < leader_devices_min(view)) {
        leader_explain_wait(context, waiting, pool->count, NULL);
        return 0;
    }
    if (leader_retry_takes_back(context, waiting))
        return 0;
    if (!leader_checkpoint_exists(checkpoint) && checkpoint->missing[0] != '\0') {
        leader_say(context, waiting, "waits for %s", checkpoint->missing);
        context->decision->misses_checkpoint = true;
        return 0;
    }
    if (leader_retry_waits(context, waiting))
        return 0;
    struct plan *plan;
    int status = lay_out(context, pool, &plan);
    if (status == -ENOSPC) {
        leader_explain_wait(context, waiting, pool->count, context->error->text);
        return 0;
    }
    if (status < 0)
        return status;
    plan->change.reason = reason;
    plan->change.planned = false;
    plan->start.source =
        leader_checkpoint_exists(checkpoint) ? PLAN_SOURCE_CHECKPOINT : PLAN_SOURCE_FRESH;
    plan->start.resume_step = checkpoint->step;
    plan->start.disputed = was_disputed(context);
    memcpy(plan->start.restore_path, checkpoint->path, sizeof(plan->start.restore_path));
    if (checkpoint->shares) /* it is in several folders, on the copy nodes */
        memcpy(plan->start.restore_sha256, checkpoint->manifest_sha256,
               sizeof(plan->start.restore_sha256));
    char layout[LAYOUT_WORDS_SIZE], from[128] = "from step 0 (exact: nothing but time is lost)";
    if (leader_checkpoint_exists(checkpoint))
        snprintf(from, sizeof(from), "from the checkpoint of step %llu%s%.64s%s",
                 (unsigned long long)checkpoint->step,
                 checkpoint->missing[0] != '\0' ? " (not from " : "", checkpoint->missing,
                 checkpoint->missing[0] != '\0' ? ")" : "");
    else if (reason != PLAN_REASON_FAILURE || view->progress.step == 0)
        snprintf(from, sizeof(from), "from step 0");
    snprintf(plan->change.text, sizeof(plan->change.text), "%.120s%s%s %s", why,
             why[0] != '\0' ? ": " : "",
             plan_layout_words(plan->layout.stage_count, plan->layout.replica_count, layout), from);
    leader_act(context, LEADER_PUBLISH, plan);
    leader_say(context, reason == PLAN_REASON_FAILURE ? JOB_RECOVERING : JOB_PREPARING, "%s",
               plan->change.text);
    return 0;
}

bool leader_waits_for_slots(const struct leader_context *context)
{
    const struct leader_decision *decision = context->decision;
    return !decision->plan && !decision->misses_checkpoint && !decision->gives_up_checkpoint &&
           !decision->takes_back_checkpoints;
}

static int start_on_free_slots(struct leader_context *context)
{
    struct slot_pool pool = {0};
    bool resumes = context->view->plan || leader_checkpoint_exists(&context->view->checkpoint);
    int status = slot_pool_add_free(context, &pool, context->view->queue.kept_before);
    if (status == 0)
        status =
            leader_restart(context, &pool, resumes ? PLAN_REASON_RESUME : PLAN_REASON_START, "");
    slot_pool_done(&pool);
    return status;
}

/* Nodes that missed each other or the checkpoint a while ago are used if the job cannot begin
 * without them: no worker trains, so nothing else would show that they reach each other again. */
int leader_start(struct leader_context *context)
{
    leader_netsplit_choose_for_checkpoint(context);
    int status = start_on_free_slots(context);
    if (status == 0 && leader_waits_for_slots(context) && leader_netsplit_take_in_readers(context))
        status = start_on_free_slots(context);
    if (status == 0 && leader_waits_for_slots(context) && leader_netsplit_give_in(context))
        status = start_on_free_slots(context);
    return status;
}

/* Limit the wait of the last checkpoint for the end of a step. */
static void limit_leaving(struct leader_context *context, struct plan_change *change)
{
    uint64_t patience_ns = TIMEOUTS_STEP_END * context->view->failure_timeout_ns;
    struct preemption numbers;
    if (!change->planned)
        return;
    leader_preempted(context, false, &numbers);
    change->is_limited = true;
    change->spare_ns = MIN(PLAN_SPARE_ENDLESS, preemption_checkpoint_spare_ns(&numbers));
    change->limit_ns = MIN(patience_ns, change->spare_ns);
}

int leader_empty_plan(struct leader_context *context, enum plan_reason reason, bool planned,
                      const char *text)
{
    const struct roster *roster = &context->roster;
    struct plan *plan = plan_new();
    AUTO_FREE struct state_moves_holder *leaving =
        calloc((size_t)roster->count + 1, sizeof(*leaving));
    if (!plan || !leaving) {
        plan_free(plan);
        return -ENOMEM;
    }
    unsigned count = 0;
    for (unsigned i = 0; i < roster->count; i++)
        if (roster_alive(&roster->members[i]))
            leaving[count++] = leader_holder(&roster->members[i], &context->view->plan->layout);
    snprintf(plan->job, sizeof(plan->job), "%s", context->view->spec->name);
    snprintf(plan->change.text, sizeof(plan->change.text), "%s", text);
    plan->change.reason = reason;
    plan->change.planned = planned;
    plan->start.source = PLAN_SOURCE_MEMORY;
    plan->start.resume_step = context->view->progress.step;
    plan->layout.frozen_layers = context->view->progress.frozen_layers;
    limit_leaving(context, &plan->change);
    int status = state_moves_add_donors(&plan->layout, leaving, count);
    if (status < 0) {
        plan_free(plan);
        return status;
    }
    leader_act(context, LEADER_PUBLISH, plan);
    leader_say(context, JOB_PAUSING, "%s", text);
    return 0;
}

int leader_empty_plan_instead(struct leader_context *context, uint64_t follows,
                              enum plan_reason reason, const char *text)
{
    int status = leader_empty_plan(context, reason, true, text);
    if (status == 0)
        context->decision->plan->follows = follows;
    return status;
}
