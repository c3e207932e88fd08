/* Tests of workers that refuse a job, and of jobs that fail for a cause of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "lib/elastic/cluster.h"

/*
 * Expect a divergence: one worker reports it first while others hold the step and could continue;
 * with one node all workers have reported.
 */
static void expect_divergence(unsigned nodes)
{
    struct cluster *cluster = cluster_training(nodes, 2);
    struct fake_worker *worker = cluster_rank_worker(cluster, 1);
    uint64_t generation = cluster->etcd.plan->generation;

    cluster->etcd.checkpoint_step = 8;
    worker->status.cause = CAUSE_DIVERGED;
    snprintf(worker->status.text, sizeof(worker->status.text), "step 9: the loss is NaN");
    fake_say(cluster, worker, WORKER_REFUSED);
    fake_exit(cluster, worker, 1);
    cluster_until(cluster, 30, cluster->leader.over);
    assert_int_equal(cluster->leader.state, JOB_FAILED);
    assert_int_equal(cluster->etcd.plan->generation, generation + 1);
    assert_int_equal(cluster_alive(cluster), 0);
    assert_string_equal(cluster->leader.text,
                        "step 9: the loss is NaN; to go on from the checkpoint of step 8 with "
                        "other settings: firnctl job submit --from");
    cluster_free(cluster);
}

static void test_a_job_that_diverges_fails_at_once(void **state)
{
    (void)state;
    expect_divergence(3);
    expect_divergence(1);
}

/* The plan that ends a refused job is in force before any worker reports under it. */
static void test_a_refusal_outlives_the_reports_of_it(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 1, 1);
    struct plan *plan = plan_new();
    assert_non_null(plan);
    plan->generation = 2;
    plan->change.reason = PLAN_REASON_REFUSED;
    snprintf(plan->change.text, sizeof(plan->change.text), "no data");
    const struct member node = {.name = "a", .host = "127.0.0.1", .slot_count = 1};
    const struct leader_view view = {.now_ns = 1,
                                     .failure_timeout_ns = 1,
                                     .spec = &cluster->spec,
                                     .plan = plan,
                                     .nodes = &node,
                                     .node_count = 1};
    struct leader_memory memory = {0};
    struct leader_decision decision;
    struct error error = {0};
    assert_int_equal(leader_decide(&view, &memory, &decision, &error), 0);
    assert_int_equal(decision.action, LEADER_FINISH);
    assert_int_equal(decision.state, JOB_FAILED);
    assert_string_equal(decision.text, "no data");
    plan_free(plan);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_that_diverges_fails_at_once),
        cmocka_unit_test(test_a_refusal_outlives_the_reports_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
