/* Tests of planned changes: when the leader waits for a preparation, and when it drops the plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lib/elastic/three_nodes.h"

/*
 * The slot belongs to a donor of the plan in force; its next process was prepared in vain and has
 * left.
 */
static void test_one_that_ended_with_an_earlier_preparation_is_not_missed_in_the_next(void **state)
{
    (void)state;
    struct plan *next = plan_copy(three_plan);
    assert_non_null(next);
    next->generation = 8;
    next->layout.workers[2].instance = 0;
    three_view.next = next;
    three_plan->layout.worker_count = three_plan->layout.replica_count = 2;
    three_plan->layout.donor_count = 1;
    three_plan->layout.replica_first_lane[1] = LANES / 2;
    three_plan->layout.replica_first_lane[2] = LANES;
    three_say(0, WORKER_RUNNING, 6, 9);
    three_say(1, WORKER_RUNNING, 6, 9);
    three_say(2, WORKER_LEFT, 7, 0);
    three_reports[2].workers[0].instance = 99;
    three_decide();
    assert_int_not_equal(three_decision.action, LEADER_DROP_NEXT);
    three_say(2, WORKER_DEAD, 8, 0); /* in this preparation */
    three_decide();
    assert_int_equal(three_decision.action, LEADER_DROP_NEXT);
    three_view.next = NULL;
    plan_free(next);
}

/* A plan for fewer slots says how many were asked for: none is prepared when more are again. */
static void test_slots_that_are_allowed_again_end_a_preparation(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        three_say(i, WORKER_RUNNING, 6, 9);
    three_view.wish.devices = 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->change.asked_devices, 1);
    struct plan *next = plan_copy(three_decision.plan);
    assert_non_null(next);
    three_view.next = next;
    three_decide();
    assert_int_not_equal(three_decision.action, LEADER_DROP_NEXT);
    three_view.wish.devices = 2;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_DROP_NEXT);
    assert_non_null(strstr(three_decision.text, "something else is asked for"));
    three_view.next = NULL;
    plan_free(next);
}

/* Let another job wait for @gives of the slots while all three workers run. */
static void let_another_wait(unsigned gives)
{
    for (unsigned i = 0; i < NODES; i++)
        three_say(i, WORKER_RUNNING, 6, 9);
    three_view.queue = (struct slot_queue_place){.kept = gives, .gives = gives, .first = "late"};
}

static void test_it_gives_way_to_a_job_that_waits(void **state)
{
    (void)state;
    let_another_wait(2);
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->layout.worker_count, 1);
    assert_non_null(strstr(three_decision.plan->change.text, "job late waits for slots"));
}

static void test_it_keeps_what_it_cannot_do_without(void **state)
{
    (void)state;
    let_another_wait(2);
    three_view.wish.replicas = NODES;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.state, JOB_RUNNING);
    assert_null(strstr(three_decision.text, "waits for slots"));
    assert_non_null(strstr(three_decision.text, "keeps its 3 slots, of which job late waits for 2: "
                                                "no layout of fewer works"));
    three_view.queue = (struct slot_queue_place){.kept = 0};
    three_decide();
    assert_null(strstr(three_decision.text, "keeps"));
}

static void test_it_leaves_a_node_that_drains_before_it_gives_way(void **state)
{
    (void)state;
    let_another_wait(2);
    three_nodes[2].draining = true;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    assert_non_null(strstr(three_decision.plan->change.text, "node c drains"));
}

/* Decide with a measured step; return the expected seconds of the next plan, which the text has. */
static double expected_after(double step_seconds)
{
    char words[64];
    let_another_wait(2);
    three_view.progress.step_seconds = step_seconds;
    three_memory = (struct leader_memory){0};
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    double seconds = plan_layout_expected_seconds(&three_decision.plan->layout);
    snprintf(words, sizeof(words), "predicted step %.1f ms", seconds * 1e3);
    assert_non_null(strstr(three_decision.plan->change.text, words));
    return seconds;
}

/* The message corrects the planner's prediction by its error for the plan in force. */
static void test_a_prediction_is_calibrated_by_the_measured_step(void **state)
{
    (void)state;
    three_plan->layout.prediction_factor = 3;
    double unmeasured = expected_after(0);
    assert_true(three_decision.plan->layout.prediction_factor == 3);
    assert_true(unmeasured == 3 * three_decision.plan->layout.predicted_step_seconds);
    double once = expected_after(0.25);
    double twice = expected_after(0.5);
    assert_true(once > 0.25); /* of three slots one stays */
    assert_true(once < 3 * 0.25 + 0.01);
    assert_true(twice > 1.999 * once && twice < 2.001 * once);
    assert_non_null(strstr(three_decision.plan->change.text, ", before 500.0 ms (predicted "));
    three_plan->layout.prediction_factor = 0;
    three_view.progress.step_seconds = 0;
}

/* The pause of a switch belongs to the job: the next plan and its text have it, and later plans
 * keep it until a newer pause is measured. */
static void test_a_plan_tells_how_long_a_switch_takes(void **state)
{
    (void)state;
    let_another_wait(2);
    three_view.progress.switch_seconds = 0.481;
    three_decide();
    assert_true(three_decision.plan->change.switch_seconds == 0.481);
    assert_non_null(strstr(three_decision.plan->change.text, ", the last switch took 481 ms"));
    three_view.progress.switch_seconds = 0;
    three_plan->change.switch_seconds = 0.25;
    three_decide();
    assert_true(three_decision.plan->change.switch_seconds == 0.25);
    three_plan->change.switch_seconds = 0;
    three_decide();
    assert_null(strstr(three_decision.plan->change.text, "the last switch"));
}

/* A job without slots reports the jobs for which the free slots are reserved. */
static void test_it_names_those_before_it(void **state)
{
    (void)state;
    three_view.plan = NULL;
    three_view.spec = &three_spec;
    three_view.queue =
        (struct slot_queue_place){.before = 1, .kept_before = NODES, .first = "early"};
    three_decide();
    assert_non_null(
        strstr(three_decision.text, "3 of the next free slots are for job early, submitted"));
    three_view.queue.before = 3;
    three_decide();
    assert_non_null(
        strstr(three_decision.text, "are for job early and 2 others, submitted before"));
    three_view.plan = three_plan;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_one_that_ended_with_an_earlier_preparation_is_not_missed_in_the_next, three_setup,
            three_teardown),
        cmocka_unit_test_setup_teardown(test_slots_that_are_allowed_again_end_a_preparation,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_it_names_those_before_it, three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_it_gives_way_to_a_job_that_waits, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_a_prediction_is_calibrated_by_the_measured_step,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_a_plan_tells_how_long_a_switch_takes, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_it_keeps_what_it_cannot_do_without, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_it_leaves_a_node_that_drains_before_it_gives_way,
                                        three_setup, three_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
