/*
 * The one binary tree over lane indices along which gradients are added.
 *
 * Over [first, first + count): a single lane is a leaf; otherwise the left child is the largest
 * power of two below count, the right child the rest. A replica that holds any contiguous range of
 * lanes reduces the maximal subtrees inside its range; the owner finishes the tree. The order of
 * every addition is a function of the lane count alone.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

#define LANE_TREE_LANES_MAX    1024
#define LANE_TREE_SUBTREES_MAX 22 /* 2 * log2(LANE_TREE_LANES_MAX) + 2: of one contiguous range */

struct lane_tree_span {
    unsigned first, count;
};

/** lane_tree_children() - of a node with count >= 2 */
void lane_tree_children(struct lane_tree_span node, struct lane_tree_span *ret_left,
                        struct lane_tree_span *ret_right);

/**
 * lane_tree_subtrees() - the maximal subtrees of the tree over @lanes lanes inside @range, left to
 * right Return: how many (at most LANE_TREE_SUBTREES_MAX)
 */
unsigned lane_tree_subtrees(unsigned lanes, struct lane_tree_span range,
                            struct lane_tree_span ret_subtrees[LANE_TREE_SUBTREES_MAX]);

/**
 * lane_tree_parent_of_pair() - whether the adjacent spans @left and @right are the two children of
 * one node of the tree over @lanes lanes; that node into *ret_parent
 */
bool lane_tree_parent_of_pair(unsigned lanes, struct lane_tree_span left,
                              struct lane_tree_span right, struct lane_tree_span *ret_parent);
