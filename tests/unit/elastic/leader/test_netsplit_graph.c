/*
 * Tests of the nodes to leave out of small netsplit graphs, and of the order of equally good sets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "elastic/leader/netsplit_graph.h"

#define A 1u
#define B 2u
#define C 4u
#define D 8u
#define E 16u

static struct cut_node nodes[NETSPLIT_NODES_MAX];

static int setup(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NETSPLIT_NODES_MAX; i++)
        nodes[i] = (struct cut_node){.slot_count = 1};
    return 0;
}

static void cut(unsigned a, unsigned b)
{
    for (unsigned i = 0; i < NETSPLIT_NODES_MAX; i++) {
        nodes[i].cut_from |= a >> i & 1 ? b : 0;
        nodes[i].cut_from |= b >> i & 1 ? a : 0;
    }
}

static void test_nothing_is_left_out_where_all_reach_each_other(void **state)
{
    (void)state;
    assert_int_equal(netsplit_graph_leave_out(nodes, 5, NULL, NULL), 0);
}

static void test_of_a_pair_the_second_goes(void **state)
{
    (void)state;
    cut(A, B);
    assert_int_equal(netsplit_graph_leave_out(nodes, 5, NULL, NULL), B);
}

static void test_the_end_with_fewer_slots_goes(void **state)
{
    (void)state;
    cut(A, B);
    nodes[1].slot_count = 4;
    assert_int_equal(netsplit_graph_leave_out(nodes, 5, NULL, NULL), A);
}

/* No other node reaches the middle of the star: it is left out, however many slots it has. */
static void test_the_middle_of_a_star_goes(void **state)
{
    (void)state;
    cut(A, B | C | D);
    nodes[0].slot_count = 8;
    assert_int_equal(netsplit_graph_leave_out(nodes, 5, NULL, NULL), A);
}

static void test_of_two_halves_the_larger_stays(void **state)
{
    (void)state;
    cut(A | B, C | D | E);
    assert_int_equal(netsplit_graph_leave_out(nodes, 5, NULL, NULL), A | B);
}

static void test_one_that_stays_costs_its_neighbours(void **state)
{
    (void)state;
    cut(A, B | C);
    nodes[0].stays = true;
    assert_int_equal(netsplit_graph_leave_out(nodes, 5, NULL, NULL), B | C);
    nodes[1].stays = true;
    assert_int_equal(netsplit_graph_leave_out(nodes, 5, NULL, NULL), 0);
}

static bool without_these(const void *context, uint32_t set)
{
    const uint32_t *needed = context;
    return (set & *needed) == 0;
}

static void test_a_set_that_may_not_go_is_passed_over(void **state)
{
    (void)state;
    uint32_t needed = B;
    cut(A, B);
    assert_int_equal(netsplit_graph_leave_out(nodes, 5, without_these, &needed), A);
    needed = A | B;
    assert_int_equal(netsplit_graph_leave_out(nodes, 5, without_these, &needed), 0);
}

static void test_the_largest_graph_has_an_answer(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NETSPLIT_NODES_MAX; i += 2)
        cut(1u << i, 1u << (i + 1));
    assert_int_equal(netsplit_graph_leave_out(nodes, NETSPLIT_NODES_MAX, NULL, NULL), 0xaaaa);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing_is_left_out_where_all_reach_each_other, setup),
        cmocka_unit_test_setup(test_of_a_pair_the_second_goes, setup),
        cmocka_unit_test_setup(test_the_end_with_fewer_slots_goes, setup),
        cmocka_unit_test_setup(test_the_middle_of_a_star_goes, setup),
        cmocka_unit_test_setup(test_of_two_halves_the_larger_stays, setup),
        cmocka_unit_test_setup(test_one_that_stays_costs_its_neighbours, setup),
        cmocka_unit_test_setup(test_a_set_that_may_not_go_is_passed_over, setup),
        cmocka_unit_test_setup(test_the_largest_graph_has_an_answer, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
