/*
 * Handover of state when a plan takes over: donors, named by the plan, send every unit that a
 * worker needs and does not hold, over the links of the new generation.
 *
 * State does not change before the first commit of a generation. So both sides compute meanwhile: a
 * receiver waits for the parameters of a unit before its first forward (handover_await_unit()), and
 * both sides wait for the rest before they report that they hold the step (handover_finish();
 * protocol/unit_arrivals.h). The heads of all units come first, when the generation opens, so that
 * all ranks can agree on step and freeze state. Parameters of all units go before moments of any,
 * and units in the order of the forward. All these messages are bulk: messages of the step go first
 * on every link.
 *
 * If a device has memory of its own, arrays pass through host memory: each direction takes at most
 * STAGED_BYTES and one more array. Only the main thread may use the device, and it must not wait
 * for a device that waits for another rank's message. So on such a device the handover is finished
 * before the first step begins (worker/step/arriving_units.c).
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
 * memory of the units to receive, and post their receives
 *
 * A worker without state takes step and freeze state from its donors. All arguments are borrowed
 * until handover_close().
 *
 * Return: 0; -ECONNRESET, -ETIMEDOUT (the mesh failed; the units held before are still held);
 * -EBADMSG (donors disagree); -ENOMEM
 */
int handover_begin(struct state *state, const struct plan *plan, unsigned rank, struct mesh *mesh,
                   struct handover **ret_handover, struct error *error) CHECK_RESULT;

/** handover_advance() - take all arrived messages, and post as many as there is room for, without
 * waiting; errors as handover_begin(), and those of the device. The first error is the result of
 * all later calls */
int handover_advance(struct handover *handover) CHECK_RESULT;
/** handover_has_arrived() - return whether all units that this rank receives have arrived */
bool handover_has_arrived(const struct handover *handover);
/** handover_await_unit() - wait for the parameters of @unit, if this rank receives it; errors as
 * handover_advance() */
int handover_await_unit(struct handover *handover, unsigned unit) CHECK_RESULT;
/** handover_finish() - wait until all units that this rank receives have arrived, and all that it
 * sends are sent; errors as handover_advance() */
int handover_finish(struct handover *handover) CHECK_RESULT;

/** handover_close() - end the handover before the mesh is closed, and drop the units that have not
 * arrived; after a failure the mesh must have failed too. NULL allowed */
void handover_close(struct handover *handover);

/** handover_release() - release the donors that served this rank, after the first commit */
int handover_release(const struct plan *plan, unsigned rank, struct mesh *mesh) CHECK_RESULT;
/** handover_await_release() - on a donor: wait until every worker that it served has released it */
int handover_await_release(const struct plan_start *start, unsigned rank,
                           struct mesh *mesh) CHECK_RESULT;
