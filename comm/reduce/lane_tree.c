#include "comm/reduce/lane_tree.h"

#include <assert.h>

void tree_children(struct tree_span node, struct tree_span *ret_left, struct tree_span *ret_right)
{
    assert(node.count >= 2);
    unsigned left = 1;
    while (left * 2 < node.count)
        left *= 2;
    *ret_left = (struct tree_span){.first = node.first, .count = left};
    *ret_right = (struct tree_span){.first = node.first + left, .count = node.count - left};
}

/* Whether all of @inner lies in @outer. */
static bool span_contains(struct tree_span outer, struct tree_span inner)
{
    return inner.first >= outer.first && inner.first + inner.count <= outer.first + outer.count;
}

static bool spans_overlap(struct tree_span a, struct tree_span b)
{
    return a.first < b.first + b.count && b.first < a.first + a.count;
}

/* Depth is at most log2(TREE_LANES_MAX) + 1: the right child of a node is never larger than its
 * left. */
static unsigned collect(struct tree_span node, struct tree_span range, struct tree_span *subtrees,
                        unsigned count)
{
    if (!spans_overlap(node, range))
        return count;
    if (span_contains(range, node)) {
        assert(count < TREE_SUBTREES_MAX);
        subtrees[count] = node;
        return count + 1;
    }
    struct tree_span left, right;
    tree_children(node, &left, &right);
    count = collect(left, range, subtrees, count);
    return collect(right, range, subtrees, count);
}

unsigned tree_subtrees(unsigned lanes, struct tree_span range,
                       struct tree_span ret_subtrees[TREE_SUBTREES_MAX])
{
    assert(lanes >= 1 && lanes <= TREE_LANES_MAX);
    struct tree_span root = {.first = 0, .count = lanes};
    assert(span_contains(root, range));
    return collect(root, range, ret_subtrees, 0);
}

bool tree_parent_of_pair(unsigned lanes, struct tree_span left, struct tree_span right,
                         struct tree_span *ret_parent)
{
    struct tree_span node = {.first = 0, .count = lanes};
    if (left.first + left.count != right.first || left.count == 0 || right.count == 0)
        return false;
    struct tree_span pair = {.first = left.first, .count = left.count + right.count};
    while (node.count >= 2 && span_contains(node, pair)) {
        struct tree_span child_left, child_right;
        tree_children(node, &child_left, &child_right);
        if (child_left.first == left.first && child_left.count == left.count &&
            child_right.count == right.count) {
            *ret_parent = node;
            return true;
        }
        node = span_contains(child_left, pair) ? child_left : child_right;
    }
    return false;
}
