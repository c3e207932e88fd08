#include "comm/lanes/lane_tree.h"

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

/* Return whether all of @inner lies in @outer. */
static bool span_contains(struct lane_tree_span outer, struct lane_tree_span inner)
{
    return inner.first >= outer.first && inner.first + inner.count <= outer.first + outer.count;
}

void lane_tree_own(uint16_t *owners, struct lane_tree_span range, unsigned owner)
{
    for (unsigned i = 0; i < range.count; i++)
        owners[range.first + i] = (uint16_t)owner;
}

static bool has_one_owner(const uint16_t *owners, struct lane_tree_span span)
{
    for (unsigned i = 1; i < span.count; i++)
        if (owners[span.first + i] != owners[span.first])
            return false;
    return true;
}

/* Cut a subtree into parts of one owner. Depth is at most log2(LANE_TREE_LANES_MAX) + 1: the right
 * child of a node is never larger than its left. */
static unsigned cut(struct lane_tree_span node, const uint16_t *owners,
                    struct lane_tree_part *parts, unsigned count)
{
    if (has_one_owner(owners, node)) {
        parts[count] = (struct lane_tree_part){.span = node, .owner = owners[node.first]};
        return count + 1;
    }
    struct lane_tree_span left, right;
    lane_tree_children(node, &left, &right);
    count = cut(left, owners, parts, count);
    return cut(right, owners, parts, count);
}

unsigned lane_tree_parts(unsigned lanes, const uint16_t *owners, struct lane_tree_part *ret_parts)
{
    assert(lanes >= 1 && lanes <= LANE_TREE_LANES_MAX);
    return cut((struct lane_tree_span){.first = 0, .count = lanes}, owners, ret_parts, 0);
}

unsigned lane_tree_subtrees(unsigned lanes, const uint16_t *owners, unsigned owner,
                            struct lane_tree_span *ret_subtrees, unsigned room)
{
    struct lane_tree_part parts[LANE_TREE_LANES_MAX];
    unsigned count = 0, all = lane_tree_parts(lanes, owners, parts);
    for (unsigned i = 0; i < all; i++) {
        if (parts[i].owner != owner)
            continue;
        if (count < room)
            ret_subtrees[count] = parts[i].span;
        count++;
    }
    return count;
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
