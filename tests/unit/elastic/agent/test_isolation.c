/* Tests whether this node alone fails to reach etcd: every answer at every time of a lease. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "elastic/agent/isolation.h"
#include "elastic/plan/plan.h"

#define TTL_NS (9 * NS_PER_SECOND)

static struct isolation_view view;

static int setup(void **state)
{
    (void)state;
    view = (struct isolation_view){
        .ttl_ns = TTL_NS, .left_ns = TTL_NS, .knows_neighbours = true, .neighbour_count = 4};
    return 0;
}

static void test_a_lease_that_was_renewed_is_no_reason_to_ask(void **state)
{
    (void)state;
    view.left_ns = TTL_NS * 2 / 3; /* the next renewal is due */
    view.reaching = 4;             /* earlier answers do not matter */
    assert_int_equal(isolation_judge(&view), ISOLATION_NONE);
    assert_false(isolation_doubts(view.left_ns, TTL_NS));
}

static void test_while_there_is_time_others_are_asked(void **state)
{
    (void)state;
    view.left_ns = TTL_NS / 2;
    assert_int_equal(isolation_judge(&view), ISOLATION_DOUBT);
    assert_true(isolation_doubts(view.left_ns, TTL_NS));
    view.reaching = 1;
    view.left_ns = TTL_NS / 4;
    assert_int_equal(isolation_judge(&view), ISOLATION_DOUBT);
}

static void test_before_the_lease_can_end_it_holds_unless_others_are_no_better_off(void **state)
{
    (void)state;
    for (unsigned left = 0; left < 2; left++) {
        view.left_ns = left * TTL_NS / 10;
        view.reaching = view.away = 0;
        assert_int_equal(isolation_judge(&view), ISOLATION_ALONE); /* no neighbour answers */
        view.away = 1;
        assert_int_equal(isolation_judge(&view), ISOLATION_SHARED);
        view.reaching = 1;
        assert_int_equal(isolation_judge(&view), ISOLATION_ALONE);
        view.away = 0;
        assert_int_equal(isolation_judge(&view), ISOLATION_ALONE);
    }
}

static void test_without_neighbours_nobody_can_take_the_job_over(void **state)
{
    (void)state;
    view.left_ns = 0;
    view.neighbour_count = 0;
    assert_int_equal(isolation_judge(&view), ISOLATION_SHARED);
}

/* A neighbour that was registered earlier is back, and reaches etcd. */
static void test_without_neighbours_the_word_of_earlier_ones_counts(void **state)
{
    (void)state;
    view.neighbour_count = 0;
    view.reaching = 1;
    view.left_ns = TTL_NS / 2;
    assert_int_equal(isolation_judge(&view), ISOLATION_DOUBT);
    view.left_ns = 0;
    assert_int_equal(isolation_judge(&view), ISOLATION_ALONE);
    view.reaching = 0;
    view.away = 1;
    assert_int_equal(isolation_judge(&view), ISOLATION_SHARED);
}

static void test_that_nobody_is_known_does_not_mean_that_there_is_nobody(void **state)
{
    (void)state;
    view.left_ns = 0;
    view.knows_neighbours = false;
    view.neighbour_count = 0;
    assert_int_equal(isolation_judge(&view), ISOLATION_ALONE);
}

/* A step that commits when the order arrives is over before another node may begin. */
static void test_there_is_time_left_when_it_holds(void **state)
{
    (void)state;
    view.left_ns = NS_PER_SECOND;
    assert_int_equal(isolation_judge(&view), ISOLATION_ALONE);
    view.left_ns = NS_PER_SECOND * 5 / 4;
    assert_int_equal(isolation_judge(&view), ISOLATION_DOUBT);
}

/* The node asks only if it could continue by itself. */
static void test_only_a_node_with_all_workers_is_alone(void **state)
{
    (void)state;
    struct plan_worker workers[] = {{.node = "a"}, {.node = "a"}, {.node = "b"}};
    struct plan plan = {
        .layout.worker_count = 2, .layout.donor_count = 1, .layout.workers = workers};
    assert_string_equal(plan_layout_lone_node(&plan.layout), "a"); /* b is only a donor */
    plan.layout.worker_count = 3;
    plan.layout.donor_count = 0;
    assert_null(plan_layout_lone_node(&plan.layout));
    plan.layout.worker_count = 0;
    assert_null(plan_layout_lone_node(&plan.layout));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_lease_that_was_renewed_is_no_reason_to_ask, setup),
        cmocka_unit_test_setup(test_while_there_is_time_others_are_asked, setup),
        cmocka_unit_test_setup(
            test_before_the_lease_can_end_it_holds_unless_others_are_no_better_off, setup),
        cmocka_unit_test_setup(test_without_neighbours_nobody_can_take_the_job_over, setup),
        cmocka_unit_test_setup(test_without_neighbours_the_word_of_earlier_ones_counts, setup),
        cmocka_unit_test_setup(test_that_nobody_is_known_does_not_mean_that_there_is_nobody, setup),
        cmocka_unit_test_setup(test_there_is_time_left_when_it_holds, setup),
        cmocka_unit_test(test_only_a_node_with_all_workers_is_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
