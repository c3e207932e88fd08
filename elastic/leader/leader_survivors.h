/*
 * What the leader has to recover from: the reports of those who live, as far as they can be
 * believed, and of how many none has come yet. Private to the leader.
 *
 * Reports of workers that were on their way into the plan in force when it broke are older than
 * that plan, so they are read as if the worker had obeyed it: gradients of a step that the plan
 * throws away are gone, a step that the plan lets stand is applied. Both come true at the latest
 * with the next plan, which carries the same commit. State that the plan does not go on from is
 * gone too, for whoever begins there anew, or has no rank any more, lets go of it as soon as it
 * hears of the plan; and the node that made the report had heard. Whoever has no rank, and is where
 * the plan goes on from, steps aside and keeps what it has.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

struct leader_survivors {
    struct worker_report *reports; /* as they will be when the plan in force has been obeyed */
    const struct roster_member **members;
    unsigned count;
    bool obeyed_commit; /* somebody is counted as having applied the commit of the plan in force */
    unsigned unheard, unheard_and_spared;
    unsigned doubtful; /* heard of, but joining: may have got more state since */
    unsigned absent;   /* had state on a node whose registration has just ended */
};

/** leader_survivors_gather() - @ret_survivors, zeroed before; to be given up with _done() also when
 * memory is short (-ENOMEM) */
int leader_survivors_gather(const struct leader_context *context,
                            struct leader_survivors *ret_survivors) CHECK_RESULT;
void leader_survivors_done(struct leader_survivors *survivors);

/** leader_is_heard() - has @member been heard of since the failure, so that nothing more is to come
 * from it? */
bool leader_is_heard(const struct leader_context *context, const struct roster_member *member);

/** leader_is_survivor() - may its state be counted now that waiting is over? */
bool leader_is_survivor(const struct roster_member *member);

/** leader_cover() - the units of [first, first + count) are somewhere */
void leader_cover(bool covered[STEP_RECORD_UNITS_MAX], unsigned first, unsigned count);
