/*
 * Tests of a plan that orders a commit and breaks, too: the workers that may still have to apply
 * the step.
 */
#include "elastic/job/job_spec.h"
#include "unit/elastic/three_nodes.h"

/*
 * c died before it joined, so generation 6 never began: a and b have not reported since they
 * received its plan.
 */
static void a_commit_that_was_ordered_is_never_taken_back(void **state)
{
    (void)state;
    plan->start.resume_step = 10;
    plan->start.has_commit = true;
    say(0, WORKER_STUCK, 5, 9);
    hold(0, 0, LANES);
    plan->start.commit = reports[0].workers[0].record;
    /* The remaining reports alone are no longer enough to commit step 10. */
    hold(0, 0, 2);
    say(1, WORKER_STUCK, 5, 9);
    hold(1, 2, 4);
    say(2, WORKER_DEAD, 5, 0);
    decide();
    expect_published(10, 10); /* at once, and again for workers that have not applied it */
}

/* Make plan 6 order the commit of step 10. */
static void order_commit(void)
{
    plan->start.resume_step = 10;
    plan->start.has_commit = true;
    step_record_init(&plan->start.commit, 10, job_model_unit_count(&spec.model), LANES);
}

/* All remaining workers have applied the step: the next plan does not repeat the order. */
static void a_commit_that_all_have_obeyed_is_not_ordered_again(void **state)
{
    (void)state;
    order_commit();
    say(0, WORKER_STUCK, 6, 10);
    say(1, WORKER_STUCK, 6, 10);
    say(2, WORKER_DEAD, 6, 0);
    decide();
    expect_published(10, 0);
}

/*
 * a may still have to apply step 10, but b has continued to 12 with c, and a's state at 10 is
 * useless.
 */
static void a_commit_that_the_others_have_left_behind_is_not_ordered_again(void **state)
{
    (void)state;
    order_commit();
    view.progress_step = 12;
    say(0, WORKER_STUCK, 5, 9);
    hold(0, 0, LANES);
    say(1, WORKER_STUCK, 6, 12);
    say(2, WORKER_DEAD, 6, 0);
    decide();
    view.now_ns += 10 * TIMEOUT_NS;
    decide();
    expect_published(12, 0);
}

/*
 * Node b is cut off from etcd, so its report is of the generation before. Node c has a new firnd,
 * which found no process of the donor there. The plan trains all the same: it has committed.
 */
static void a_plan_that_has_committed_does_not_fail_for_a_donor(void **state)
{
    (void)state;
    plan->change.planned = true;
    plan->follows = 5;
    plan->layout.replica_count = plan->layout.worker_count = 2;
    plan->layout.replica_first_lane[2] = LANES;
    plan->layout.donor_count = 1;
    say(0, WORKER_RUNNING, 6, 9);
    say(1, WORKER_RUNNING, 5, 0);
    say(2, WORKER_DEAD, 5, 0);
    view.node_count = 3;
    view.progress_generation = 6;
    decide();
    assert_int_not_equal(decision.state, JOB_RECOVERING);
    view.progress_generation = 5;
    view.checkpoint.generation = 6;
    decide();
    assert_int_not_equal(decision.state, JOB_RECOVERING);
    view.checkpoint.generation = 5; /* no sign of a commit: the donor may be needed */
    decide();
    assert_int_equal(decision.state, JOB_RECOVERING);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_commit_that_was_ordered_is_never_taken_back),
        TEST(a_commit_that_all_have_obeyed_is_not_ordered_again),
        TEST(a_commit_that_the_others_have_left_behind_is_not_ordered_again),
        TEST(a_plan_that_has_committed_does_not_fail_for_a_donor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
