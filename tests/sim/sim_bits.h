/*
 * Bits that are lost: of the gradients, a parameter or an optimizer's moment of one worker, where
 * others hold the same. Replicas find that they differ, and what follows from it has to be exact:
 * nothing of a wrong bit is ever in a checkpoint, and soon not in what is trained on either.
 *
 * Half of these histories have no other fault: there everything is held to the rules. In the others
 * one who knows, or who is right, may die just then; where a generation goes on from memory before
 * a wrong bit was found, nobody can find it any more, and the history ends without a verdict.
 *
 * They have a stream of random numbers of their own: the histories of all other jobs are as they
 * would be without them.
 */
#pragma once

#include "sim/sim_worker.h"

/** sim_bits_draw() - is this job one of those? Before it is submitted */
void sim_bits_draw(struct sim *sim);
/** sim_bits_alone() - and nothing else goes wrong */
bool sim_bits_alone(const struct sim *sim);
/** sim_bits_begin() - draw when; after the faults were drawn */
void sim_bits_begin(struct sim *sim);
void sim_bits_free(struct sim *sim);

/** sim_bits_flips_gradient() - one of @unit is flipped where @worker comes to hold its step */
bool sim_bits_flips_gradient(struct sim_worker *worker, unsigned unit);
/** sim_bits_may_be_wrong() - what @generation trains on, for a while yet */
bool sim_bits_may_be_wrong(const struct sim *sim, uint64_t generation);

/** sim_bits_excuse() - a plan goes back because of one */
bool sim_bits_excuse(const struct sim *sim);
/** sim_bits_planned() - @plan is about to be in force: what becomes of wrong bits by it */
void sim_bits_planned(struct sim *sim, const struct plan *plan);

/** @worker finds, or is told, that replicas differ: there must be a reason */
void sim_check_dispute(struct sim *sim, const struct sim_worker *worker, enum sim_dispute about);
/** @worker hears the verdict, and goes or stays */
void sim_check_verdict(struct sim *sim, const struct sim_worker *worker, bool settled, bool goes);
/** @plan commits @step: a wrong bit must have been found by now */
void sim_check_noticed(struct sim *sim, const struct plan *plan, uint64_t step);
