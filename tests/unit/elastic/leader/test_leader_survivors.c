/*
 * Tests of the state that the leader counts as alive when workers were on their way into a plan
 * that broke (leader_survivors.h). One stage and three replicas on nodes a, b and c, generation 6
 * in force.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/elastic/three_nodes.h"

static void test_gradients_that_were_thrown_away_do_not_count(void **state)
{
    (void)state;
    /*
     * Generation 6 replays step 10. Together a and b could complete step 10 if they still had its
     * gradients.
     */
    three_say(0, WORKER_STUCK, 5, 9);
    three_hold(0, 0, 3);
    three_say(1, WORKER_STUCK, 5, 9);
    three_hold(1, 3, LANES);
    three_say(2, WORKER_DEAD, 5, 0);
    three_decide();
    three_expect_published(9, 0);
}

static void expect_checkpoint(void)
{
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(three_decision.plan->start.resume_step, 4);
}

/*
 * Generation 6 continued from step 10, which only b and c had, and a begins again there: a drops
 * its older state when it receives plan 6. Now b and c are dead, and a's only report is from before
 * it received the plan.
 */
static void test_state_that_the_plan_lets_go_does_not_count(void **state)
{
    (void)state;
    three_plan->start.resume_step = 10;
    three_plan->layout.workers[0].instance = 0;
    three_say(0, WORKER_STUCK, 5, 9);
    three_say(1, WORKER_DEAD, 5, 0);
    three_say(2, WORKER_DEAD, 5, 0);
    three_decide();
    assert_int_equal(three_decision.action,
                     LEADER_NOTHING); /* a may have the plan, and step 10 from b */
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    expect_checkpoint();
    three_plan->start.resume_step = 9; /* state at the plan's own step is kept */
    three_decide();
    three_expect_published(9, 0);
}

/*
 * The worker has no rank in generation 6, which continues from another step, or is the second
 * generation without it: the worker exits.
 */
static void test_state_of_one_that_is_sent_away_does_not_count(void **state)
{
    (void)state;
    memcpy(three_plan->layout.workers[0].node, "z", 2);
    three_plan->follows = 5;
    three_plan->start.resume_step = 10;
    three_say(0, WORKER_STUCK, 5, 9);
    three_say(1, WORKER_DEAD, 5, 0);
    three_say(2, WORKER_DEAD, 5, 0);
    three_decide();
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    expect_checkpoint();
    three_plan->start.resume_step = 9;
    three_say(0, WORKER_STUCK, 4, 9);
    three_decide();
    expect_checkpoint();
}

/*
 * The worker steps aside at the resume step of generation 6, and all others die before that
 * generation has begun.
 */
static void test_state_of_one_that_steps_aside_counts(void **state)
{
    (void)state;
    memcpy(three_plan->layout.workers[0].node, "z", 2);
    three_plan->follows = 5;
    three_plan->start.resume_step = 9;
    three_say(0, WORKER_STUCK, 5, 9); /* ordered, but has not reported it yet */
    three_say(1, WORKER_DEAD, 5, 0);
    three_say(2, WORKER_DEAD, 5, 0);
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    three_expect_published(9, 0);
    three_say(0, WORKER_STUCK, 6, 9);
    three_reports[0].workers[0].cause = CAUSE_LEFT_OUT;
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->layout.workers[0].instance, 10);
}

/*
 * Generation 6 reads the checkpoint of step 4. a and c have read it and wait for b, which is dead:
 * while the checkpoint is there, all nodes begin from it again. After a dispute the state that they
 * have may be from before it.
 */
static void test_state_that_was_read_for_a_plan_counts(void **state)
{
    (void)state;
    three_plan->start.source = PLAN_SOURCE_CHECKPOINT;
    three_plan->start.resume_step = 4;
    three_say(0, WORKER_PREPARED, 6, 4);
    three_say(1, WORKER_DEAD, 5, 0);
    three_say(2, WORKER_PREPARED, 6, 4);
    three_decide();
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    expect_checkpoint();
    three_view.checkpoint.step = 2;
    three_decide();
    three_expect_published(4, 0);
    three_plan->start.disputed = true;
    three_decide();
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(three_decision.plan->start.resume_step, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, three_setup, three_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_gradients_that_were_thrown_away_do_not_count),
        TEST(test_state_that_the_plan_lets_go_does_not_count),
        TEST(test_state_of_one_that_is_sent_away_does_not_count),
        TEST(test_state_of_one_that_steps_aside_counts),
        TEST(test_state_that_was_read_for_a_plan_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
