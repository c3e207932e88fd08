/*
 * Handle two nodes that have lost each other, neither of which can be left out. Private to the
 * leader.
 *
 * Each node has the only copy of some state, or the other slots are not enough without it. Then the
 * same layout is planned again, as a patient plan (elastic/plan/plan.h): its workers retry their
 * links for as long as a generation may take to begin. So training continues as soon as the pair
 * reaches each other, and waiting costs only one generation in twenty timeouts.
 *
 * Waiting costs time. Going back to the newest checkpoint without one of the two nodes also costs
 * only time, because the replayed steps have the same bits. The length of the netsplit is not
 * known, so the job waits for as long as the steps that would be lost take to compute (at least a
 * minute by default), and then goes back: never more than twice the time of the better choice. If
 * an operator drains one of the two nodes, the job goes back at once.
 *
 * A new leader restarts the wait when it first hears of the pair.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_pair_loss_is_over() - return whether the plan in force waits for nodes that have lost
 * each other, and going back is better now; false for a while after leader_pair_loss_goes_on() */
bool leader_pair_loss_is_over(const struct leader_context *context);

/** leader_pair_loss_goes_on() - note that the job cannot go back: the other slots are not enough */
void leader_pair_loss_goes_on(struct leader_context *context);

/**
 * leader_pair_loss_enter() - make @plan, which is about to be published, a patient plan if nodes of
 * it have lost each other
 * @step: the step from which @plan continues
 */
void leader_pair_loss_enter(struct leader_context *context, struct plan *plan, uint64_t step);

/** leader_pair_loss_say() - add to the job's text that the plan in force waits for a pair of nodes,
 * and the length of the wait; set the next wake-up */
void leader_pair_loss_say(struct leader_context *context);
