/*
 * Handover of state when a plan takes over: a donor, named by the plan, gives every unit that a
 * worker needs and does not hold, over the links of the new generation.
 *
 * State does not change before the first commit of a generation. So a donor computes while its
 * units are sent, and waits for the sends only where it is about to apply the step
 * (handover_await_sent()). A receiver takes the head of each unit when the generation opens, so
 * that it can agree with all others on what follows, and the bytes when it has nothing else to do
 * (handover_receive()): until then they stay on the donor's side of the link, in nobody's way.
 *
 * Nothing is dropped here: the donor keeps its copy until the first commit of the new generation
 * proves that every worker has the units that it needs (handover_release()). Until then a failure
 * leaves all units available. A unit that has not arrived in full is no copy, and is dropped.
 */
#pragma once

#include "comm/mesh/mesh.h"
#include "elastic/plan/plan.h"
#include "worker/state/state.h"

struct handover; /* the moves of one rank in one generation */

/**
 * handover_begin() - begin this rank's moves of @plan: post the sends, take the heads and the
 * memory of the units to receive
 *
 * A worker without state takes step and freeze state from its donors. All but the plan is borrowed
 * until handover_close(), and so is the plan.
 *
 * Return: 0; -ECONNRESET, -ETIMEDOUT (the mesh failed; the units held before are still held);
 * -EBADMSG (donors disagree); -ENOMEM
 */
int handover_begin(struct state *state, const struct plan *plan, unsigned rank, struct mesh *mesh,
                   struct handover **ret_handover, struct error *error) CHECK_RESULT;
/** handover_receive() - wait for the units that this rank receives; errors as handover_begin() */
int handover_receive(struct handover *handover, struct error *error) CHECK_RESULT;
/** handover_await_sent() - wait until the units that this rank gives are sent, before they change.
 * -ECONNRESET, -ETIMEDOUT: the mesh failed */
int handover_await_sent(struct handover *handover) CHECK_RESULT;
/** handover_close() - end it before the mesh is closed, and drop the units that have not arrived;
 * after a failure the mesh must have failed, too. NULL allowed */
void handover_close(struct handover *handover);

/** handover_release() - release the donors that served this rank, after the first commit */
int handover_release(const struct plan *plan, unsigned rank, struct mesh *mesh) CHECK_RESULT;
/** handover_await_release() - on a donor: wait until every worker that it served has released it */
int handover_await_release(const struct plan_start *start, unsigned rank,
                           struct mesh *mesh) CHECK_RESULT;
