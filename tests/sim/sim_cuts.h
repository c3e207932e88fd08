/*
 * Cables that are cut in histories of their own.
 *
 * A node that has a whole job is cut off for longer than its lease, from all or from etcd alone: it
 * must not go on beside the node that takes the job over.
 *
 * Pairs of nodes that lose each other for good, while both reach etcd and the rest, and what must
 * come of it: training goes on all the same, and nobody is taken for cut who never was. That is so
 * of jobs that fit one slot. Others may need both ends: there a pair is lost for long, they wait
 * for it, and go back to a checkpoint only when they have waited long enough.
 *
 * They have a stream of random numbers of their own: the histories of all other jobs are as they
 * would be without them.
 */
#pragma once

#include "sim/sim.h"

struct plan;

/** sim_cuts_draw() - is this job one of those? Before it is submitted */
void sim_cuts_draw(struct sim *sim);
/** sim_cuts_lone() - it is a job for one slot, whose node will be cut off */
bool sim_cuts_lone(const struct sim *sim);
/** sim_cuts_begin() - draw whether, when and between whom; after the faults were drawn */
void sim_cuts_begin(struct sim *sim);
/** sim_cuts_pairs_apart() - some pair has lost each other by now */
bool sim_cuts_pairs_apart(const struct sim *sim);
/** sim_cuts_off() - the node that has the whole job is cut off just now */
bool sim_cuts_off(const struct sim *sim);
void sim_cuts_free(struct sim *sim);

/** sim_cuts_excuse() - @plan goes back because of two nodes that were waited for long enough */
bool sim_cuts_excuse(const struct sim *sim, const struct plan *plan);
/** sim_check_left_out() - a plan is written: whom it takes for cut from each other was so once */
void sim_check_left_out(struct sim *sim, const struct plan *plan);
