/*
 * Nodes that are taken at a time that is said before (spot instances, maintenance), and what must
 * come of it: with time enough, and nothing else going on, no step is lost with the node.
 *
 * They have a stream of random numbers of their own, and half of these histories have nothing else
 * that goes wrong.
 */
#pragma once

#include "sim/sim.h"

/** sim_notices_draw() - is a node taken in this history? Before faults are drawn */
void sim_notices_draw(struct sim *sim);
/** sim_notices_begin() - draw which, and when; after the faults were drawn */
void sim_notices_begin(struct sim *sim);
void sim_notices_free(struct sim *sim);
/** sim_notices_alone() - nothing else happens in this history */
bool sim_notices_alone(const struct sim *sim);
