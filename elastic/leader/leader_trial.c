#include "elastic/leader/leader_trial.h"

#include <stdio.h>

#include "elastic/leader/leader_pace.h"
#include "elastic/plan/plan_words.h"

#define LOSS_LEAST 0.05 /* of the step of the layout before */

bool leader_trial_has_failed(const struct leader_context *context)
{
    const struct leader_pace *pace = &context->memory->pace;
    const struct plan_trial *trial = &context->view->plan->trial;
    const struct leader_wish *wish = &context->view->wish;
    bool pinned = wish->stages > 0 || wish->replicas > 0;
    return trial->before.stages > 0 && !pinned && !leader_pace_has_thawed(context->view) &&
           leader_pace_is_known(pace) &&
           leader_pace_seconds(pace) > (1 + LOSS_LEAST) * trial->before_seconds;
}

void leader_trial_limit(struct leader_context *context, bool trial_has_failed)
{
    const struct plan_trial *trial = &context->view->plan->trial;
    bool holds = trial->slower_frozen == context->view->progress.frozen_layers;
    context->shape_wanted = trial_has_failed ? trial->before : (struct plan_shape){0};
    context->shape_avoided = holds ? trial->slower : (struct plan_shape){0};
}

void leader_trial_enter(const struct leader_context *context, bool for_freeze,
                        bool trial_has_failed, struct plan *plan)
{
    const struct plan_layout *now = &context->view->plan->layout;
    const struct plan_shape shape = {now->stage_count, now->replica_count};
    const double seconds = context->memory->pace.before_freeze;
    bool is_for_speed = for_freeze && plan->layout.worker_count <= now->worker_count;
    plan->trial = context->view->plan->trial;
    plan->trial.before = (struct plan_shape){0};
    plan->trial.before_seconds = 0;
    if (trial_has_failed) {
        plan->trial.slower = shape;
        plan->trial.slower_frozen = context->view->progress.frozen_layers;
    } else if (is_for_speed && seconds > 0 &&
               !plan_shape_is(&shape, plan->layout.stage_count, plan->layout.replica_count)) {
        plan->trial.before = shape;
        plan->trial.before_seconds = seconds;
    }
}

void leader_trial_words(const struct leader_context *context, char *ret_words, size_t size)
{
    const struct plan_trial *trial = &context->view->plan->trial;
    char before[LAYOUT_WORDS_SIZE];
    snprintf(ret_words, size, "steps take %.1f ms, longer than the %.1f ms of %s",
             leader_pace_seconds(&context->memory->pace) * 1e3, trial->before_seconds * 1e3,
             plan_layout_words(trial->before.stages, trial->before.replicas, before));
}
