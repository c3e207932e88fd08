/* What steps are worth that would have to be computed again. Private to the leader. */
#pragma once

#include "elastic/leader/leader_internal.h"

/**
 * leader_replay_cost_ns() - how long the steps from @from to @to take to compute; 0: there are none
 * @plan: whose prediction counts where nothing was measured; NULL: none
 *
 * What was measured of any layout is nearer to the truth than a prediction. Who waits for as long
 * as that before computing them again never needs more than twice the time of the better choice.
 */
uint64_t leader_replay_cost_ns(const struct leader_context *context, const struct plan *plan,
                               uint64_t from, uint64_t to);
