/*
 * Placement of checkpoint copies on the disks of several nodes, as a pure function of the plan.
 *
 * With `checkpoint.copies` n above 1 every node has a checkpoint folder of its own. The files that
 * the workers of one node write are its *share*. A share is copied to n - 1 other nodes of the
 * plan, in other failure domains as far as possible. Every node keeps the same number of copies
 * when the domains are equally large. A plan with fewer than n nodes makes fewer copies, and the
 * commit record lists them.
 *
 * A *copy node* is a node with the address of its firnd, which serves the files. A plan lists the
 * nodes of its workers first, in the order of ranks. The nodes without workers that hold a part of
 * the restored checkpoint follow.
 *
 * A commit record stores the places as a text with one group per share: "a+b b+c c+a" means that
 * a's share is on a and b. The writer comes first in its group. 1,000 nodes of the longest names
 * with two copies take 128 kB. A checkpoint whose text does not fit into a record is not committed,
 * because a record without places means one folder shared by all nodes. Functions that only read a
 * text take NULL as a text without places.
 */
#pragma once

#include "elastic/plan/plan.h"

#define COPIES_MAX         PLAN_COPIES_MAX
#define COPIES_SHARES_SIZE (640u << 10) /* the longest text of places, with its zero */

struct member;

/**
 * copies_fill() - fill the copy nodes of @plan: the nodes of its workers (of its donors when it has
 * no workers), then the nodes of @shares that are among @nodes
 * @nodes: the live nodes
 *
 * Return: 0 or -ENOMEM (@plan is unchanged).
 */
int copies_fill(struct plan *plan, unsigned copies, const char *shares, const struct member *nodes,
                unsigned node_count) CHECK_RESULT;

/**
 * copies_leave_out() - remove the nodes of the skipped ranks from the copy nodes of @plan, a
 * private copy of the plan
 * @left_out: by rank (elastic/copies/checkpoint_writers.h); NULL: no rank is skipped
 */
void copies_leave_out(struct plan *plan, const bool *left_out);
/** copies_find() - return the index of @node among the copy nodes, or -1 */
int copies_find(const struct plan_checkpoints *checkpoints, const char *node);
/**
 * copies_writer_count() - return the number of copy nodes with workers, which come first and write
 * and copy
 */
unsigned copies_writer_count(const struct plan *plan);
/**
 * copies_keeper() - return the rank that manages the copies on copy node @copy_node: the lowest
 * rank there
 */
unsigned copies_keeper(const struct plan *plan, unsigned copy_node);
/**
 * copies_targets() - choose the copy nodes that get a copy of @copy_node's share, the best first
 *
 * Return: the number of targets: plan->copies - 1, or fewer if there are not enough copy nodes.
 */
unsigned copies_targets(const struct plan *plan, unsigned copy_node,
                        unsigned ret_targets[COPIES_MAX - 1]);

/**
 * copies_alive() - return whether every share has a place among @nodes; otherwise ret_text names
 * the nodes that have the missing shares. No shares: true
 */
bool copies_alive(const char *shares, const struct member *nodes, unsigned node_count,
                  char *ret_text, size_t text_size);
/**
 * copies_unasked() - write the nodes of @shares that are not copy nodes of @checkpoints as one
 * group ("c+d"), as many as fit. copies_alive() of the group is true when one of the nodes is
 * alive.
 */
void copies_unasked(const char *shares, const struct plan_checkpoints *checkpoints, char *ret_group,
                    size_t group_size);
/**
 * copies_add() - record in @shares that @node also has the share of @writer; add a group if @writer
 * has none; idempotent
 *
 * @shares: a heap text or NULL; may be replaced
 *
 * @plan: may be NULL
 *
 * A group has at most COPIES_MAX places. In a full group @node replaces a place that is not a copy
 * node of @plan. The writer is never replaced, because it identifies the group.
 * Return: 0; -ENOSPC: no room; -ENOMEM (both: @shares is unchanged)
 */
int copies_add(char **shares, const char *writer, const char *node,
               const struct plan *plan) CHECK_RESULT;
/**
 * copies_places() - make the text of places of a new checkpoint of @plan: one group per writer
 * @has: whether copy node @keeper has a copy of the share of copy node @writer
 * @ret_shares: freed by the caller
 *
 * Return: 0; -ENOSPC: the text is longer than a record allows; -ENOMEM
 */
int copies_places(const struct plan *plan,
                  bool (*has)(const void *context, unsigned keeper, unsigned writer),
                  const void *context, char **ret_shares) CHECK_RESULT;
/**
 * copies_missing() - choose the shares that @node must copy so that each share has @copies places
 * again
 *
 * Places on nodes that are not copy nodes of @plan count as lost. New copies go to nodes with
 * workers: first to nodes of domains without a copy, then to the nodes with the fewest shares. The
 * result is the same on every node with the same plan and record. A share without any place left is
 * skipped.
 *
 * Return: the number of entries set in @ret_writers, at most @writers_max.
 */
unsigned copies_missing(const struct plan *plan, unsigned copies, const char *shares,
                        const char *node, char (*ret_writers)[NAME_SIZE], unsigned writers_max);
/** copies_has() - return whether @node has a share, its own or a copy */
bool copies_has(const char *shares, const char *node);
/** copies_fewest() - return the smallest number of places of any share; 0: no shares */
unsigned copies_fewest(const char *shares);
/** copies_left() - return copies_fewest() over the places for which @is_there is true */
unsigned copies_left(const char *shares, bool (*is_there)(void *context, const char *node),
                     void *context);
