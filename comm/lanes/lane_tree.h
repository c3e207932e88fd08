/*
 * The one binary tree over lane indices along which gradients are added.
 *
 * Over [first, first + count): a single lane is a leaf; otherwise the left child is the largest
 * power of two below count, the right child the rest. A replica adds the maximal subtrees of any
 * set of lanes that it owns; the owner of a shard finishes the tree. The order of every addition is
 * a function of the lane count alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define LANE_TREE_LANES_MAX    1024
#define LANE_TREE_SUBTREES_MAX 22 /* of one contiguous range: 2 * log2(LANE_TREE_LANES_MAX) + 2 */

struct lane_tree_span {
    unsigned first, count;
};

/** lane_tree_children() - compute the children of a node with count >= 2 */
void lane_tree_children(struct lane_tree_span node, struct lane_tree_span *ret_left,
                        struct lane_tree_span *ret_right);

/** lane_tree_own() - give the lanes of @range to @owner */
void lane_tree_own(uint16_t *owners, struct lane_tree_span range, unsigned owner);

/* A maximal subtree whose lanes all have one owner. */
struct lane_tree_part {
    struct lane_tree_span span;
    unsigned owner;
};

/**
 * lane_tree_parts() - cut the tree over @lanes lanes into its maximal subtrees of one owner, left
 * to right
 * @owners: of each lane
 * @ret_parts: room for @lanes entries
 *
 * Return: their number.
 */
unsigned lane_tree_parts(unsigned lanes, const uint16_t *owners, struct lane_tree_part *ret_parts);

/** lane_tree_subtrees() - list the parts of @owner alone; @ret_subtrees has @room entries. Return:
 * their number; if it exceeds @room, the first @room were written */
unsigned lane_tree_subtrees(unsigned lanes, const uint16_t *owners, unsigned owner,
                            struct lane_tree_span *ret_subtrees, unsigned room);

/**
 * lane_tree_parent_of_pair() - return whether the adjacent spans @left and @right are the two
 * children of one node of the tree over @lanes lanes, and store that node in *ret_parent
 */
bool lane_tree_parent_of_pair(unsigned lanes, struct lane_tree_span left,
                              struct lane_tree_span right, struct lane_tree_span *ret_parent);
