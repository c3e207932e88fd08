/*
 * Plan which workers give their sums of gradients to which, where a planned change may begin within
 * a step (elastic/plan/early_switch.h).
 *
 * Problem: a step's work so far is in the sums of its workers. When a worker leaves, or its stage
 * changes, its sums are of no use where they are, and neither are those of the rest of its replica,
 * because a lane's sum must be complete over all units.
 *
 * Design: all lanes of one replica of the generation before go to one replica of the new one, its
 * heir: the one in which most of its units stay in place. Each worker of the old replica that lacks
 * a place there gives the heir's workers the sums of their units. Which sums these are is not known
 * when the plan is made: the workers agree on that when the generation begins
 * (protocol/step_sums.h).
 */
#pragma once

#include "base/compiler.h"
#include "elastic/plan/plan.h"
#include "elastic/recovery/state_moves.h"

/**
 * sum_moves_fill() - fill sums of @plan, whose layout, moves and donors are filled; workers that
 * only give sums become donors
 * @before: layout of the generation that the plan follows
 * @frozen_units: first units of the model without gradients
 *
 * A replica of which a worker is gone gives nothing. Return: 0; -ENOMEM
 */
int sum_moves_fill(struct plan *plan, const struct plan_layout *before,
                   const struct state_moves_holder *holders, unsigned holder_count,
                   unsigned frozen_units) CHECK_RESULT;
