/* What the leader does where nothing is left to go on from. */
#include "unit/elastic/three_nodes.h"

/* Nothing but step 0 is left: that is not done before somebody has said so. */
static void damaged_checkpoints_alone_ask_the_operator(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        reports[i].worker_count = 0;
    view.plan = NULL;
    view.checkpoint = (struct leader_checkpoint){.damaged_count = 2};
    snprintf(view.checkpoint.damaged, sizeof(view.checkpoint.damaged), "step 14: chunk 3 is bad");
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_null(decision.plan);
    assert_int_equal(decision.state, JOB_WAITING);
    assert_true(decision.misses_checkpoint);
    assert_non_null(strstr(decision.text, "2 damaged; step 14: chunk 3 is bad"));
    assert_non_null(strstr(decision.text, "firnctl checkpoint remove job --damaged"));

    view.checkpoint = (struct leader_checkpoint){0}; /* it was said */
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
    assert_int_equal(decision.plan->source, PLAN_SOURCE_FRESH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damaged_checkpoints_alone_ask_the_operator, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
