/*
 * Tests of layouts that turn out slower than those before them. One job on nodes a, b and c, three
 * replicas in generation 6, with one of its layers frozen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "elastic/job/job_spec.h"
#include "lib/elastic/three_nodes.h"

static int setup(void **state)
{
    if (three_setup(state))
        return -1;
    three_spec.elastic.devices_max = LANES;
    three_plan->change.reason = PLAN_REASON_FREEZE;
    three_plan->layout.frozen_layers = three_view.progress.frozen_layers = 1;
    three_plan->trial.before = (struct plan_shape){3, 1};
    three_plan->trial.before_seconds = 0.1;
    three_view.progress.generation = 6;
    for (unsigned i = 0; i < NODES; i++)
        three_say(i, WORKER_RUNNING, 6, 9);
    return 0;
}

/* Report @count more steps of @seconds each. */
static void take(unsigned count, double seconds)
{
    for (unsigned i = 0; i < count; i++) {
        three_view.progress.step++;
        three_view.progress.step_seconds = seconds;
        three_decide();
    }
}

static void expect_shape(unsigned stages, unsigned replicas)
{
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->layout.stage_count, stages);
    assert_int_equal(three_decision.plan->layout.replica_count, replicas);
}

static void test_a_slower_layout_is_given_up(void **state)
{
    (void)state;
    take(4, 0.2);
    assert_int_equal(three_decision.action, LEADER_NOTHING); /* its first steps may be slow */
    take(1, 0.2);
    expect_shape(3, 1);
    assert_true(three_decision.plan->change.planned);
    assert_int_equal(three_decision.plan->change.reason, PLAN_REASON_FREEZE);
    assert_non_null(strstr(three_decision.plan->change.text,
                           "steps take 200.0 ms, longer than the 100.0 ms of 3 stages x 1 replica: "
                           "1 stage x 3 replicas -> 3 x 1"));
    const struct plan_trial *trial = &three_decision.plan->trial;
    assert_int_equal(trial->before.stages, 0);
    assert_true(plan_shape_is(&trial->slower, 1, 3));
    assert_int_equal(trial->slower_frozen, 1);
}

/* Another job has its slots by now: changes continue as usual. */
static void test_one_that_no_longer_fits_is_not_gone_back_to(void **state)
{
    (void)state;
    three_plan->trial.before = (struct plan_shape){3, 3}; /* of slots that have left */
    take(20, 0.2);
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_null(strstr(three_decision.text, "waits for slots"));
    three_nodes[1].slot_count = 4; /* those that join are used */
    for (unsigned slot = 1; slot < 4; slot++)
        three_nodes[1].slots[slot] = (struct member_slot){.index = slot, .speed = 1};
    take(1, 0.2);
    three_view.now_ns += TIMEOUT_NS;
    take(1, 0.2);
    assert_int_equal(three_decision.action, LEADER_PREPARE);
    assert_int_equal(three_decision.plan->layout.worker_count, LANES);
}

static void test_a_faster_layout_stays(void **state)
{
    (void)state;
    take(20, 0.104); /* as fast, as far as one can say */
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    take(7, 0.2); /* a while */
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

/* The steps that it is compared with trained less. */
static void test_a_layout_is_not_judged_after_layers_thaw(void **state)
{
    (void)state;
    three_view.progress.frozen_layers = 0;
    take(20, 0.2);
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

static void test_a_shape_that_the_user_asks_for_is_not_judged(void **state)
{
    (void)state;
    three_view.wish.replicas = NODES;
    take(20, 0.2);
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

/* Put the answer to the failed trial into force. */
static void go_back(void)
{
    take(5, 0.2);
    expect_shape(3, 1);
    struct plan *plan = plan_copy(three_decision.plan);
    assert_non_null(plan);
    plan_free(three_plan);
    three_plan = plan;
    three_view.plan = plan;
    three_view.progress.generation = plan->generation;
    for (unsigned i = 0; i < NODES; i++) {
        int rank = plan_layout_find(&plan->layout, three_nodes[i].name, 0);
        assert_true(rank >= 0);
        three_reports[i].generation = plan->generation;
        three_reports[i].workers[0].instance = plan->layout.workers[rank].instance;
        three_say(i, WORKER_RUNNING, plan->generation, 14);
    }
}

static void test_it_is_not_tried_again_until_more_is_frozen(void **state)
{
    (void)state;
    go_back();
    take(20, 0.2);
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.progress.frozen_layers = 2;
    take(1, 0.2);
    expect_shape(1, 3);
    const struct plan_trial *trial = &three_decision.plan->trial;
    assert_true(plan_shape_is(&trial->before, 3, 1));
    assert_true(trial->before_seconds == 0.2);
}

/* The failure leaves it two slots: another situation, but not another layout that is too slow. */
static void test_what_was_slower_is_known_after_a_failure(void **state)
{
    (void)state;
    go_back();
    three_say(0, WORKER_STUCK, three_plan->generation, 14);
    three_say(1, WORKER_STUCK, three_plan->generation, 14);
    three_say(2, WORKER_STUCK, three_plan->generation, 14);
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_true(plan_shape_is(&three_decision.plan->trial.slower, 1, 3));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, three_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_slower_layout_is_given_up),
        TEST(test_one_that_no_longer_fits_is_not_gone_back_to),
        TEST(test_a_faster_layout_stays),
        TEST(test_a_layout_is_not_judged_after_layers_thaw),
        TEST(test_a_shape_that_the_user_asks_for_is_not_judged),
        TEST(test_it_is_not_tried_again_until_more_is_frozen),
        TEST(test_what_was_slower_is_known_after_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
