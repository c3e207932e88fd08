/*
 * How long steps take, as measured. Of the plan in force that is the median of the steps that
 * reports of progress told, so that one slow step decides nothing. Private to the leader.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_pace_note() - take in what @view tells of the plan in force; a new plan, and another
 * number of frozen layers, begin anew */
void leader_pace_note(const struct leader_view *view, struct leader_pace *pace);

/** leader_pace_seconds() - return the median; 0: unknown */
double leader_pace_seconds(const struct leader_pace *pace);

/** leader_pace_of() - return the measured step of @layout, in force, with as many frozen layers as
 * it was made for; 0: unknown */
double leader_pace_of(const struct leader_pace *pace, const struct plan_layout *layout);

/** leader_pace_is_known() - return whether enough steps were measured to judge a layout by; the
 * first ones of a generation may be slow */
bool leader_pace_is_known(const struct leader_pace *pace);

/** leader_pace_has_thawed() - return whether steps of the plan in force train layers that were
 * frozen when it was made */
bool leader_pace_has_thawed(const struct leader_view *view);

/**
 * leader_replay_cost_ns() - return how long the steps from @from to @to take to compute; 0: no
 * steps
 * @plan: its prediction counts if no step time was measured; NULL: none
 *
 * A time measured with any layout is nearer to the truth than a prediction. A wait of this length
 * before computing the steps again never takes more than twice the time of the better choice.
 */
uint64_t leader_replay_cost_ns(const struct leader_context *context, const struct plan *plan,
                               uint64_t from, uint64_t to);

/** leader_operation_ns() - return how long a worker may compute without looking at its links, and
 * so without a report that they broke: a micro-batch, at most, by a measured step or the predicted
 * one */
uint64_t leader_operation_ns(const struct leader_context *context);
