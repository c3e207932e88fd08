/*
 * Nodes that leave at an announced time (spot instances, maintenance), and the check of the
 * reaction: with enough time, and no other fault, no step is lost with the node.
 *
 * Notices have a random stream of their own, and half of these histories have no other fault.
 */
#pragma once

#include "sim/sim.h"

/** sim_notices_draw() - Draw whether a node is taken in this history; before faults are drawn */
void sim_notices_draw(struct sim *sim);
/** sim_notices_begin() - Draw the node and the time; after the faults were drawn */
void sim_notices_begin(struct sim *sim);
void sim_notices_free(struct sim *sim);
/** sim_notices_alone() - Return whether nothing else happens in this history */
bool sim_notices_alone(const struct sim *sim);
