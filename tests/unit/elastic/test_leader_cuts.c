/*
 * Pairs of nodes that do not reach each other, from hand-made reports: one stage and three replicas
 * on nodes a, b and c.
 */
#include "unit/elastic/three_nodes.h"

#include "elastic/leader_cuts.h"

#define TERM_NS (LEADER_CUT_TIMEOUTS_MIN * TIMEOUT_NS)

/* The ranks of plan in force have broken while their links were made; @missed was not reached. */
static void break_links(unsigned node, unsigned missed)
{
    for (unsigned i = 0; i < NODES; i++) {
        say(i, WORKER_STUCK, plan->generation, 9);
        reports[i].workers[0].unreached_count = 0;
    }
    reports[node].workers[0].unreached_count = 1;
    reports[node].workers[0].unreached[0] = missed;
}

/* What was decided is in force from now on, and all say something of it. */
static void follow(void)
{
    struct plan *next = plan_copy(decision.plan);
    assert_non_null(next);
    plan_free(plan);
    plan = next;
    view.plan = plan;
    view.now_ns += 4 * TIMEOUT_NS;
    for (unsigned i = 0; i < NODES; i++)
        reports[i].generation = plan->generation;
}

static bool uses(const char *node)
{
    return plan_find(decision.plan, node, 0) >= 0;
}

/* Twice in a row, as it takes. */
static void break_links_again(unsigned node, unsigned missed)
{
    break_links(node, missed);
    decide();
    assert_int_equal(decision.plan->worker_count, NODES);
    follow();
    break_links(node, missed);
}

static void once_the_same_nodes_are_tried_again(void **state)
{
    (void)state;
    break_links(2, 0);
    decide();
    expect_published(9, 0);
    assert_int_equal(decision.plan->worker_count, 3);
    decide(); /* and looking twice at the same reports is no second time */
    assert_int_equal(decision.plan->worker_count, 3);
}

static void missed_twice_one_end_is_left_out(void **state)
{
    (void)state;
    break_links_again(2, 0);
    decide();
    expect_published(9, 0);
    assert_int_equal(decision.plan->worker_count, 2);
    assert_true(uses("a") && uses("b"));
    assert_non_null(strstr(decision.plan->reason_text,
                           "a and c do not reach each other: without c: 3 slots -> 2"));
}

static void a_host_that_says_nothing_itself_is_no_cut(void **state)
{
    (void)state;
    break_links_again(2, 0);
    reports[0].worker_count = 0;
    decide(); /* it is waited for, then the job goes on without it, for it may be dead */
    view.now_ns += TIMEOUT_NS;
    decide();
    assert_true(uses("c"));
}

static void whoever_alone_has_state_stays(void **state)
{
    (void)state;
    break_links_again(2, 0);
    reports[0].workers[0].held_unit_count = 0;
    reports[1].workers[0].held_unit_count = 0;
    decide();
    expect_published(9, 0);
    assert_true(uses("c") && !uses("a"));
}

static void where_both_ends_are_needed_they_are_tried_again(void **state)
{
    (void)state;
    break_links_again(2, 0);
    reports[1].workers[0].held_unit_count = 0;
    reports[0].workers[0].held_unit_count = 1;
    reports[2].workers[0].held_first_unit = 1;
    reports[2].workers[0].held_unit_count--;
    decide();
    expect_published(9, 0);
    assert_true(uses("a") && uses("c"));
}

static void without_slots_enough_they_are_tried_again(void **state)
{
    (void)state;
    spec.elastic.devices_min = 3;
    break_links_again(2, 0);
    decide();
    expect_published(9, 0);
    assert_int_equal(decision.plan->worker_count, 3);
    assert_null(strstr(decision.plan->reason_text, "without"));
}

static void run(void)
{
    follow();
    for (unsigned i = 0; i < NODES; i++) {
        int rank = plan_find(plan, nodes[i].name, 0);
        say(i, rank >= 0 ? WORKER_RUNNING : WORKER_LEFT, plan->generation, 9);
        reports[i].workers[0].unreached_count = 0;
        if (rank >= 0)
            reports[i].workers[0].instance = plan->workers[rank].instance;
    }
}

/* Decide until nothing more is to be waited for. */
static void settle(void)
{
    decide();
    view.now_ns += 2 * TIMEOUT_NS;
    decide();
}

static void the_left_out_is_tried_again_after_a_while(void **state)
{
    (void)state;
    break_links_again(2, 0);
    decide();
    run();
    settle();
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_non_null(strstr(decision.text, "a and c do not reach each other: without c"));
    assert_true(decision.wake_at_ns <= view.now_ns + TERM_NS);
    view.now_ns += TERM_NS;
    settle();
    assert_int_equal(decision.action, LEADER_PREPARE);
    assert_true(uses("c"));
}

static void a_firnd_that_is_started_anew_has_a_clean_slate(void **state)
{
    (void)state;
    break_links_again(2, 0);
    decide();
    run();
    nodes[2].incarnation++;
    settle();
    assert_int_equal(decision.action, LEADER_PREPARE);
    assert_true(uses("c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(once_the_same_nodes_are_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(missed_twice_one_end_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_host_that_says_nothing_itself_is_no_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(whoever_alone_has_state_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(where_both_ends_are_needed_they_are_tried_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(without_slots_enough_they_are_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(the_left_out_is_tried_again_after_a_while, setup, teardown),
        cmocka_unit_test_setup_teardown(a_firnd_that_is_started_anew_has_a_clean_slate, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
