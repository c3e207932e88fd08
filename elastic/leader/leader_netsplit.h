/*
 * Pairs of nodes that have lost each other while both reach etcd: what the leader knows of them,
 * and whom it leaves out. Private to the leader: leader.h says what it is for.
 *
 * A worker that cannot make its links names the ranks whose hosts gave no sign of life
 * (report->unreached). Once is no news: hosts die, and cables are out for a moment, so the same
 * layout is tried again. A pair that is missed in a second generation, of which both ends have
 * spoken, is a cut: the job goes on without as few nodes as make the rest reach each other
 * (elastic/leader/netsplit_graph.h), and without none that has state which nobody else has.
 *
 * A cut is believed for a while; then the node that was left out is a free one like any other.
 * Missed again, the pair is believed to be cut for twice as long, and so on. Daemons that are
 * started anew begin with a clean slate.
 *
 * This is remembered by the leader alone, for a leader that is new has only to try once more than
 * the one before; where that one had made a patient plan (elastic/leader/leader_pair_loss.h), not
 * even that. At most LEADER_CUTS_MAX pairs are remembered, and cuts among CUT_NODES_MAX nodes are
 * weighed at a time: where more is cut, it takes more generations until all is found.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/* Of failure_timeout: how long a cut is believed (one minute to one hour by default). */
#define LEADER_CUT_TIMEOUTS_MIN 40u
#define LEADER_CUT_TIMES_MAX    7u /* then it is no longer doubled */

/** leader_netsplit_note() - remember whom workers of the plan in force did not reach */
void leader_netsplit_note(struct leader_context *context);

/** leader_netsplit_mended() - the plan in force runs: its nodes reach each other */
void leader_netsplit_mended(struct leader_context *context);

/**
 * leader_netsplit_choose() - decide which nodes are left out of the plan that is about to be made
 * @may_go: whether nothing is lost without these nodes; NULL: nodes that compute in the plan in
 * force stay, any other may go
 */
void leader_netsplit_choose(struct leader_context *context,
                            bool (*may_go)(const struct leader_context *context,
                                           const void *argument),
                            const void *argument);

/** leader_netsplit_choose_for_checkpoint() - the same for a plan that begins from the view's
 * checkpoint: without none that alone has a part of it, going by its record, unless it cannot be
 * otherwise */
void leader_netsplit_choose_for_checkpoint(struct leader_context *context);

/** leader_netsplit_leave_out() - is @node left out? Pools of slots ask; false before a choice */
bool leader_netsplit_leave_out(const struct leader_context *context, const struct member *node);

/** leader_netsplit_parts() - has @plan workers or donors on two nodes that are believed to have
 * lost each other? @end: one of which is this one; NULL: any */
bool leader_netsplit_parts(const struct leader_context *context, const struct plan *plan,
                           const struct member *end);

/** leader_netsplit_give_in() - what is left is not enough: nobody is left out; false: nobody was */
bool leader_netsplit_give_in(struct leader_context *context);

/** leader_netsplit_words() - "a and b do not reach each other: without b"; NULL: nobody is left out
 */
const char *leader_netsplit_words(const struct leader_context *context, char *ret_words,
                                  size_t size);
/** leader_netsplit_parted_words() - "a and b do not reach each other, and neither can be done
 * without", of @plan; NULL: nobody of it has lost another */
const char *leader_netsplit_parted_words(const struct leader_context *context,
                                         const struct plan *plan, char *ret_words, size_t size);

/** leader_netsplit_say() - add to the job's text who is left out */
void leader_netsplit_say(struct leader_context *context);
