/*
 * The square sums of a step's gradients, one per unit, for the global norm.
 *
 * All tensors are given to the device at once (kernel->norms_squared()), so a step waits for the
 * device once here and not for each tensor. A unit's sum adds its tensors in their order and
 * depends on no other unit of the rank: the same bits on every layout.
 */
#pragma once

#include "elastic/plan/plan.h"
#include "worker/state/state.h"

struct gradient_norm; /* opaque: memory for the tensors of the model */

/** gradient_norm_new() - allocate; -ENOMEM */
int gradient_norm_new(const struct state *state, struct gradient_norm **ret_squares) CHECK_RESULT;
void gradient_norm_free(struct gradient_norm *squares);

/**
 * gradient_norm_record() - write the sums of all units that @rank of @plan keeps into @record
 * @gradients: per unit of the model the reduced gradient, on the device; NULL: the unit is frozen,
 * and its sum is 0
 *
 * Mirrors of a tied table do not count: the table does. Waits for the device; NAN after its
 * failure.
 */
void gradient_norm_record(struct gradient_norm *squares, const struct plan *plan, unsigned rank,
                          float *const *gradients, struct step_record *record);
