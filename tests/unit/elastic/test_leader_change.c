/* Planned changes: when a preparation is waited for, and when it is given up. */
#include "unit/elastic/three_nodes.h"

/* A slot of a donor of the plan in force, whose next process was prepared in vain and has left. */
static void one_that_ended_with_an_earlier_preparation_is_not_missed_in_the_next(void **state)
{
    (void)state;
    struct plan *next = plan_copy(plan);
    assert_non_null(next);
    next->generation = 8;
    next->workers[2].instance = 0;
    view.next = next;
    plan->worker_count = plan->replica_count = 2;
    plan->donor_count = 1;
    plan->replica_first_lane[1] = LANES / 2;
    plan->replica_first_lane[2] = LANES;
    say(0, WORKER_RUNNING, 6, 9);
    say(1, WORKER_RUNNING, 6, 9);
    say(2, WORKER_LEFT, 7, 0);
    reports[2].workers[0].instance = 99;
    decide();
    assert_int_not_equal(decision.action, LEADER_DROP_NEXT);
    say(2, WORKER_DEAD, 8, 0); /* in this one */
    decide();
    assert_int_equal(decision.action, LEADER_DROP_NEXT);
    view.next = NULL;
    plan_free(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            one_that_ended_with_an_earlier_preparation_is_not_missed_in_the_next, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
