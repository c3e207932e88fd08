/*
 * Flip bits in the gradients, a parameter or an optimizer's moment of one worker, where other
 * replicas hold the same values. The replicas find that they differ. Their reaction has to be
 * exact: a wrong bit never reaches a checkpoint, and soon leaves the state that is trained on.
 *
 * Half of these histories have no other fault: they are held to all rules. In the other half, a
 * worker that knows of the difference, or that holds the right values, may die at that moment.
 * Where a generation goes on from memory before a wrong bit was found, the wrong bit can no longer
 * be found, and the history ends without a verdict.
 *
 * Bit flips have a random stream of their own: the histories of all other jobs are the same with
 * and without them.
 */
#pragma once

#include "sim/worker/sim_worker.h"

/** sim_bits_draw() - Draw whether this job has bit flips; before the job is submitted */
void sim_bits_draw(struct sim *sim);
/** sim_bits_alone() - and nothing else goes wrong */
bool sim_bits_alone(const struct sim *sim);
/** sim_bits_begin() - draw when; after the faults were drawn */
void sim_bits_begin(struct sim *sim);
void sim_bits_free(struct sim *sim);

/** sim_bits_flips_gradient() - one of @unit is flipped where @worker comes to hold its step */
bool sim_bits_flips_gradient(struct sim_worker *worker, unsigned unit);
/** sim_bits_may_be_wrong() - Return whether the state of @generation may still hold wrong bits */
bool sim_bits_may_be_wrong(const struct sim *sim, uint64_t generation);

/** sim_bits_excuse() - a plan goes back because of one */
bool sim_bits_excuse(const struct sim *sim);
/** sim_bits_planned() - Update the wrong bits for @plan, which is about to be in force */
void sim_bits_planned(struct sim *sim, const struct plan *plan);

/** Check that @worker, which detects or receives a dispute, has a reason for it */
void sim_check_dispute(struct sim *sim, const struct sim_worker *worker, enum dispute_about about);
/** Check that @worker, which receives the verdict, goes or stays as it must */
void sim_check_verdict(struct sim *sim, const struct sim_worker *worker, bool settled, bool goes);
/** @plan commits @step: a wrong bit must have been found by now */
void sim_check_noticed(struct sim *sim, const struct plan *plan, uint64_t step);
