/* The lane tree: its shape, the subtrees of every range, and which neighbours make a node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "comm/lanes/lane_tree.h"

static void test_children_split_at_the_largest_power_of_two_below(void **state)
{
    (void)state;
    static const struct {
        unsigned count, left;
    } cases[] = {{2, 1}, {3, 2}, {4, 2}, {5, 4}, {8, 4}, {9, 8}, {12, 8}, {13, 8}, {1024, 512}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct lane_tree_span left, right;
        lane_tree_children((struct lane_tree_span){.first = 3, .count = cases[i].count}, &left,
                           &right);
        assert_int_equal(left.first, 3);
        assert_int_equal(left.count, cases[i].left);
        assert_int_equal(right.first, 3 + cases[i].left);
        assert_int_equal(right.count, cases[i].count - cases[i].left);
    }
}

/* Every node of the tree, by the definition. */
static unsigned all_nodes(struct lane_tree_span node, struct lane_tree_span *nodes, unsigned count)
{
    nodes[count++] = node;
    if (node.count >= 2) {
        struct lane_tree_span left, right;
        lane_tree_children(node, &left, &right);
        count = all_nodes(left, nodes, count);
        count = all_nodes(right, nodes, count);
    }
    return count;
}

static bool is_node(const struct lane_tree_span *nodes, unsigned count, struct lane_tree_span span)
{
    for (unsigned i = 0; i < count; i++)
        if (nodes[i].first == span.first && nodes[i].count == span.count)
            return true;
    return false;
}

/* Return the subtrees of a replica that owns the lanes of @range. */
static unsigned subtrees_of(unsigned lanes, struct lane_tree_span range,
                            struct lane_tree_span ret_subtrees[LANE_TREE_SUBTREES_MAX])
{
    uint16_t owners[LANE_TREE_LANES_MAX] = {0};
    lane_tree_own(owners, range, 1);
    return lane_tree_subtrees(lanes, owners, 1, ret_subtrees, LANE_TREE_SUBTREES_MAX);
}

static void check_range(unsigned lanes, struct lane_tree_span range,
                        const struct lane_tree_span *nodes, unsigned node_count)
{
    struct lane_tree_span subtrees[LANE_TREE_SUBTREES_MAX], parent;
    unsigned count = subtrees_of(lanes, range, subtrees);
    unsigned next = range.first;
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(subtrees[i].first, next);
        assert_true(is_node(nodes, node_count, subtrees[i]));
        next += subtrees[i].count;
        /* maximal: no two neighbours make a node */
        if (i > 0)
            assert_false(lane_tree_parent_of_pair(lanes, subtrees[i - 1], subtrees[i], &parent));
    }
    assert_int_equal(next, range.first + range.count);
}

static void test_subtrees_of_every_range_are_nodes_and_maximal(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 40; lanes++) {
        struct lane_tree_span nodes[80];
        unsigned node_count = all_nodes((struct lane_tree_span){.count = lanes}, nodes, 0);
        for (unsigned first = 0; first < lanes; first++)
            for (unsigned count = 0; count <= lanes - first; count++)
                check_range(lanes, (struct lane_tree_span){.first = first, .count = count}, nodes,
                            node_count);
    }
}

static void test_the_most_subtrees_of_a_range_fit(void **state)
{
    (void)state;
    struct lane_tree_span subtrees[LANE_TREE_SUBTREES_MAX];
    struct lane_tree_span range = {.first = 1, .count = LANE_TREE_LANES_MAX - 2};
    assert_int_equal(subtrees_of(LANE_TREE_LANES_MAX, range, subtrees), 18);
    range = (struct lane_tree_span){.first = 0, .count = LANE_TREE_LANES_MAX};
    assert_int_equal(subtrees_of(LANE_TREE_LANES_MAX, range, subtrees), 1);
}

/* Lanes of three owners in turn, and one pair: parts are in order, of one owner, and cover all. */
static void test_parts_cover_the_lanes_of_any_owners(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 40; lanes++) {
        struct lane_tree_part parts[40];
        uint16_t owners[40];
        for (unsigned lane = 0; lane < lanes; lane++)
            owners[lane] = (uint16_t)(lane / 2 * 7 % 3);
        unsigned count = lane_tree_parts(lanes, owners, parts), next = 0, listed = 0;
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(parts[i].span.first, next);
            for (unsigned lane = next; lane < next + parts[i].span.count; lane++)
                assert_int_equal(owners[lane], parts[i].owner);
            next += parts[i].span.count;
        }
        assert_int_equal(next, lanes);
        for (unsigned owner = 0; owner < 3; owner++)
            listed += lane_tree_subtrees(lanes, owners, owner, NULL, 0);
        assert_int_equal(listed, count);
        if (lanes >= 4)
            assert_true(count <= (lanes + 1) / 2); /* pairs are nodes */
    }
}

static void test_pairs_are_parents_exactly_when_they_are_children(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 20; lanes++) {
        struct lane_tree_span nodes[40];
        unsigned node_count = all_nodes((struct lane_tree_span){.count = lanes}, nodes, 0);
        for (unsigned a = 0; a < node_count; a++) {
            for (unsigned b = 0; b < node_count; b++) {
                struct lane_tree_span joined = {nodes[a].first, nodes[a].count + nodes[b].count};
                struct lane_tree_span left = {0, 0}, right = {0, 0}, parent;
                if (is_node(nodes, node_count, joined) && joined.count >= 2)
                    lane_tree_children(joined, &left, &right);
                bool children = left.first == nodes[a].first && left.count == nodes[a].count &&
                                right.first == nodes[b].first && right.count == nodes[b].count;
                assert_int_equal(lane_tree_parent_of_pair(lanes, nodes[a], nodes[b], &parent),
                                 children);
                if (children)
                    assert_true(parent.first == joined.first && parent.count == joined.count);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_children_split_at_the_largest_power_of_two_below),
        cmocka_unit_test(test_subtrees_of_every_range_are_nodes_and_maximal),
        cmocka_unit_test(test_the_most_subtrees_of_a_range_fit),
        cmocka_unit_test(test_parts_cover_the_lanes_of_any_owners),
        cmocka_unit_test(test_pairs_are_parents_exactly_when_they_are_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
