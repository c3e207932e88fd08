/*
 * Tests of the slot for each rank: requirements of a slot, whole replicas on a node, state that
 * stays.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/planner/placement.h"

#define UNITS     4
#define SLOTS_MAX 8
#define GIB       ((size_t)1 << 30)

static struct planner_unit units[UNITS];
static struct planner_slot slots[SLOTS_MAX];
static struct planner_input input;
static unsigned ranks[SLOTS_MAX]; /* rank of each slot */

static int begin(void **state)
{
    (void)state;
    memset(slots, 0, sizeof(slots));
    for (unsigned i = 0; i < UNITS; i++)
        units[i] = (struct planner_unit){.parameter_bytes = 1000, .trained = true};
    input = (struct planner_input){.units = units, .unit_count = UNITS, .slots = slots};
    return 0;
}

static struct planner_slot *add_slot(const char *node)
{
    struct planner_slot *slot = &slots[input.slot_count];
    snprintf(slot->node, sizeof(slot->node), "%s", node);
    slot->slot = input.slot_count++;
    slot->speed = 1;
    return slot;
}

static void hold(struct planner_slot *slot, unsigned first, unsigned count)
{
    slot->held_first_unit = first;
    slot->held_unit_count = count;
}

static void assign(unsigned stages, unsigned replicas, double speed_min, size_t memory_bytes_min)
{
    static const unsigned cuts[][3] = {{0, UNITS}, {0, UNITS / 2, UNITS}};
    const struct placement_request request = {.stage_count = stages,
                                              .replica_count = replicas,
                                              .stage_first_unit = cuts[stages - 1],
                                              .speed_min = speed_min,
                                              .memory_bytes_min = memory_bytes_min};
    assert_int_equal(placement_assign(&input, &request, ranks), 0);
}

/* The slot is not used, however much state it has. */
static void test_a_slot_with_too_little_memory_is_not_used(void **state)
{
    (void)state;
    add_slot("a")->memory_bytes = GIB - 1;
    hold(&slots[0], 0, UNITS);
    add_slot("b")->memory_bytes = GIB;
    assign(1, 1, 1, GIB);
    assert_int_equal(ranks[0], 1);
}

static void test_a_slot_without_a_limit_has_enough_memory(void **state)
{
    (void)state;
    add_slot("a")->memory_bytes = GIB - 1;
    add_slot("b");
    assign(1, 1, 1, GIB);
    assert_int_equal(ranks[0], 1);
}

static void test_a_slot_that_is_too_slow_is_not_used(void **state)
{
    (void)state;
    add_slot("a")->speed = 0.5;
    hold(&slots[0], 0, UNITS);
    add_slot("b")->speed = 0.75;
    assign(1, 1, 0.75, 0);
    assert_int_equal(ranks[0], 1);
}

static void test_a_replica_stays_on_one_node_where_it_can(void **state)
{
    (void)state;
    add_slot("a");
    add_slot("b");
    add_slot("b");
    add_slot("a");
    assign(2, 2, 1, 0);
    for (unsigned replica = 0; replica < 2; replica++)
        assert_string_equal(slots[ranks[2 * replica]].node, slots[ranks[2 * replica + 1]].node);
}

/* One replica fits on node b; the other replica uses the remaining slots. */
static void test_the_rest_makes_up_a_replica_across_nodes(void **state)
{
    (void)state;
    add_slot("a");
    add_slot("b");
    add_slot("b");
    add_slot("c");
    assign(2, 2, 1, 0);
    assert_string_equal(slots[ranks[0]].node, "b");
    assert_string_equal(slots[ranks[1]].node, "b");
    assert_string_equal(slots[ranks[2]].node, "a");
    assert_string_equal(slots[ranks[3]].node, "c");
}

static void test_whoever_holds_most_of_a_stage_gets_it(void **state)
{
    (void)state;
    hold(add_slot("a"), 2, 2);
    hold(add_slot("a"), 0, 3); /* units of both stages; all of the first */
    assign(2, 1, 1, 0);
    assert_int_equal(ranks[0], 1);
    assert_int_equal(ranks[1], 0);
}

/* Moments move with parameters: moving two frozen units costs less than moving one trained unit. */
static void test_state_counts_by_its_bytes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++)
        units[i].trained = false;
    hold(add_slot("a"), 0, 2);
    hold(add_slot("b"), 2, 1);
    assign(1, 1, 1, 0);
    assert_int_equal(ranks[0], 1);
}

static void test_the_node_that_holds_most_is_taken_first(void **state)
{
    (void)state;
    hold(add_slot("a"), 0, 1);
    add_slot("a");
    hold(add_slot("b"), 0, 2);
    add_slot("b");
    assign(2, 1, 1, 0);
    assert_string_equal(slots[ranks[0]].node, "b");
    assert_string_equal(slots[ranks[1]].node, "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_slot_with_too_little_memory_is_not_used, begin),
        cmocka_unit_test_setup(test_a_slot_without_a_limit_has_enough_memory, begin),
        cmocka_unit_test_setup(test_a_slot_that_is_too_slow_is_not_used, begin),
        cmocka_unit_test_setup(test_a_replica_stays_on_one_node_where_it_can, begin),
        cmocka_unit_test_setup(test_the_rest_makes_up_a_replica_across_nodes, begin),
        cmocka_unit_test_setup(test_whoever_holds_most_of_a_stage_gets_it, begin),
        cmocka_unit_test_setup(test_state_counts_by_its_bytes, begin),
        cmocka_unit_test_setup(test_the_node_that_holds_most_is_taken_first, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
