/* Tests of the nodes that give each other kept outputs of frozen layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "elastic/copies/output_hosts.h"
#include "lib/elastic/three_nodes.h"

static int set_up(void **state)
{
    if (three_setup(state))
        return -1;
    for (unsigned i = 0; i < NODES; i++)
        snprintf(three_nodes[i].http, sizeof(three_nodes[i].http), "10.0.0.%u:7400", i);
    three_spec.elastic.freeze = (struct job_freezing){.policy = JOB_FREEZE_SCHEDULE, .cache_mb = 1};
    return 0;
}

static int name_nodes(void)
{
    return output_hosts_fill(three_plan, &three_spec.elastic.freeze, three_nodes, NODES);
}

static void test_all_nodes_of_the_layout_are_named(void **state)
{
    (void)state;
    assert_int_equal(name_nodes(), 0);
    assert_int_equal(three_plan->hosts.count, NODES);
    assert_string_equal(three_plan->hosts.list[2].node, "c");
    assert_string_equal(three_plan->hosts.list[2].http, "10.0.0.2:7400");
}

static void test_a_donor_and_one_without_an_address_are_not(void **state)
{
    (void)state;
    three_plan->layout.worker_count = 2; /* c hands over and leaves */
    three_plan->layout.donor_count = 1;
    assert_int_equal(name_nodes(), 0);
    assert_int_equal(three_plan->hosts.count, 2);
    free(three_plan->hosts.list);
    three_plan->hosts = (struct plan_hosts){0};
    three_nodes[0].http[0] = '\0'; /* b would have nobody to ask */
    assert_int_equal(name_nodes(), 0);
    assert_int_equal(three_plan->hosts.count, 0);
}

static void test_only_jobs_that_keep_outputs_name_them(void **state)
{
    struct job_freezing *freezing = &three_spec.elastic.freeze;
    (void)state;
    freezing->cache_mb = 0;
    assert_int_equal(name_nodes(), 0);
    freezing->cache_mb = 1;
    freezing->policy = JOB_FREEZE_NONE;
    assert_int_equal(name_nodes(), 0);
    assert_int_equal(three_plan->hosts.count, 0);
    freezing->from_start = 2;
    assert_int_equal(name_nodes(), 0);
    assert_int_equal(three_plan->hosts.count, NODES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_nodes_of_the_layout_are_named, set_up,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_a_donor_and_one_without_an_address_are_not, set_up,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_only_jobs_that_keep_outputs_name_them, set_up,
                                        three_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
