/*
 * When a generation begins from memory, all ranks agree on how the step in progress goes on: facts
 * go up the tree of ranks, the root divides the step, and the division comes down
 * (worker/step/step_division.h).
 */
#pragma once

#include "base/error.h"
#include "comm/mesh/mesh.h"
#include "elastic/plan/plan_layout.h"
#include "worker/state/state.h"
#include "worker/step/kept_step.h"

/**
 * step_agreement_run() - agree on the division of step applied_step + 1
 * @kept: what this rank has of it, borrowed; NULL: nothing
 *
 * All workers of @layout call it. The cost is two messages of a few words for each lane in
 * progress. Return: 0: @ret_division is the same on all ranks; -ECONNRESET, -ETIMEDOUT (the mesh
 * failed); -EBADMSG; -ENOMEM
 */
int step_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                       const struct state *state, const struct kept_step *kept,
                       struct step_division *ret_division, struct error *error) CHECK_RESULT;
