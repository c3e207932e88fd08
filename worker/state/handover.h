/*
 * Handover of state when a plan takes over: a donor, named by the plan, pushes every unit that a
 * worker needs and does not hold, over the links of the new generation.
 *
 * Nothing is dropped here: the donor keeps its copy until the first commit of the new generation
 * proves that every worker has the units that it needs (handover_release()). Until then a failure
 * leaves all units available.
 */
#pragma once

#include "comm/mesh/mesh.h"
#include "elastic/plan/plan.h"
#include "worker/state/state.h"

/**
 * handover_run() - carry out this rank's moves of @plan, sends and receives
 *
 * A worker without state takes step and freeze state from its donors.
 *
 * Return: 0; -ECONNRESET, -ETIMEDOUT (the mesh failed; the units held before are still held);
 * -EBADMSG (donors disagree); -ENOMEM
 */
int handover_run(struct state *state, const struct plan *plan, unsigned rank, struct mesh *mesh,
                 struct error *error) CHECK_RESULT;

/** handover_release() - release the donors that served this rank, after the first commit */
int handover_release(const struct plan *plan, unsigned rank, struct mesh *mesh) CHECK_RESULT;
/** handover_await_release() - on a donor: wait until every worker that it served has released it */
int handover_await_release(const struct plan_start *start, unsigned rank,
                           struct mesh *mesh) CHECK_RESULT;
