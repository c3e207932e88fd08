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
 * Cost: one more sum of each trained unit on its way every ten seconds. A slot that computes with
 * all its processors loses what copying and the links take of them: each worker measures that, and
 * copies less often where it is more than a hundredth of the time. The planner counts three times
 * the gradient buffers: a worker's own, the copies that it keeps, and those on their way. A death
 * costs the work since the last copy: at most the time between two copies, a micro-batch and a
 * transfer, however long a step takes. The leader wants copies where it expects a step to take two
 * intervals or more.
 */
#pragma once

#include "elastic/plan/plan_layout.h"
#include "protocol/step_sums.h"

#define SUM_COPIES_COST_PARTS 100 /* of the time; copies take at most one from computing */

/** sum_copies_keeper() - return the replica that keeps the copies of @replica's sums; @replica
 * itself: none, because @layout wants no copies or has one replica
 *
 * The ring is chosen so that as many workers as possible have their keepers on other nodes. */
unsigned sum_copies_keeper(const struct plan_layout *layout, unsigned replica);
/** sum_copies_owner() - return the replica of which @replica keeps copies; itself: none */
unsigned sum_copies_owner(const struct plan_layout *layout, unsigned replica);

/* What the last copy took from computing, in any step of this process; all zero: there was none. */
struct sum_copies_cost {
    uint64_t began_ns, cost_ns;
};

/** sum_copies_due_ns() - return when the next copy is due
 * @from_ns: when the last copy of this step was begun, or the step; 0: the rest of a step begins,
 * whose sums may have no copy yet */
uint64_t sum_copies_due_ns(const struct plan_layout *layout, uint64_t from_ns,
                           const struct sum_copies_cost *last);

/** sum_copies_missing() - add the sums of @own that @kept lacks to @missing; @own ascends by unit,
 * and @kept is sorted so. -ENOMEM */
int sum_copies_missing(const struct step_sums *own, struct step_sums *kept,
                       struct step_sums *missing) CHECK_RESULT;
/** sum_copies_are_of_use() - return whether @replica, whose sum of @span was copied or is to be,
 * computes some of it under @division: otherwise the copy has been gone on with, or dropped */
bool sum_copies_are_of_use(const struct step_division *division, struct lane_tree_span span,
                           unsigned replica);
/** sum_copies_replaces() - return whether the copy of @older is of no use beside a later one of
 * @sum */
bool sum_copies_replaces(const struct step_sum *sum, const struct step_sum *older);
