/* A dispute between replicas (protocol/dispute.h), over the links of the generation. */
#pragma once

#include "comm/mesh/mesh.h"
#include "protocol/dispute.h"
#include "worker/state/state.h"

/**
 * dispute_round_run() - collect the claims of all workers of @layout and distribute the verdict
 * @mine: @count claims of @rank; borrowed
 *
 * No rank returns with a verdict before all ranks have it. Return: 0: @ret_verdict is the same on
 * all ranks; -ECONNRESET, -ETIMEDOUT (the mesh failed); the errors of dispute_begin()
 */
int dispute_round_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                      uint64_t step, const struct dispute_verdict_claim *mine, size_t count,
                      struct dispute_verdict *ret_verdict) CHECK_RESULT;

/**
 * dispute_round_settle() - run the round with the claims from @state and @digests, and decide its
 * outcome; afterwards @state holds no step
 *
 * Return: never 0; about gradients the errors of dispute_round_run() and dispute_outcome(), about
 * state those of dispute_outcome(), or -EUCLEAN without a verdict
 */
int dispute_round_settle(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                         enum dispute_about about, uint64_t step, struct state *state,
                         const struct unit_digests *digests, struct dispute_memory *memory,
                         struct error *error) CHECK_RESULT;
