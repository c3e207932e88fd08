/*
 * Assign lanes to replicas: contiguous ranges with sizes that differ by at most one, cut along the
 * tree of additions (comm/lanes/lane_tree.h), so that replicas reduce few and large subtrees.
 * Replicas of unlike speeds get lanes in proportion to their speed instead.
 */
#pragma once

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
 * lanes_subtrees() - return the number of maximal subtrees of the tree over @lanes lanes that make
 * up [first, end)
 */
unsigned lanes_subtrees(unsigned lanes, unsigned first, unsigned end);
