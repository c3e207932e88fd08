/*
 * Slots that compute slower for a while, in jobs that evict stragglers, and the check of the
 * reaction: a slot that was not slow is never accused; a slot that stays slow, without other
 * faults, has less than its share of the lanes, or none, within a bound.
 *
 * Stragglers have a random stream of their own: the histories of all other jobs are the same with
 * and without them. A real worker sends its times with its part of a commit; here the root of the
 * commit tree reads them from the simulated workers. The judge is the real one.
 */
#pragma once

#include "sim/worker/sim_worker.h"

/** sim_stragglers_draw() - Draw whether this job evicts stragglers; before the job is submitted */
void sim_stragglers_draw(struct sim *sim);
/** sim_stragglers_begin() - Draw the slow slots and their times; after the faults were drawn */
void sim_stragglers_begin(struct sim *sim);
void sim_stragglers_free(struct sim *sim);
/** sim_stragglers_alone() - Return whether this history has slow slots and no other fault */
bool sim_stragglers_alone(const struct sim *sim);

/** sim_straggler_compute() - Return how long a worker computes in this step, lane by lane */
uint64_t sim_straggler_compute(struct sim_worker *worker);
/** sim_straggler_watch() - Start the judge on the root of a new generation */
void sim_straggler_watch(struct sim_worker *worker);
/** sim_straggler_tell() - Write the judgements into the root's progress */
void sim_straggler_tell(const struct sim_worker *root, struct control_progress *progress);

/** sim_check_accused() - Check that every slot that a new plan takes for slow was slow once */
void sim_check_accused(struct sim *sim, const struct plan *plan);
