/*
 * Flip bits in the gradients, a parameter or an optimizer's moment of one worker, if other replicas
 * hold the same values. The replicas find that they differ. Their reaction must be exact: a wrong
 * bit never reaches a checkpoint, and soon leaves the state that is trained on.
 *
 * Most of these histories have no other fault, and must obey all rules. In the others, a worker
 * that knows of the difference, or that holds the right values, may die at that moment. If a
 * generation continues from memory before a wrong bit was found, the wrong bit can no longer be
 * found, and the history ends without a verdict.
 *
 * Bit flips have a random stream of their own: the histories of all other jobs are the same with
 * and without them.
 */
#pragma once

#include "sim/worker/sim_worker.h"

/** sim_bits_draw() - Draw whether this job has bit flips; before the job is submitted */
void sim_bits_draw(struct sim *sim);
/** sim_bits_alone() - Return whether bit flips are the only faults */
bool sim_bits_alone(const struct sim *sim);
/** sim_bits_begin() - Draw the times; after the faults were drawn */
void sim_bits_begin(struct sim *sim);
void sim_bits_free(struct sim *sim);

/** sim_bits_flips_gradient() - Return whether a bit of the gradients of @unit flips as @worker
 * comes to hold its step */
bool sim_bits_flips_gradient(struct sim_worker *worker, unsigned unit);
/** sim_bits_may_be_wrong() - Return whether the state of @generation may still hold wrong bits */
bool sim_bits_may_be_wrong(const struct sim *sim, uint64_t generation);

/** sim_bits_excuse() - Return whether a flip may be the reason why a plan goes back */
bool sim_bits_excuse(const struct sim *sim);
/** sim_bits_planned() - Update the wrong bits for @plan, which is about to be in force */
void sim_bits_planned(struct sim *sim, const struct plan *plan);

/** Check that @worker, which detects or receives a dispute, has a reason for it */
void sim_check_dispute(struct sim *sim, const struct sim_worker *worker, enum dispute_about about);
/** Check that @worker, which receives the verdict, leaves or stays as it must */
void sim_check_verdict(struct sim *sim, const struct sim_worker *worker, bool settled, bool goes);
/** Check when @plan commits @step that wrong bits have been found by now */
void sim_check_noticed(struct sim *sim, const struct plan *plan, uint64_t step);
