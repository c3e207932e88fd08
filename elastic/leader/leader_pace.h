/*
 * Measured durations of steps. For the plan in force, the median over reports of progress counts,
 * so that one slow step decides nothing. Private to the leader.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_pace_note() - add the newest step of the plan in force from @view; a new plan or another
 * number of frozen layers restarts the measurement */
void leader_pace_note(const struct leader_view *view, struct leader_pace *pace);

/** leader_pace_seconds() - return the median; 0: unknown */
double leader_pace_seconds(const struct leader_pace *pace);

/** leader_pace_of() - return the measured step of @layout, which is in force, at its number of
 * frozen layers; 0: unknown */
double leader_pace_of(const struct leader_pace *pace, const struct plan_layout *layout);

/** leader_pace_is_known() - return whether enough steps were measured to judge a layout; the first
 * steps of a generation may be slow */
bool leader_pace_is_known(const struct leader_pace *pace);

/** leader_pace_has_thawed() - return whether steps of the plan in force train layers that were
 * frozen when it was made */
bool leader_pace_has_thawed(const struct leader_view *view);

/**
 * leader_replay_cost_ns() - return the time to compute the steps from @from to @to; 0: no steps
 * @plan: its prediction counts if no step time was measured; NULL: none
 *
 * A time measured with any layout is nearer to the truth than a prediction. A wait of this length
 * before computing the steps again never takes more than twice the time of the better choice.
 */
uint64_t leader_replay_cost_ns(const struct leader_context *context, const struct plan *plan,
                               uint64_t from, uint64_t to);

/** leader_operation_ns() - return the longest time that a worker may compute without looking at its
 * links, and so without reporting that they broke: one micro-batch, by the measured or the
 * predicted step */
uint64_t leader_operation_ns(const struct leader_context *context);

/** leader_prediction_factor() - return measured over predicted step time of the plan in force, or
 * the factor that it has itself where its steps are not measured; 0: unknown */
double leader_prediction_factor(const struct leader_context *context);

/** leader_step_is_long() - return whether copies of sums (plan_layout.copy_seconds) are worth it in
 * the steps of @plan: one is expected to take two intervals or more */
bool leader_step_is_long(const struct plan *plan);
