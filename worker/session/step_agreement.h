/*
 * How the step in progress goes on when a generation begins from memory
 * (protocol/division_round.h), agreed over its links.
 */
#pragma once

#include "base/error.h"
#include "comm/mesh/mesh.h"
#include "protocol/step_division.h"
#include "worker/state/state.h"
#include "worker/step/kept_step.h"

/**
 * step_agreement_run() - agree on the division of step applied_step + 1
 * @kept: what this rank has of it, borrowed; NULL: nothing
 *
 * All workers of @layout call it. Return: 0: @ret_division is the same on all ranks; -ECONNRESET,
 * -ETIMEDOUT (the mesh failed); -EBADMSG; -ENOMEM
 */
int step_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                       const struct state *state, const struct kept_step *kept,
                       struct step_division *ret_division, struct error *error) CHECK_RESULT;
