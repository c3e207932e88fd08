/*
 * Copies of checkpoints on several nodes' disks: where each lies, as a pure function of the plan.
 *
 * With `checkpoint.copies` n above 1 every node has a checkpoint folder of its own. What the
 * workers of one node write, its *share*, is copied to n - 1 other nodes of the plan: nodes of
 * other failure domains while there are any, and the same number for everybody where the domains
 * are equally large. A plan with fewer than n nodes makes fewer copies, which the commit record
 * says.
 *
 * A *store* is such a node with the address of its firnd, which serves the files. A plan lists the
 * nodes of its workers first, in the order of ranks, then those that have none but hold a part of
 * the checkpoint that the plan restores.
 *
 * In a commit record the places are a text, a group for each share: "a+b b+c c+a" means that a's
 * share lies on a and b. The one who wrote it comes first. The text is as long as it has to be
 * (1,000 nodes of the longest names with two copies take 128 kB); one that would not fit into a
 * record is no checkpoint, because without its places it would be taken for one in a folder that
 * all nodes share. Wherever a text is only read, NULL is one without places.
 */
#pragma once

#include "elastic/plan/plan.h"

#define COPIES_MAX         PLAN_COPIES_MAX
#define COPIES_SHARES_SIZE (640u << 10) /* the longest text of places, with its zero */

struct member;

/** copies_fill() - give @plan its stores: its workers' nodes (of an empty one its donors'), and
   those of @shares that are among @nodes, which are alive; -ENOMEM (the plan is
   unchanged) */
int copies_fill(struct plan *plan, unsigned copies, const char *shares, const struct member *nodes,
                unsigned node_count) CHECK_RESULT;

/** copies_leave_out() - @plan, one's own copy, is for a checkpoint without the nodes of those ranks
 * (elastic/copies/checkpoint_writers.h), which are no stores any more; NULL: none */
void copies_leave_out(struct plan *plan, const bool *left_out);
/** copies_find() - index of @node among the stores, or -1 */
int copies_find(const struct plan *plan, const char *node);
/** copies_writer_count() - stores [0, this) have workers of the plan: they write and copy */
unsigned copies_writer_count(const struct plan *plan);
/** copies_keeper() - the rank that looks after the copies on store @store: the lowest there */
unsigned copies_keeper(const struct plan *plan, unsigned store);
/** copies_targets() - which stores get a copy of @store's share, best first; returns how many: one
   less than plan->copies, or as many as there are */
unsigned copies_targets(const struct plan *plan, unsigned store,
                        unsigned ret_targets[COPIES_MAX - 1]);

/** copies_alive() - whether every share has a place among @nodes; if not, ret_text says which nodes
   have what is missing. No shares: true */
bool copies_alive(const char *shares, const struct member *nodes, unsigned node_count,
                  char *ret_text, size_t text_size);
/** copies_unasked() - the nodes of @shares that are no stores of @plan, as a group ("c+d") that
 * copies_alive() understands: true as soon as one of them is there; as many as there is room for */
void copies_unasked(const char *shares, const struct plan *plan, char *ret_group,
                    size_t group_size);
/**
 * copies_add() - note in @shares that @node, too, has what @writer wrote; a group is made where it
 * has none, and a node that is noted stays noted once
 *
 * @shares: a text of the heap, or NULL; another one may take its place
 *
 * A group has at most COPIES_MAX places: then one that is no store of @plan (may be NULL) gives
 * way, never the writer, by whom a group is known. Return: 0; -ENOSPC: no room; -ENOMEM (both:
 * @shares is unchanged)
 */
int copies_add(char **shares, const char *writer, const char *node,
               const struct plan *plan) CHECK_RESULT;
/**
 * copies_places() - where the shares of a new checkpoint of @plan lie: a group for each writer
 * @has: whether the store @keeper has a copy of what the store @writer wrote
 * @ret_shares: to be freed by the caller
 *
 * Return: 0; -ENOSPC: longer than a record may be; -ENOMEM
 */
int copies_places(const struct plan *plan,
                  bool (*has)(const void *context, unsigned keeper, unsigned writer),
                  const void *context, char **ret_shares) CHECK_RESULT;
/**
 * copies_missing() - whose shares @node is to make a copy of, so that each has @copies again
 *
 * What lies on nodes that are no stores of @plan counts as lost. New copies go to nodes with
 * workers: of domains without a copy first, then to those that keep the fewest. Everybody who has
 * the same plan and record comes to the same answer. A share that nobody has left is passed over.
 *
 * Return: how many of @ret_writers are set, at most @writers_max.
 */
unsigned copies_missing(const struct plan *plan, unsigned copies, const char *shares,
                        const char *node, char (*ret_writers)[NAME_SIZE], unsigned writers_max);
/** copies_has() - whether @node has a share, its own or a copy */
bool copies_has(const char *shares, const char *node);
/** copies_fewest() - in how many places the share lies that has the fewest; 0: no shares */
unsigned copies_fewest(const char *shares);
/** copies_left() - the same, counting only places that @is_there */
unsigned copies_left(const char *shares, bool (*is_there)(void *context, const char *node),
                     void *context);
