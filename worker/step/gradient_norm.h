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

struct squares; /* opaque: room for the tensors of the model */

/** squares_new() - -ENOMEM */
int squares_new(const struct state *state, struct squares **ret_squares) CHECK_RESULT;
void squares_free(struct squares *squares);

/**
 * squares_record() - enters the sums of all units that @rank of @plan keeps into @record
 * @gradients: of each unit of the model the reduced gradient, on the device; NULL: it is frozen,
 * and its sum is 0
 *
 * Mirrors of a tied table do not count: the table does. Waits for the device; NAN after its
 * failure.
 */
void squares_record(struct squares *squares, const struct plan *plan, unsigned rank,
                    float *const *gradients, struct step_record *record);
