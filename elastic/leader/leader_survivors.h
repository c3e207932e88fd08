/*
 * The reports from which the leader recovers: the valid reports of survivors, and the number of
 * reports still missing. Private to the leader.
 *
 * A worker that was entering the plan in force when the plan broke has a report older than the
 * plan. Such a report is read as if the worker had obeyed the plan: gradients of a step that the
 * plan discards are gone, and a step that the plan lets stand is applied. Both become true with the
 * next plan at the latest, which carries the same commit. State from which the plan does not
 * continue is gone too: a worker that begins anew there, or has no rank any more, drops its state
 * as soon as it hears of the plan, and the node of the report had heard of it. A worker without a
 * rank whose state is at the plan's step steps aside and keeps its state. State that a worker has
 * read for a plan counts if the checkpoint of that plan has been lost since; otherwise all nodes
 * begin from that checkpoint again.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

struct leader_survivors {
    struct worker_report *reports; /* as they will be when the plan in force has been obeyed */
    const struct roster_member **members;
    unsigned count;
    bool obeyed_commit; /* a report counts as having applied the commit of the plan in force */
    unsigned unheard, unheard_and_spared;
    unsigned
        unheard_of_before; /* of the spared: trained until the switch, and may have all units */
    unsigned doubtful;     /* reported, but joining: may have received more state since */
    unsigned absent;       /* had state on a node whose registration has just ended */
};

/** leader_survivors_gather() - fill @ret_survivors, which must be zeroed; free it with _done() also
 * after -ENOMEM */
int leader_survivors_gather(const struct leader_context *context,
                            struct leader_survivors *ret_survivors) CHECK_RESULT;
void leader_survivors_done(struct leader_survivors *survivors);

/** leader_is_heard() - return whether @member has reported since the failure, so that no further
 * report is expected */
bool leader_is_heard(const struct leader_context *context, const struct roster_member *member);

/** leader_is_survivor() - return whether the member's state may be counted once waiting is over */
bool leader_is_survivor(const struct roster_member *member);

/** leader_cover() - mark the units of [first, first + count) as present */
void leader_cover(bool covered[STEP_RECORD_UNITS_MAX], unsigned first, unsigned count);
