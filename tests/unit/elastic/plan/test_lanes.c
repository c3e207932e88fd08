/* Tests of the lanes of replicas: even, contiguous, and with as few subtrees as possible. */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "elastic/plan/lanes.h"

/*
 * Compute the subtrees from the definition: walk the tree, mark its nodes, take the maximal ones
 * inside.
 */
static unsigned naive_subtrees(unsigned node, unsigned count, unsigned first, unsigned end)
{
    if (node >= first && node + count <= end)
        return 1;
    if (count == 1)
        return 0;
    unsigned left = 1;
    while (left * 2 < count)
        left *= 2;
    return naive_subtrees(node, left, first, end) +
           naive_subtrees(node + left, count - left, first, end);
}

static unsigned naive_least(unsigned lanes, unsigned replicas, unsigned first)
{
    unsigned best = UINT_MAX, size = lanes / replicas;
    if (replicas == 1)
        return naive_subtrees(0, 24, first, first + lanes);
    for (unsigned own = size; own <= size + (lanes % replicas > 0); own++) {
        unsigned rest_size = (lanes - own) / (replicas - 1);
        unsigned rest_most = rest_size + ((lanes - own) % (replicas - 1) > 0);
        if (rest_size < size || rest_most > size + (lanes % replicas > 0))
            continue;
        unsigned total = naive_subtrees(0, 24, first, first + own) +
                         naive_least(lanes - own, replicas - 1, first + own);
        best = total < best ? total : best;
    }
    return best;
}

static void test_every_split_of_24_lanes_is_best(void **state)
{
    (void)state;
    for (unsigned replicas = 1; replicas <= 24; replicas++) {
        unsigned first[25], total = 0;
        assert_int_equal(lanes_split(24, replicas, first), 0);
        assert_int_equal(first[0], 0);
        assert_int_equal(first[replicas], 24);
        for (unsigned i = 0; i < replicas; i++) {
            unsigned size = first[i + 1] - first[i];
            assert_in_range(size, 24 / replicas, (24 + replicas - 1) / replicas);
            total += lanes_subtrees(24, first[i], first[i + 1]);
        }
        assert_int_equal(total, naive_least(24, replicas, 0));
    }
}

/*
 * No other distribution finishes earlier: each next lane goes to the replica that would finish it
 * first.
 */
static void test_unlike_replicas_are_done_as_early_as_can_be(void **state)
{
    (void)state;
    static const double speeds[][4] = {
        {1, 1, 1, 1}, {1, 1, 1, 0.5}, {0.25, 1, 1, 1}, {1, 0.1, 0.1, 1}, {1, 0.9, 0.8, 0.001}};
    for (unsigned i = 0; i < ARRAY_COUNT(speeds); i++)
        for (unsigned replicas = 1; replicas <= 4; replicas++)
            for (unsigned lanes = replicas; lanes <= 40; lanes++)
                for (double fill = 0; fill < 3; fill += 1.5) {
                    unsigned first[5], counts[4] = {1, 1, 1, 1};
                    double greedy = 0;
                    for (unsigned given = replicas; given < lanes; given++) {
                        unsigned next = 0;
                        for (unsigned r = 1; r < replicas; r++)
                            if ((counts[r] + 1 + fill) / speeds[i][r] <
                                (counts[next] + 1 + fill) / speeds[i][next])
                                next = r;
                        counts[next]++;
                    }
                    for (unsigned r = 0; r < replicas; r++)
                        greedy = fmax(greedy, (counts[r] + fill) / speeds[i][r]);
                    double time = lanes_split_unlike(lanes, speeds[i], replicas, fill, first);
                    assert_true(fabs(time - greedy) < 1e-9 * greedy);
                    assert_int_equal(first[0], 0);
                    assert_int_equal(first[replicas], lanes);
                    for (unsigned r = 0; r < replicas; r++) {
                        assert_true(first[r] < first[r + 1]);
                        assert_true((first[r + 1] - first[r] + fill) / speeds[i][r] <=
                                    time * (1 + 1e-9));
                    }
                }
}

