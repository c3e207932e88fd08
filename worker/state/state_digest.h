/*
 * Problem: a wrong bit of a parameter or a moment in one of several replicas does not show in any
 * gradient. The gradients of the wrong lanes go into the sums of all replicas alike, so all
 * continue with the same wrong sums, and the one replica trains a different model.
 *
 * Design: the commit carries digests (kernel->digests()) of the state: of one unit per step, in
 * turn, frozen ones included. After a boundary at which a checkpoint begins, the digests of all
 * units are compared in the next step: in its commit, or earlier in the vote on the checkpoint
 * (protocol/checkpoint_vote.h). The checkpoint is committed after the comparison, so a recorded
 * checkpoint was equal on all replicas, and the job can go back to it. A wrong bit is found within
 * as many steps as the model has units, at the cost of reading one unit's state per step.
 *
 * Not compared: units with a single holder, and weights in bf16, which the optimizer computes from
 * the parameters in each step. Nothing is compared if elastic.mixed_devices allows unlike devices.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "elastic/plan/plan_layout.h"
#include "protocol/unit_digests.h"
#include "worker/state/state.h"

struct state_digest; /* opaque: memory for the tensors of the model */

/** state_digest_new() - allocate; @state is borrowed; -ENOMEM */
int state_digest_new(const struct state *state, struct state_digest **ret_check) CHECK_RESULT;
void state_digest_free(struct state_digest *check); /* NULL allowed */

/**
 * state_digest_run() - compute digests of the units that both @rank of @layout and other ranks keep
 * @all: of each such unit; else of the one in turn at this boundary
 *
 * Waits for the device. After its failure the digests are undefined; synchronize() reports it.
 */
void state_digest_run(struct state_digest *check, const struct plan_layout *layout, unsigned rank,
                      bool all);
/** state_digest_all() - return the digests of all units at this boundary, which the first call
 * computes; borrowed until the next run */
const struct unit_digests *state_digest_all(struct state_digest *check,
                                            const struct plan_layout *layout, unsigned rank);

/** state_digest_of() - return the digests of the last run; borrowed until the next one */
const struct unit_digests *state_digest_of(const struct state_digest *check);
