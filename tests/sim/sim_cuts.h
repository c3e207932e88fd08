/*
 * Pairs of nodes that lose each other for good, while both reach etcd and the rest, and what must
 * come of it: training goes on all the same, and nobody is taken for cut who never was. Only jobs
 * that fit one slot: where both ends have state that nobody else has, a job waits for them.
 *
 * They have a stream of random numbers of their own: the histories of all other jobs are as they
 * would be without them.
 */
#pragma once

#include "sim/sim.h"

struct plan;

/** sim_cuts_begin() - draw whether, when and between whom; after the faults were drawn */
void sim_cuts_begin(struct sim *sim);
void sim_cuts_free(struct sim *sim);

/** sim_check_left_out() - a plan is written: whom it takes for cut from each other was so once */
void sim_check_left_out(struct sim *sim, const struct plan *plan);
