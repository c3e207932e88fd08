/*
 * Cut links between nodes, in histories of their own.
 *
 * A node that has a whole job is cut off for longer than its lease, from all nodes or from etcd
 * alone: it must not go on beside the node that takes the job over.
 *
 * Pairs of nodes lose each other for good, while both reach etcd and the other nodes. Training goes
 * on all the same, and a node that was never cut is never taken for cut. This holds for jobs that
 * fit one slot. Other jobs may need both ends: there a pair is lost for long, the job waits for it,
 * and goes back to a checkpoint only when it has waited long enough.
 *
 * Cuts have a random stream of their own: the histories of all other jobs are the same with and
 * without them.
 */
#pragma once

#include "sim/sim.h"

struct plan;

/** sim_cuts_draw() - Draw whether this job has cuts; before the job is submitted */
void sim_cuts_draw(struct sim *sim);
/** sim_cuts_lone() - Return whether the job fits one slot and its node will be cut off */
bool sim_cuts_lone(const struct sim *sim);
/** sim_cuts_begin() - Draw whether, when and between which nodes; after the faults were drawn */
void sim_cuts_begin(struct sim *sim);
/** sim_cuts_pairs_apart() - some pair has lost each other by now */
bool sim_cuts_pairs_apart(const struct sim *sim);
/** sim_cuts_any() - some pair is cut in this history, or one node is cut off */
bool sim_cuts_any(const struct sim *sim);
/** sim_cuts_off() - the node that has the whole job is cut off just now */
bool sim_cuts_off(const struct sim *sim);
void sim_cuts_free(struct sim *sim);

/** sim_cuts_excuse() - @plan goes back because of two nodes that were waited for long enough */
bool sim_cuts_excuse(const struct sim *sim, const struct plan *plan);
/** sim_check_left_out() - Check a new plan: every pair that it takes for cut was cut once */
void sim_check_left_out(struct sim *sim, const struct plan *plan);
