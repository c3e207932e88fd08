/* Tests of planned changes: when the leader waits for a preparation, and when it drops the plan. */
#include "unit/elastic/three_nodes.h"

/*
 * The slot belongs to a donor of the plan in force; its next process was prepared in vain and has
 * left.
 */
static void one_that_ended_with_an_earlier_preparation_is_not_missed_in_the_next(void **state)
{
    (void)state;
    struct plan *next = plan_copy(plan);
    assert_non_null(next);
    next->generation = 8;
    next->layout.workers[2].instance = 0;
    view.next = next;
    plan->layout.worker_count = plan->layout.replica_count = 2;
    plan->layout.donor_count = 1;
    plan->layout.replica_first_lane[1] = LANES / 2;
    plan->layout.replica_first_lane[2] = LANES;
    say(0, WORKER_RUNNING, 6, 9);
    say(1, WORKER_RUNNING, 6, 9);
    say(2, WORKER_LEFT, 7, 0);
    reports[2].workers[0].instance = 99;
    decide();
    assert_int_not_equal(decision.action, LEADER_DROP_NEXT);
    say(2, WORKER_DEAD, 8, 0); /* in this preparation */
    decide();
    assert_int_equal(decision.action, LEADER_DROP_NEXT);
    view.next = NULL;
    plan_free(next);
}

/* Let another job wait for @gives of the slots while all three workers run. */
static void let_another_wait(unsigned gives)
{
    for (unsigned i = 0; i < NODES; i++)
        say(i, WORKER_RUNNING, 6, 9);
    view.queue = (struct slot_queue_place){.kept = gives, .gives = gives, .first = "late"};
}

static void it_gives_way_to_a_job_that_waits(void **state)
{
    (void)state;
    let_another_wait(2);
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
    assert_int_equal(decision.plan->layout.worker_count, 1);
    assert_non_null(strstr(decision.plan->change.text, "job late waits for slots"));
}

static void it_keeps_what_it_cannot_do_without(void **state)
{
    (void)state;
    let_another_wait(2);
    view.replicas_wanted = NODES;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_int_equal(decision.state, JOB_RUNNING);
    assert_null(strstr(decision.text, "waits for slots"));
    assert_non_null(strstr(decision.text, "keeps its 3 slots, of which job late waits for 2: "
                                          "no layout of fewer works"));
    view.queue = (struct slot_queue_place){.kept = 0};
    decide();
    assert_null(strstr(decision.text, "keeps"));
}

static void it_leaves_a_node_that_drains_before_it_gives_way(void **state)
{
    (void)state;
    let_another_wait(2);
    nodes[2].draining = true;
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
    assert_int_equal(decision.plan->layout.worker_count, 2);
    assert_non_null(strstr(decision.plan->change.text, "node c drains"));
}

/* A job without slots reports the jobs for which the free slots are reserved. */
static void it_names_those_before_it(void **state)
{
    (void)state;
    view.plan = NULL;
    view.spec = &spec;
    view.queue = (struct slot_queue_place){.before = 1, .kept_before = NODES, .first = "early"};
    decide();
    assert_non_null(strstr(decision.text, "3 of the next free slots are for job early, submitted"));
    view.queue.before = 3;
    decide();
    assert_non_null(strstr(decision.text, "are for job early and 2 others, submitted before"));
    view.plan = plan;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            one_that_ended_with_an_earlier_preparation_is_not_missed_in_the_next, setup, teardown),
        cmocka_unit_test_setup_teardown(it_names_those_before_it, setup, teardown),
        cmocka_unit_test_setup_teardown(it_gives_way_to_a_job_that_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(it_keeps_what_it_cannot_do_without, setup, teardown),
        cmocka_unit_test_setup_teardown(it_leaves_a_node_that_drains_before_it_gives_way, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
