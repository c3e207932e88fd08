/*
 * Slots that compute slower than their peers, and the time for which the leader leaves them out.
 * Private to the leader: leader.h describes the whole.
 *
 * Rank 0 of the plan in force reports the stragglers and their speeds (elastic/plan/straggler.h).
 * The leader passes the speeds to the planner, which finds the best layout: one with another slot,
 * or with fewer lanes on the slow slot. The change is then made like any other better layout. Plans
 * carry the known speeds on (plan->slow), so the speeds survive the leader.
 *
 * A left-out slot comes back on probation: after a while the planner assumes that it is as fast as
 * any. If it is found slow again, it is left out for twice as long, and so on. A slot that has kept
 * a part of its lanes gets the rest back when it is fast again, but not before that time is over: a
 * slot whose speed changes often must not change the layout as often. With one replica a stage has
 * no peers to compare with, so no slot comes back into such a plan: its mark is removed when its
 * firnd restarts, or after a probation without a judgement.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_slow_refresh() - note when each slow slot of the plan in force was first seen */
void leader_slow_refresh(const struct leader_view *view, struct leader_slow_slots *known);

/** leader_slow_speed() - return the speed of a slot for the planner now, relative to its peers */
double leader_slow_speed(struct leader_context *context, const struct member *node, unsigned slot);

/** leader_slow_carry() - copy the known slow slots into a plan that is about to be written for any
 * reason */
void leader_slow_carry(struct leader_context *context, struct plan *plan);

/** leader_slow_found() - return whether a worker of the plan in force is slower than the plan
 * knows, or is no longer slow */
bool leader_slow_found(struct leader_context *context);

/** leader_slow_words() - say why @layout is made, if because of a slow slot: "b/1 computes 3.1
 * times slower than its peers"; NULL: another reason */
const char *leader_slow_words(struct leader_context *context, const struct plan_layout *layout,
                              char *ret_words, size_t size);

/** leader_slow_say() - add to the job's text which slow worker stays in the plan */
void leader_slow_say(struct leader_context *context);
