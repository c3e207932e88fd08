/*
 * The square sums of a step's gradients, unit by unit, of which the norm is made.
 *
 * All tensors are given to the device at once (kernel->norms_squared()), so a step waits for it
 * once here and not for each tensor. A unit's sum is that of its tensors in their order, whatever
 * else the rank holds: the same bits on every layout.
 */
#pragma once

#include "elastic/plan/plan.h"
#include "worker/state/state.h"

struct gradient_norm; /* opaque: room for the tensors of the model */

/** gradient_norm_new() - -ENOMEM */
int gradient_norm_new(const struct state *state, struct gradient_norm **ret_squares) CHECK_RESULT;
void gradient_norm_free(struct gradient_norm *squares);

/**
 * gradient_norm_record() - enters the sums of all units that @rank of @plan keeps into @record
 * @gradients: of each unit of the model the reduced gradient, on the device; NULL: it is frozen,
 * and its sum is 0
 *
 * Mirrors of a tied table do not count: the table does. Waits for the device; NAN after its
 * failure.
 */
void gradient_norm_record(struct gradient_norm *squares, const struct plan *plan, unsigned rank,
                          float *const *gradients, struct step_record *record);