static void test_subtrees_are_those_of_the_tree(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 70; lanes++)
        for (unsigned first = 0; first < lanes; first++)
            for (unsigned end = first + 1; end <= lanes; end++)
                assert_int_equal(lanes_subtrees(lanes, first, end),
                                 naive_subtrees(0, lanes, first, end));
}

/* Shared lanes make the parts of replicas equal to the micro-batch. */
static void test_shared_lanes_divide_evenly(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 24; lanes++)
        for (unsigned replicas = 1; replicas <= lanes; replicas++)
            for (unsigned size = 1; size <= 6; size++) {
                unsigned first[25], heads[25], total = lanes * size;
                assert_true(lanes_share(lanes, size, NULL, replicas, 0, first, heads));
                assert_int_equal(first[0] + heads[0] + heads[replicas], 0);
                assert_int_equal(first[replicas], lanes);
                for (unsigned r = 0; r < replicas; r++) {
                    unsigned begin = first[r] * size + heads[r];
                    unsigned part = first[r + 1] * size + heads[r + 1] - begin;
                    assert_in_range(part, total / replicas, (total + replicas - 1) / replicas);
                    assert_in_range(heads[r], 0, size - 1);
                    assert_true(part >= size);
                }
            }
}

static void test_shared_lanes_follow_the_speeds(void **state)
{
    (void)state;
    static const double speeds[] = {1, 0.5, 2, 1};
    unsigned first[5], heads[5];
    assert_true(lanes_share(18, 100, speeds, 4, 0, first, heads));
    for (unsigned r = 0; r < 4; r++) {
        unsigned part = (first[r + 1] - first[r]) * 100 + heads[r + 1] - heads[r];
        assert_true(fabs(part / speeds[r] - 1800 / 4.5) <= 1);
    }
    /* With three lanes to fill a pipeline, the slowest replica computes less. */
    assert_true(lanes_share(18, 100, speeds, 4, 0.5, first, heads));
    for (unsigned r = 0; r < 4; r++) {
        unsigned part = (first[r + 1] - first[r]) * 100 + heads[r + 1] - heads[r];
        assert_true(fabs((part + 50) / speeds[r] - 2000 / 4.5) <= 2);
    }
}

/* The owner of a shared lane would wait for its head. */
static void test_no_lane_is_shared_with_less_than_one_lane(void **state)
{
    (void)state;
    static const double speeds[] = {1, 0.2, 1};
    unsigned first[4], heads[4];
    assert_false(lanes_share(8, 10, speeds, 3, 0, first, heads));
    assert_true(lanes_share(12, 10, speeds, 3, 0, first, heads));
    assert_false(lanes_share(12, 10, speeds, 3, 1, first, heads));
}

static void test_ties_give_the_first_replicas_more(void **state)
{
    (void)state;
    unsigned first[4];
    assert_int_equal(lanes_split(8, 3, first), 0);
    assert_int_equal(first[1], 3); /* {0 1}{2} {3}{4 5} {6 7}, no worse than the others */
    assert_int_equal(first[2], 6);
}

static void test_as_many_replicas_as_lanes(void **state)
{
    (void)state;
    unsigned first[1025];
    assert_int_equal(lanes_split(1024, 1024, first), 0);
    for (unsigned i = 0; i <= 1024; i++)
        assert_int_equal(first[i], i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_split_of_24_lanes_is_best),
        cmocka_unit_test(test_unlike_replicas_are_done_as_early_as_can_be),
        cmocka_unit_test(test_subtrees_are_those_of_the_tree),
        cmocka_unit_test(test_shared_lanes_divide_evenly),
        cmocka_unit_test(test_shared_lanes_follow_the_speeds),
        cmocka_unit_test(test_no_lane_is_shared_with_less_than_one_lane),
        cmocka_unit_test(test_ties_give_the_first_replicas_more),
        cmocka_unit_test(test_as_many_replicas_as_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
