/*
 * Tests that the leader avoids failed slots: shortly at first, and longer after each soon repeated
 * failure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/timeouts.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_internal.h"

#define TIMEOUT_NS 1000ull

static struct member node = {.name = "a",
                             .host = "127.0.0.1",
                             .link_port = 7000,
                             .incarnation = 5,
                             .slot_count = 1,
                             .slots = {{.speed = 1}}};
static struct job_spec spec;
static struct leader_view view;
static struct leader_memory memory;
static struct leader_decision decision;
static struct leader_context context;

static int setup(void **state)
{
    (void)state;
    memset(&memory, 0, sizeof(memory));
    view = (struct leader_view){.now_ns = 100 * TIMEOUT_NS,
                                .failure_timeout_ns = TIMEOUT_NS,
                                .spec = &spec,
                                .nodes = &node,
                                .node_count = 1};
    node.incarnation = 5;
    context = (struct leader_context){.view = &view, .memory = &memory, .decision = &decision};
    return roster_init(&context.roster, &view);
}

static int teardown(void **state)
{
    (void)state;
    roster_done(&context.roster);
    return 0;
}

static bool is_free(void)
{
    struct slot_pool pool = {0};
    unsigned count;

    assert_int_equal(slot_pool_add_free(&context, &pool, 0), 0);
    count = pool.count;
    slot_pool_done(&pool);
    return count == 1;
}

/* Return for how many timeouts the leader avoids the slot from now on. */
static unsigned avoided_for(void)
{
    unsigned timeouts = 0;

    leader_avoid(&context, "a", 0);
    while (!is_free()) {
        leader_avoid(&context, "a", 0); /* a repeated call changes nothing */
        view.now_ns += TIMEOUT_NS;
        timeouts++;
    }
    return timeouts;
}

static void test_it_lasts_longer_each_time_up_to_a_limit(void **state)
{
    (void)state;
    assert_true(is_free());
    for (unsigned expected = TIMEOUTS_AVOID_MIN; expected < TIMEOUTS_AVOID_MAX; expected *= 2)
        assert_int_equal(avoided_for(), expected);
    assert_int_equal(avoided_for(), TIMEOUTS_AVOID_MAX);
    assert_int_equal(avoided_for(), TIMEOUTS_AVOID_MAX);
}

static void test_it_is_forgotten_after_a_while(void **state)
{
    (void)state;
    assert_int_equal(avoided_for(), TIMEOUTS_AVOID_MIN);
    assert_int_equal(avoided_for(), 2 * TIMEOUTS_AVOID_MIN);
    view.now_ns += TIMEOUTS_AVOID_MAX * TIMEOUT_NS;
    assert_int_equal(avoided_for(), TIMEOUTS_AVOID_MIN);
}

static void test_a_new_daemon_may_try_at_once(void **state)
{
    (void)state;
    leader_avoid(&context, "a", 0);
    assert_false(is_free());
    node.incarnation = 6;
    assert_true(is_free());
}

static void test_what_is_kept_for_others_is_not_free(void **state)
{
    (void)state;
    struct slot_pool pool = {0};
    assert_int_equal(slot_pool_add_free(&context, &pool, 1), 0);
    assert_int_equal(pool.count, 0);
    assert_int_equal(slot_pool_add_free(&context, &pool, 7), 0); /* more than the free slots */
    assert_int_equal(pool.count, 0);
    slot_pool_done(&pool);
}

static void test_a_plan_that_gives_way_has_fewer_devices(void **state)
{
    (void)state;
    struct plan plan = {.layout.worker_count = 4};
    spec.elastic.devices_max = 64;
    context.gives = 3;
    assert_int_equal(leader_devices_now(&context), 64); /* no slot to give */
    view.plan = &plan;
    assert_int_equal(leader_devices_now(&context), 1);
    assert_int_equal(leader_devices_max(&view), 64);
    context.gives = 0;
    assert_int_equal(leader_devices_now(&context), 64);
    context.gives = 1;
    view.wish.devices = 2; /* the user already asked for fewer */
    assert_int_equal(leader_devices_now(&context), 2);
    spec.elastic.devices_max = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_lasts_longer_each_time_up_to_a_limit, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_it_is_forgotten_after_a_while, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_new_daemon_may_try_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_kept_for_others_is_not_free, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_plan_that_gives_way_has_fewer_devices, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
