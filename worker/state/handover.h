/*
 * State changes hands when a plan takes over: every unit that a worker needs and does not hold is
 * pushed to it by the worker that the plan names, over the links of the new generation.
 *
 * Nothing is dropped here: the giver keeps its copy until the first commit of the new generation
 * proves that everybody has what it needs (handover_release()). Until then a failure finds all
 * units.
 */
#pragma once

#include "comm/mesh/mesh.h"
#include "elastic/plan/plan.h"
#include "worker/state/state.h"

/**
 * handover_run() - carry out this rank's moves of @plan, both ways
 *
 * A worker that held nothing takes over step and freeze state of its givers. Return: 0;
 * -ECONNRESET, -ETIMEDOUT (the mesh failed; what was held is still held); -EBADMSG (givers
 * disagree), -ENOMEM
 */
int handover_run(struct state *state, const struct plan *plan, unsigned rank, struct mesh *mesh,
                 struct error *error) CHECK_RESULT;

/** handover_release() - after the first commit: let the donors that served this rank go */
int handover_release(const struct plan *plan, unsigned rank, struct mesh *mesh) CHECK_RESULT;
/** handover_await_release() - a donor: until everybody it served has said so */
int handover_await_release(const struct plan *plan, unsigned rank, struct mesh *mesh) CHECK_RESULT;
