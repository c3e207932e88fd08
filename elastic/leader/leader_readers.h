/*
 * Nodes whose workers could not read the checkpoint from which the job begins, because nodes with
 * parts of it do not answer them. Other nodes may reach those parts. So the job begins without the
 * nodes that cannot read; they join when it trains, because then the state comes from their peers.
 * They stay copy nodes: other nodes read their parts of the checkpoint. Private to the leader.
 *
 * Only the leader's memory has these nodes, for a minute by default: a new leader tries once more.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_readers_note() - remember the nodes of the plan in force that report such a failure */
void leader_readers_note(struct leader_context *context);
/** leader_readers_lack() - return whether @node recently could not read the view's checkpoint */
bool leader_readers_lack(const struct leader_context *context, const struct member *node);
