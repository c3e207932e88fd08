/* Tests of jobs that fail by their own fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "lib/elastic/three_nodes.h"

/* The plan that ends a refused job is in force before any worker reports under it. */
static void test_a_refusal_outlives_the_reports_of_it(void **state)
{
    (void)state;
    struct plan *plan = plan_new();
    assert_non_null(plan);
    plan->generation = 7;
    plan->change.reason = PLAN_REASON_REFUSED;
    snprintf(plan->change.text, sizeof(plan->change.text), "no data");
    three_view.plan = plan;
    three_view.report_count = 0;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_FINISH);
    assert_int_equal(three_decision.state, JOB_FAILED);
    assert_string_equal(three_decision.text, "no data");
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_refusal_outlives_the_reports_of_it, three_setup,
                                        three_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
