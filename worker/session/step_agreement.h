/*
 * The agreement how the step in progress continues when a generation begins from memory
 * (protocol/division_round.h), over the links of that generation.
 */
#pragma once

#include "base/error.h"
#include "comm/mesh/mesh.h"
#include "protocol/step_division.h"
#include "worker/state/state.h"
#include "worker/step/kept_step.h"
#include "worker/step/moved_sums.h"

/* The sums of a step in progress, of one rank. */
struct step_agreement {
    struct mesh *mesh;
    const struct plan *plan;
    unsigned rank;
    struct state *state;
    bool begins; /* false: over new links of a generation that has begun */
};

/**
 * step_agreement_run() - agree on the division of step applied_step + 1, and begin to give the sums
 * that other ranks go on with
 * @kept: what this rank has of it; made where other ranks give it something; NULL: nothing
 * @ret_sums: what moves; set after an error, too, where something may be under way
 *
 * All workers of the plan call it. Return: 0: @ret_division is the same on all ranks; -ECONNRESET,
 * -ETIMEDOUT (the mesh failed); -EBADMSG; -ENOMEM
 */
int step_agreement_run(const struct step_agreement *agreement, struct kept_step **kept,
                       struct moved_sums **ret_sums, struct step_division *ret_division,
                       struct error *error) CHECK_RESULT;
