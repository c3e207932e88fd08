/*
 * Netsplits: pairs of nodes that have lost each other while both reach etcd. The leader remembers
 * such pairs and decides which nodes are left out. Private to the leader: leader.h describes the
 * whole.
 *
 * A worker that cannot make its links names the ranks whose hosts gave no sign of life
 * (report->unreached). One such report proves nothing: hosts die, and cables fail for a moment, so
 * the same layout is tried again. A pair that is missed in a second generation, in which both ends
 * have reported, is a cut, unless a generation in between has run with both. The job then continues
 * without the smallest set of nodes whose removal leaves nodes that all reach each other
 * (elastic/leader/netsplit_graph.h). A set with the only copy of some state is not left out.
 *
 * A cut is believed for a while; then the left-out node may be used like any other. If the pair is
 * missed again, the cut is believed for twice as long, and so on. The cuts of a restarted firnd are
 * forgotten.
 *
 * Only the leader's memory has the cuts: a new leader tries once more than its predecessor would.
 * If the predecessor had made a patient plan (elastic/leader/leader_pair_loss.h), it does not even
 * do that. At most LEADER_NETSPLITS_MAX pairs are remembered, and cuts among NETSPLIT_NODES_MAX
 * nodes are weighed at a time: more cuts take more generations to find.
 */
#pragma once

#include "elastic/leader/leader_internal.h"

/** leader_netsplit_note() - remember the nodes that workers of the plan in force did not reach */
void leader_netsplit_note(struct leader_context *context);

/** leader_netsplit_mended() - forget cuts within the plan in force, which runs, and pairs that were
 * missed once: its nodes reach each other */
void leader_netsplit_mended(struct leader_context *context);

/**
 * leader_netsplit_choose() - decide which nodes to leave out of the plan being made
 * @may_go: return whether no state is lost without these nodes; NULL: nodes that compute in the
 * plan in force stay, any other may go
 */
void leader_netsplit_choose(struct leader_context *context,
                            bool (*may_go)(const struct leader_context *context,
                                           const void *argument),
                            const void *argument);

/** leader_netsplit_choose_for_checkpoint() - as leader_netsplit_choose(), for a plan that begins
 * from the view's checkpoint: nodes that, by its record, have the only copy of a part of it stay,
 * unless no other choice is left */
void leader_netsplit_choose_for_checkpoint(struct leader_context *context);

/** leader_netsplit_take_in_readers() - choose again among all nodes by cuts alone, when the slots
 * of the nodes that can read the checkpoint are not enough: each end of a cut may have missed only
 * the other end. Return: whether a node was left out because it could not read the checkpoint */
bool leader_netsplit_take_in_readers(struct leader_context *context);

/** leader_netsplit_leave_out() - return whether @node is left out of slot pools; false before a
 * choice */
bool leader_netsplit_leave_out(const struct leader_context *context, const struct member *node);

/** leader_netsplit_parts() - return whether @layout has workers or donors on two nodes that are
 * believed to have lost each other. @end: one of the two nodes; NULL: any pair */
bool leader_netsplit_parts(const struct leader_context *context, const struct plan_layout *layout,
                           const struct member *end);

/** leader_netsplit_give_in() - leave no node out, because the remaining slots are not enough.
 * Return: whether a node was left out */
bool leader_netsplit_give_in(struct leader_context *context);

/** leader_netsplit_words() - say "a and b do not reach each other: without b"; NULL: no node is
 * left out */
const char *leader_netsplit_words(const struct leader_context *context, char *ret_words,
                                  size_t size);
/** leader_netsplit_parted_words() - say "a and b do not reach each other, and neither can be done
 * without", of @layout; NULL: no two nodes of it have lost each other */
const char *leader_netsplit_parted_words(const struct leader_context *context,
                                         const struct plan_layout *layout, char *ret_words,
                                         size_t size);

/** leader_netsplit_say() - add to the job's text which nodes are left out */
void leader_netsplit_say(struct leader_context *context);
