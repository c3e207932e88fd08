/*
 * The sums of a step in progress that this rank gives to other ranks, and gets from them, when a
 * generation begins within the step (protocol/step_sums.h). The copies that this rank keeps of
 * another replica's sums (worker/step/sum_copies.h) count as offered by itself.
 *
 * Offers and answers are small. The sums themselves travel while the step goes on: backward waits
 * for those of a unit before it adds to the unit's gradient. Their messages are bulk, behind the
 * state that is handed over (worker/state/handover.h). On devices with memory of their own nothing
 * is offered and nothing taken.
 *
 * Given sums are lost here. If the generation breaks before they have arrived, their part is
 * computed again.
 */
#pragma once

#include "comm/mesh/mesh.h"
#include "elastic/plan/plan.h"
#include "worker/step/kept_step.h"

struct moved_sums;

/**
 * moved_sums_new() - exchange offers with the ranks that @plan pairs with this one, donors included
 * @kept: of this rank, borrowed until moved_sums_settle(); NULL: nothing
 * @begins: false: the generation has begun before, on other links, and nothing moves
 *
 * All but @kept is borrowed until moved_sums_close(), and its copies until moved_sums_arrive().
 * Return: 0; -ECONNRESET, -ETIMEDOUT (the mesh failed); -EBADMSG; -ENOMEM
 */
int moved_sums_new(struct state *state, const struct plan *plan, unsigned rank, struct mesh *mesh,
                   const struct kept_step *kept, bool begins,
                   struct moved_sums **ret_moved) CHECK_RESULT;

/** moved_sums_facts() - describe the own and the offered sums to the other ranks. -ENOMEM */
int moved_sums_facts(struct moved_sums *moved, struct step_facts *ret_facts) CHECK_RESULT;

/**
 * moved_sums_settle() - ask for the offered sums that this rank goes on with, and begin to send
 * those that others ask for
 * @division: of the step; NULL: this rank is a donor
 *
 * Return: as moved_sums_new(); -EBADMSG also where the division counts on a sum that is not there
 */
int moved_sums_settle(struct moved_sums *moved, const struct step_division *division) CHECK_RESULT;

/** moved_sums_list() - return the own and the offered sums, of which moved_sums_settle() has
 * chosen; valid until moved_sums_close() */
const struct step_sums *moved_sums_list(const struct moved_sums *moved);

/** moved_sums_arrive() - begin to receive into the buffers of @gradients, which were made with
 * moved_sums_list(). Errors as moved_sums_new() */
int moved_sums_arrive(struct moved_sums *moved, const struct gradients *gradients) CHECK_RESULT;

/** moved_sums_advance() - take note of what has arrived, without waiting, and release donors when
 * all has. Errors as moved_sums_new() */
int moved_sums_advance(struct moved_sums *moved) CHECK_RESULT;
/** moved_sums_have_arrived() - return whether all is here, by moved_sums_advance() */
bool moved_sums_have_arrived(const struct moved_sums *moved);
/** moved_sums_are_over() - return whether all that this rank gives has left, too */
bool moved_sums_are_over(const struct moved_sums *moved);
/** moved_sums_await_unit() - wait for all sums of @unit. Errors as moved_sums_new() */
int moved_sums_await_unit(struct moved_sums *moved, unsigned unit) CHECK_RESULT;
/** moved_sums_await_release() - on a donor: wait until all that was asked for has arrived. Errors
 * as moved_sums_new() */
int moved_sums_await_release(struct moved_sums *moved) CHECK_RESULT;

/** moved_sums_close() - end it before the mesh is closed; after a failure the mesh must have
 * failed, too. NULL allowed
 * @gradients: forget there what has not arrived; NULL: there are none */
void moved_sums_close(struct moved_sums *moved, struct gradients *gradients);
