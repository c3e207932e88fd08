/* The time to compute steps again. Private to the leader. */
#pragma once

#include "elastic/leader/leader_internal.h"

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
