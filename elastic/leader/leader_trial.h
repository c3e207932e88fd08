/*
 * Give up a layout that turned out slower than the previous one, once. Private to the leader.
 *
 * The planner predicts, and may be wrong about slots, links and memory that it does not know. When
 * layers freeze, the same slots get another layout for its speed alone, and the step of the layout
 * before is measured. So a plan that follows a freeze remembers the layout before it and its step
 * (elastic/plan/plan_trial.h). If its own steps are longer, though fewer layers train, the job goes
 * back to that layout, and the slower one is not tried again while as many layers are frozen.
 *
 * Slots that join are used even if steps get no shorter: the user has set the number of slots, and
 * one more replica is one that may be lost.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_trial_has_failed() - return whether steps of the plan in force take longer than those of
 * the layout before it, which it was to shorten */
bool leader_trial_has_failed(const struct leader_context *context);

/** leader_trial_limit() - set which layouts may be planned now: if the trial has failed, the layout
 * before the one in force; else all except one that was slower */
void leader_trial_limit(struct leader_context *context, bool trial_has_failed);

/** leader_trial_enter() - note the known layouts in @plan, a change planned @for_freeze or after a
 * failed trial */
void leader_trial_enter(const struct leader_context *context, bool for_freeze,
                        bool trial_has_failed, struct plan *plan);

/** leader_trial_words() - say why the layout in force is given up after a failed trial */
void leader_trial_words(const struct leader_context *context, char *ret_words, size_t size);
