/*
 * Assign lanes to replicas: contiguous ranges with sizes that differ by at most one, cut along the
 * tree of additions (comm/lanes/lane_tree.h), so that replicas reduce few and large subtrees.
 * Replicas of unlike speeds get lanes in proportion to their speed instead. Or lanes are cut to the
 * micro-batch: two replicas then share a lane (elastic/plan/plan_layout.h).
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

/**
 * lanes_split() - split @lanes lanes over @replicas replicas, 1 <= replicas <= lanes
 * @ret_first: replicas + 1 entries; the last is @lanes
 *
 * The split minimizes the total number of subtrees over all replicas; ties: larger replicas first.
 * Return: 0 or -ENOMEM.
 */
int lanes_split(unsigned lanes, unsigned replicas, unsigned *ret_first) CHECK_RESULT;

/**
 * lanes_split_unlike() - split lanes over replicas of unlike speeds so that the slowest replica
 * finishes as early as possible
 * @speeds: of each replica, above 0
 * @fill: extra time of every replica to fill its pipeline, in lanes
 * @ret_first: replicas + 1 entries, as in lanes_split(); every replica has at least one lane
 *
 * Return: the time of the slowest replica, in lanes at speed 1.
 */
double lanes_split_unlike(unsigned lanes, const double *speeds, unsigned replicas, double fill,
                          unsigned *ret_first);

/**
 * lanes_share() - split lanes over replicas to the micro-batch, by their speeds
 * @micro_batches: of a lane
 * @speeds: of each replica, above 0; NULL: all are alike
 * @fill: extra time of every replica to fill its pipeline, in lanes
 * @ret_first: replicas + 1 entries, as in lanes_split()
 * @ret_heads: replicas + 1 entries: of each replica's first lane, the micro-batches of the replica
 * before; all 0 if no lane is shared
 *
 * Return: whether every replica computes one lane or more. With less, the owner of a shared lane
 * would wait for its head.
 */
bool lanes_share(unsigned lanes, unsigned micro_batches, const double *speeds, unsigned replicas,
                 double fill, unsigned *ret_first, unsigned *ret_heads);

/**
 * lanes_buffers() - return the most sums that a replica has at once while it runs lanes [first,
 * end) one after another (worker/step/gradients.h)
 * @gets_head: it computes the first of them last, and gets the sum of its head at any time before
 * @gives_head: it also has the sum of a head of another lane
 */
unsigned lanes_buffers(unsigned first, unsigned end, bool gets_head, bool gives_head);

/**
 * lanes_subtrees() - return the number of maximal subtrees of the tree over @lanes lanes that make
 * up [first, end)
 */
unsigned lanes_subtrees(unsigned lanes, unsigned first, unsigned end);
