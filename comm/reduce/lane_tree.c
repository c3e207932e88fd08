#include "comm/reduce/lane_tree.h"

#include <assert.h>

void lane_tree_children(struct lane_tree_span node, struct lane_tree_span *ret_left,
                        struct lane_tree_span *ret_right)
{
    assert(node.count >= 2);
    unsigned left = 1;
    while (left * 2 < node.count)
        left *= 2;
    *ret_left = (struct lane_tree_span){.first = node.first, .count = left};
    *ret_right = (struct lane_tree_span){.first = node.first + left, .count = node.count - left};
}

/* Whether all of @inner lies in @outer. */
static bool span_contains(struct lane_tree_span outer, struct lane_tree_span inner)
{
    return inner.first >= outer.first && inner.first + inner.count <= outer.first + outer.count;
}

static bool spans_overlap(struct lane_tree_span a, struct lane_tree_span b)
{
    return a.first < b.first + b.count && b.first < a.first + a.count;
}

/* Depth is at most log2(LANE_TREE_LANES_MAX) + 1: the right child of a node is never larger than
 * its left. */
static unsigned collect(struct lane_tree_span node, struct lane_tree_span range,
                        struct lane_tree_span *subtrees, unsigned count)
{
    if (!spans_overlap(node, range))
        return count;
    if (span_contains(range, node)) {
        assert(count < LANE_TREE_SUBTREES_MAX);
        subtrees[count] = node;
        return count + 1;
    }
    struct lane_tree_span left, right;
    lane_tree_children(node, &left, &right);
    count = collect(left, range, subtrees, count);
    return collect(right, range, subtrees, count);
}

unsigned lane_tree_subtrees(unsigned lanes, struct lane_tree_span range,
                            struct lane_tree_span ret_subtrees[LANE_TREE_SUBTREES_MAX])
{
    assert(lanes >= 1 && lanes <= LANE_TREE_LANES_MAX);
    struct lane_tree_span root = {.first = 0, .count = lanes};
    assert(span_contains(root, range));
    return collect(root, range, ret_subtrees, 0);
}

bool lane_tree_parent_of_pair(unsigned lanes, struct lane_tree_span left,
                              struct lane_tree_span right, struct lane_tree_span *ret_parent)
{
    struct lane_tree_span node = {.first = 0, .count = lanes};
    if (left.first + left.count != right.first || left.count == 0 || right.count == 0)
        return false;
    struct lane_tree_span pair = {.first = left.first, .count = left.count + right.count};
    while (node.count >= 2 && span_contains(node, pair)) {
        struct lane_tree_span child_left, child_right;
        lane_tree_children(node, &child_left, &child_right);
        if (child_left.first == left.first && child_left.count == left.count &&
            child_right.count == right.count) {
            *ret_parent = node;
            return true;
        }
        node = span_contains(child_left, pair) ? child_left : child_right;
    }
    return false;
}
