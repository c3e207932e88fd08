/*
 * Problem: a wrong bit of a parameter or a moment in one of several replicas is not seen in any
 * gradient. What it makes of its lanes goes into the sums of all alike, so all go on with the same
 * wrong sums, and the replica with another model.
 *
 * Design: digests (kernel->digests()) of what everybody holds ride in the commit: of one unit a
 * step, in turn, frozen ones too, and of all units in the step after a boundary at which a
 * checkpoint is begun. That one is committed by a later commit than the one that compares, so what
 * is recorded was equal everywhere, and is what a job goes back to. An odd bit is seen within as
 * many steps as the model has units, for a read of a unit's state a step.
 *
 * Not compared: units that one worker alone holds, and weights in bf16, which the optimizer makes
 * of the parameters in each step. Nothing where elastic.mixed_devices lets unlike devices compute.
 */
#pragma once

#include "elastic/plan/plan.h"
#include "worker/state/state.h"

struct unit_digests {
    bool known[STEP_RECORD_UNITS_MAX];
    uint64_t values[STEP_RECORD_UNITS_MAX]; /* of parameters and moments */
};

struct state_digest; /* opaque: room for the tensors of the model */

/** state_digest_new() - -ENOMEM; @state is borrowed */
int state_digest_new(const struct state *state, struct state_digest **ret_check) CHECK_RESULT;
void state_digest_free(struct state_digest *check); /* NULL allowed */

/**
 * state_digest_run() - of the units that @rank of @plan keeps and others keep, too, as they are now
 * @all: of each; else of the one whose turn it is at this boundary
 *
 * Waits for the device; anything after its failure, which synchronize() says.
 */
void state_digest_run(struct state_digest *check, const struct plan *plan, unsigned rank, bool all);

/** state_digest_of() - of the last run; borrowed until the next one */
const struct unit_digests *state_digest_of(const struct state_digest *check);
