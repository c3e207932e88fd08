/*
 * Two nodes that have lost each other, and neither can be done without. Private to the leader.
 *
 * Each has state that nobody else has, or without either the other slots are not enough. Then the
 * same layout is planned again, as a patient plan (elastic/plan/plan.h): its workers go on trying
 * to make their links for as long as a generation may take to begin, so training goes on in the
 * moment when the pair finds each other, and only one generation in twenty time-outs is spent on
 * waiting.
 *
 * That the job waits costs time; so does going back to the newest checkpoint without one of the
 * two, and it costs nothing else, for the steps come out the same. Nobody knows how long the
 * network stays away, so the job waits for as long as the steps that would be lost take to compute
 * (at least a minute by default), and then goes back: never more than twice the time that the
 * better choice would have taken. Who knows more says so by draining one of the two, and it goes
 * back at once.
 *
 * A leader that is new begins to count anew, from when it hears of the pair.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_pair_loss_is_over() - the plan in force waits for nodes that have lost each other, and
 * going back is better now; false for a while after leader_pair_loss_goes_on() */
bool leader_pair_loss_is_over(const struct leader_context *context);

/** leader_pair_loss_goes_on() - the job cannot go back: the others are not slots enough */
void leader_pair_loss_goes_on(struct leader_context *context);

/**
 * leader_pair_loss_enter() - make @plan, which is about to be published, a patient one, if nodes of
 * it have lost each other
 * @step: that it goes on from
 */
void leader_pair_loss_enter(struct leader_context *context, struct plan *plan, uint64_t step);

/** leader_pair_loss_say() - what the plan in force waits for, and for how long, behind what was
 * said; sets when to look again */
void leader_pair_loss_say(struct leader_context *context);
