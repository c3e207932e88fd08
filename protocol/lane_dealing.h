/*
 * Deal the rest of a step that continues in another generation, so that all replicas finish it at
 * the same time.
 *
 * A lane in progress begins with the replica that has its sum. Lanes that no replica has begun may
 * begin anywhere; each replica gets neighbouring ones, because their sums merge. Without shared
 * lanes a replica gets as many whole lanes as fit the lanes that it has in progress.
 *
 * If the plan lets replicas share lanes, the micro-batches that are left are laid out on one line,
 * of which each replica has a part that takes it the same time. A lane that crosses the end of a
 * part is cut there: its replica computes the head first of all, and the next replica the rest last
 * of all (protocol/step_division.h). So no lane is computed in two places at once, as in
 * McNaughton's rule for jobs that may be interrupted. (McNaughton, Scheduling with Deadlines and
 * Loss Functions, Management Science 6, 1959)
 *
 * Work is passed on to the next replica of the line alone, so replicas with much in progress and
 * with little take turns on it.
 *
 * A replica with several lanes in progress, its own and copies of another one's, can pass on one of
 * them alone. Where all would wait for it, the copies of which it has least count for nothing, if
 * the step ends sooner so by more than a sum takes to be passed on: these lanes are begun anew, by
 * whoever has time. A copy may be dropped with others that alone would not be worth it. What a
 * replica has computed itself is never computed again.
 *
 * Cost: lanes x replicas comparisons, and 64 times lanes + replicas for shared ones, once a
 * generation, and as often again for each lane that is begun anew, up to 32.
 */
#pragma once

#include "protocol/step_division.h"

#define LANE_DEALING_NO_OWNER UINT16_MAX

struct lane_dealing_input {
    const struct plan_layout *layout; /* its lanes follow the speeds of the slots */
    const unsigned *furthest; /* (lanes,): of a lane in progress, the most micro-batches that
                                 any unit or the loss has; a head must have more */
    const bool *loose;        /* (lanes,): its sum is a copy (sum_copies.h), and may be dropped */
    bool shares;              /* replicas may share lanes */
};

/** lane_dealing_run() - deal all lanes of @division: those in progress have the replica that has
 * their sum as their owner, the others LANE_DEALING_NO_OWNER */
void lane_dealing_run(const struct lane_dealing_input *input, struct step_division *division);

/** lane_dealing_scatters() - return whether a replica has more than LANE_TREE_SUBTREES_MAX subtrees
 */
bool lane_dealing_scatters(const struct step_division *division);
