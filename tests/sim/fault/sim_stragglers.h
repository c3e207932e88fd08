/*
 * Slots that compute slower for a while, in jobs that evict stragglers, and the check of the
 * reaction: a slot that was not slow is never accused; a slot that stays slow, with nothing else
 * going on, carries less than its share within a bound, or nothing.
 *
 * Stragglers have a random stream of their own: the histories of all other jobs are the same with
 * and without them. The times that a real worker sends with its part of a commit are read from the
 * simulated workers by the root of the commit tree; the judge is the real one.
 */
#pragma once

#include "sim/worker/sim_worker.h"

/** sim_stragglers_draw() - Draw whether this job evicts stragglers; before the job is submitted */
void sim_stragglers_draw(struct sim *sim);
/** sim_stragglers_begin() - Draw the slow slots and their times; after the faults were drawn */
void sim_stragglers_begin(struct sim *sim);
void sim_stragglers_free(struct sim *sim);
/** sim_stragglers_alone() - nothing but slow slots happens in this history */
bool sim_stragglers_alone(const struct sim *sim);

/** sim_straggler_compute() - how long a worker computes in this step, lane by lane */
uint64_t sim_straggler_compute(struct sim_worker *worker);
/** sim_straggler_watch() - a generation begins: its root judges */
void sim_straggler_watch(struct sim_worker *worker);
/** sim_straggler_tell() - the judgements, into the root's progress */
void sim_straggler_tell(const struct sim_worker *root, struct control_progress *progress);

/** sim_check_accused() - Check a new plan: every slot that it takes for slow was slow once */
void sim_check_accused(struct sim *sim, const struct plan *plan);
