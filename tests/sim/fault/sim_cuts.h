/*
 * Cut links between nodes, in histories of their own.
 *
 * A node that has a whole job is cut off for longer than its lease, from all nodes or from etcd
 * alone. It must not continue beside the node that takes the job over.
 *
 * Pairs of nodes lose each other for good, while both reach etcd and the other nodes. Training
 * continues all the same, and a node that was never cut is never taken for cut. This holds for jobs
 * that fit one slot. Other jobs may need both ends: there a pair is cut for a long time, the job
 * waits for it, and goes back to a checkpoint only after a long enough wait.
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
/** sim_cuts_begin() - Draw the cuts, their times and nodes; after the faults were drawn */
void sim_cuts_begin(struct sim *sim);
/** sim_cuts_pairs_apart() - Return whether some pair has lost each other by now */
bool sim_cuts_pairs_apart(const struct sim *sim);
/** sim_cuts_any() - Return whether this history cuts a pair, or cuts one node off */
bool sim_cuts_any(const struct sim *sim);
/** sim_cuts_off() - Return whether the node that has the whole job is cut off just now */
bool sim_cuts_off(const struct sim *sim);
void sim_cuts_free(struct sim *sim);

/** sim_cuts_excuse() - Return whether @plan goes back after a long enough wait for two cut nodes */
bool sim_cuts_excuse(const struct sim *sim, const struct plan *plan);
/** sim_check_left_out() - Check that every pair that a new plan takes for cut was cut once */
void sim_check_left_out(struct sim *sim, const struct plan *plan);
