/*
 * Nodes whose workers could not read the checkpoint that the job is to begin from, because nodes
 * that have parts of it do not answer them. Others may reach those: so the job begins without who
 * cannot read, and they join when it trains, for then the state comes from their peers. They stay
 * stores: what they have, others read. Private to the leader.
 *
 * Remembered by the leader alone, for a minute by default: a leader that is new tries once more.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_readers_note() - remember what workers of the plan in force say */
void leader_readers_note(struct leader_context *context);
/** leader_readers_lack() - could @node not read the view's checkpoint a while ago? */
bool leader_readers_lack(const struct leader_context *context, const struct member *node);
