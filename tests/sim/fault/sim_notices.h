/*
 * Nodes that leave at an announced time (spot instances, maintenance), and the check of the
 * reaction: with enough time, and no other fault, no step is lost with the node.
 *
 * Notices have a random stream of their own, and half of these histories have no other fault.
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
