/*
 * Which lanes each replica carries: contiguous, sizes that differ by at most one, and cut where the
 * tree of additions (comm/reduce/lane_tree.h) is cut, so that replicas reduce few and large
 * subtrees. Replicas of unlike speeds get lanes by their speed instead.
 */
#pragma once

#include "base/compiler.h"

/**
 * lanes_split() - @lanes lanes over @replicas replicas, 1 <= replicas <= lanes
 * @ret_first: replicas + 1 entries; the last is @lanes
 *
 * Minimizes the number of subtrees that all replicas reduce together; ties: larger replicas first.
 * Return: 0 or -ENOMEM.
 */
int lanes_split(unsigned lanes, unsigned replicas, unsigned *ret_first) CHECK_RESULT;

/**
 * lanes_split_unlike() - lanes over replicas of unlike speeds, so that the one that takes longest
 * is done as early as possible
 * @speeds: of each replica, above 0
 * @fill: lanes' worth of time that every replica needs beside its lanes (filling its pipeline)
 * @ret_first: replicas + 1 entries, as lanes_split(); everybody has one lane at least
 *
 * Return: the time of the one that takes longest, in lanes at speed 1.
 */
double lanes_split_unlike(unsigned lanes, const double *speeds, unsigned replicas, double fill,
                          unsigned *ret_first);

/** lanes_subtrees() - how many maximal subtrees of the tree over @lanes lanes make up [first, end)
 */
unsigned lanes_subtrees(unsigned lanes, unsigned first, unsigned end);
