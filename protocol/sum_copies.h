/*
 * Copies of a replica's gradient sums on another replica, while a step is computed.
 *
 * Problem: the sums of a worker that dies are gone. In a step of minutes that is minutes of its
 * work, and the lane that it was in is computed again by one replica, from the first micro-batch
 * on, while the others wait.
 *
 * Design: in plans with plan_layout.copy_seconds each worker copies its sums, at intervals, to the
 * worker of the same stage in another replica: its keeper. The replicas form a ring, so a keeper
 * has the copies of one replica. The keeper asks for copies and says which sums it has; the other
 * one answers, not before its interval is over, with those that the keeper lacks. When a generation
 * begins within the step, copies count like sums that other ranks offer (protocol/step_sums.h): the
 * keeper's replica can go on with them. A sum follows from parameters and samples alone, so a copy
 * is as good as the sum.
 *
 * Cost: one more sum of each trained unit on its way every ten seconds, or less often where that
 * would take more than a twentieth of the time. The keeper needs the memory of the other replica's
 * sums, and both need that of the sums on their way: the planner counts twice the gradient buffers
 * and four more. A death costs the work since the last copy, at most an interval and a transfer,
 * however long a step takes. The leader wants copies where a step takes two intervals or more.
 */
#pragma once

#include "elastic/plan/plan_layout.h"
#include "protocol/step_sums.h"

/** sum_copies_keeper() - return the replica that keeps the copies of @replica's sums; @replica
 * itself: none, because @layout wants no copies or has one replica
 *
 * The ring is chosen so that as many workers as possible have their keepers on other nodes. */
unsigned sum_copies_keeper(const struct plan_layout *layout, unsigned replica);
/** sum_copies_owner() - return the replica of which @replica keeps copies; itself: none */
unsigned sum_copies_owner(const struct plan_layout *layout, unsigned replica);

/** sum_copies_due_ns() - return when the next copy is due, if the last one was begun at @began_ns
 * and had left at @left_ns; both are the time of the step's beginning if there was none */
uint64_t sum_copies_due_ns(const struct plan_layout *layout, uint64_t began_ns, uint64_t left_ns);

/** sum_copies_missing() - add the sums of @own that @kept lacks to @missing. -ENOMEM */
int sum_copies_missing(const struct step_sums *own, const struct step_sums *kept,
                       struct step_sums *missing) CHECK_RESULT;
/** sum_copies_replaces() - return whether @older is of no use beside @sum, of the same worker */
bool sum_copies_replaces(const struct step_sum *sum, const struct step_sum *older);
