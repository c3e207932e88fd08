/*
 * Slots that compute slower than their peers: what the leader knows of them, and for how long.
 * Private to the leader: leader.h says what it is for.
 *
 * Rank 0 of the plan in force says who is slow and by how much (elastic/messages/straggler.h). The
 * leader tells the planner, which finds what is best: another slot, fewer lanes, or none for the
 * slow one; the change is then one as for any other better layout. Plans carry what is known on
 * (plan->slow), so that it survives the leader.
 *
 * A slot that was left out comes back on probation: after a while the planner is told again that it
 * is as fast as any. Found slow again it is left out for twice as long, and so on. One that has
 * kept a part of its lanes gets them back when it is well, but not before that time is over either:
 * a slot whose speed changes often does not change the layout as often. With one replica a stage
 * has no peers that would tell, so nobody comes back into such a plan: its mark goes when its firnd
 * is started anew, or when it has been well on probation.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/* Of failure_timeout: how long a slot is left out (one minute to one hour by default). */
#define LEADER_SLOW_TIMEOUTS_MIN 40u
#define LEADER_SLOW_TIMES_MAX    7u /* then it is no longer doubled */

/** leader_slow_refresh() - note when what the plan in force says of slow slots was first seen */
void leader_slow_refresh(const struct leader_view *view, struct leader_memory *memory);

/** leader_slow_speed() - what the planner is to believe of a slot now, of its peers' speed */
double leader_slow_speed(struct leader_context *context, const struct member *node, unsigned slot);

/** leader_slow_carry() - into a plan that is about to be written, whatever it is made for */
void leader_slow_carry(struct leader_context *context, struct plan *plan);

/** leader_slow_found() - somebody of the plan in force is slower than the plan knows, or no more */
bool leader_slow_found(struct leader_context *context);

/** leader_slow_words() - why @plan is made, if it is about a slow slot: "b/1 computes 3.1 times
 * slower than its peers"; NULL: it is not */
const char *leader_slow_words(struct leader_context *context, const struct plan *plan,
                              char *ret_words, size_t size);

/** leader_slow_say() - add to the job's text who is slow and stays */
void leader_slow_say(struct leader_context *context);
