/*
 * Tests of recovery if steps may have been committed: workers that may still have to apply a step,
 * and workers that have applied more steps than the others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "elastic/job/job_spec.h"
#include "lib/elastic/three_nodes.h"

/*
 * c died before it joined, so generation 6 never began: a and b have not reported since they
 * received its plan.
 */
static void test_a_commit_that_was_ordered_is_never_taken_back(void **state)
{
    (void)state;
    three_plan->start.resume_step = 10;
    three_plan->start.has_commit = true;
    three_say(0, WORKER_STUCK, 5, 9);
    three_hold(0, 0, LANES);
    three_plan->start.commit = three_reports[0].workers[0].record;
    /* The remaining reports alone are no longer enough to commit step 10. */
    three_hold(0, 0, 2);
    three_say(1, WORKER_STUCK, 5, 9);
    three_hold(1, 2, 4);
    three_say(2, WORKER_DEAD, 5, 0);
    three_decide();
    three_expect_published(10, 10); /* at once, and again for workers that have not applied it */
}

/* Make plan 6 order the commit of step 10. */
static void order_commit(void)
{
    three_plan->start.resume_step = 10;
    three_plan->start.has_commit = true;
    step_record_init(&three_plan->start.commit, 10, job_model_unit_count(&three_spec.model), LANES);
}

/* All remaining workers have applied the step: the next plan does not repeat the order. */
static void test_a_commit_that_all_have_obeyed_is_not_ordered_again(void **state)
{
    (void)state;
    order_commit();
    three_say(0, WORKER_STUCK, 6, 10);
    three_say(1, WORKER_STUCK, 6, 10);
    three_say(2, WORKER_DEAD, 6, 0);
    three_decide();
    three_expect_published(10, 0);
}

/*
 * a may still have to apply step 10, but b has continued to 12 with c, and a's state at 10 is
 * useless.
 */
static void test_a_commit_that_the_others_have_left_behind_is_not_ordered_again(void **state)
{
    (void)state;
    order_commit();
    three_view.progress.step = 12;
    three_say(0, WORKER_STUCK, 5, 9);
    three_hold(0, 0, LANES);
    three_say(1, WORKER_STUCK, 6, 12);
    three_say(2, WORKER_DEAD, 6, 0);
    three_decide();
    three_view.now_ns += 10 * TIMEOUT_NS;
    three_decide();
    three_expect_published(12, 0);
}

/*
 * Node b is cut off from etcd, so its report is of the generation before. Node c has a new firnd,
 * which found no process of the donor there. The plan trains all the same: it has committed.
 */
static void test_a_plan_that_has_committed_does_not_fail_for_a_donor(void **state)
{
    (void)state;
    three_train_on_two(true);
    three_plan->follows = 5;
    three_say(0, WORKER_RUNNING, 6, 9);
    three_say(1, WORKER_RUNNING, 5, 0);
    three_say(2, WORKER_DEAD, 5, 0);
    three_view.node_count = 3;
    three_view.progress.generation = 6;
    three_decide();
    assert_int_not_equal(three_decision.state, JOB_RECOVERING);
    three_view.progress.generation = 5;
    three_view.checkpoint.generation = 6;
    three_decide();
    assert_int_not_equal(three_decision.state, JOB_RECOVERING);
    three_view.checkpoint.generation = 5; /* no sign of a commit: the donor may be needed */
    three_decide();
    assert_int_equal(three_decision.state, JOB_RECOVERING);
}

/* All reports of the generation that broke are valid: the step stands. */
static void test_gradients_of_the_generation_that_broke_do_count(void **state)
{
    (void)state;
    three_say(0, WORKER_STUCK, 6, 9);
    three_hold(0, 0, 3);
    three_say(1, WORKER_STUCK, 6, 9);
    three_hold(1, 3, LANES);
    three_say(2, WORKER_DEAD, 6, 0);
    three_decide();
    three_expect_published(10, 10);
}

/* Generation 6 has committed steps 10 to 12 on a and b, whose nodes are away for a moment. c was
 * left out, and kept step 9 aside. */
static void test_those_with_later_steps_are_waited_for(void **state)
{
    (void)state;
    three_train_on_two(false);
    three_plan->follows = 5;
    three_plan->change.planned = false;
    three_plan->start.resume_step = 9;
    three_view.progress.generation = 6;
    three_view.progress.step = 12;
    three_say(0, WORKER_DEAD, 6, 0);
    three_say(1, WORKER_STUCK, 5, 9);
    three_reports[1].generation = 5; /* its last report is older */
    three_say(2, WORKER_STUCK, 6, 9);
    three_reports[2].workers[0].cause = CAUSE_LEFT_OUT;
    three_decide();
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_say(1, WORKER_STUCK, 6, 12);
    three_reports[1].generation = 6;
    three_decide();
    three_expect_published(12, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, three_setup, three_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_commit_that_was_ordered_is_never_taken_back),
        TEST(test_a_commit_that_all_have_obeyed_is_not_ordered_again),
        TEST(test_a_commit_that_the_others_have_left_behind_is_not_ordered_again),
        TEST(test_a_plan_that_has_committed_does_not_fail_for_a_donor),
        TEST(test_gradients_of_the_generation_that_broke_do_count),
        TEST(test_those_with_later_steps_are_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
