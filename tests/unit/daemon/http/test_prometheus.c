/*
 * Tests of a node's metrics for Prometheus: slots by state, a job's numbers only on the node of
 * rank 0, and no unknown values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/core/daemon.h"
#include "daemon/http/prometheus.h"
#include "daemon/jobs/job.h"
#include "lib/elastic/sample_plan.h"

struct node {
    struct config config;
    struct daemon daemon;
    struct job job;
    struct worker_report statuses[REPORT_WORKERS_MAX];
    struct bytes body;
};

/* Node node0 of three slots: rank 0 on slot 0, rank 1 on slot 1; slot 2 is out of service. */
static int begin(void **state)
{
    static char some_process; /* the page only tests it for NULL */
    struct node *node = calloc(1, sizeof(*node));
    assert_non_null(node);
    strcpy(node->config.cluster, "c");
    strcpy(node->config.node, "node0");
    node->daemon.config = &node->config;
    node->daemon.node.registered = true;
    node->daemon.node.self.slot_count = 3;
    strcpy(node->daemon.node.self.slots[2].bad, "dies at every start");
    strcpy(node->job.name, "demo");
    node->job.daemon = &node->daemon;
    node->job.workers.statuses = node->statuses;
    node->job.plans.plan = sample_plan();
    node->job.spec.train.steps = 500;
    for (unsigned slot = 0; slot < 2; slot++) {
        node->job.workers.processes[slot] = (struct worker_process *)(void *)&some_process;
        node->job.workers.progress[slot] = (struct control_progress){.step = 42,
                                                                     .loss = 2.5,
                                                                     .grad_norm = 0.1,
                                                                     .validation_loss = NAN,
                                                                     .step_seconds = 0.25,
                                                                     .compute_seconds = 0.125,
                                                                     .memory_bytes = 3ull << 30};
    }
    node->daemon.jobs = &node->job;
    *state = node;
    return 0;
}

static int end(void **state)
{
    struct node *node = *state;
    plan_free(node->job.plans.plan);
    bytes_done(&node->body);
    free(node);
    return 0;
}

static const char *page_of(struct node *node)
{
    bytes_done(&node->body);
    node->body = (struct bytes){0};
    assert_int_equal(prometheus_append(&node->daemon, &node->body), 0);
    assert_int_equal(bytes_append(&node->body, "", 1), 0);
    return (const char *)node->body.data;
}

static void assert_has(const char *page, const char *line)
{
    if (!strstr(page, line))
        fail_msg("%s is not in\n%s", line, page);
}

static void assert_lacks(const char *page, const char *part)
{
    if (strstr(page, part))
        fail_msg("%s is in\n%s", part, page);
}

static void test_numbers_of_a_node_with_rank_zero(void **state)
{
    const char *page = page_of(*state);
    assert_has(page, "\nfirn_node_registered 1\n");
    assert_has(page, "\nfirn_node_leads 0\n");
    assert_has(page, "\nfirn_slots{state=\"free\"} 0\n");
    assert_has(page, "\nfirn_slots{state=\"busy\"} 2\n");
    assert_has(page, "\nfirn_slots{state=\"out_of_service\"} 1\n");
    assert_has(page, "\nfirn_job_generation{job=\"demo\"} 7\n");
    assert_has(page, "\nfirn_job_step{job=\"demo\"} 42\n");
    assert_has(page, "\nfirn_job_steps{job=\"demo\"} 500\n");
    assert_has(page, "\nfirn_job_loss{job=\"demo\"} 2.5\n");
    assert_has(page, "\nfirn_job_gradient_norm{job=\"demo\"} 0.1\n");
    assert_has(page, "\nfirn_job_workers{job=\"demo\"} 6\n");
    assert_has(page, "\nfirn_worker_compute_seconds{job=\"demo\",slot=\"1\"} 0.125\n");
    assert_has(page, "\nfirn_worker_memory_bytes{job=\"demo\",slot=\"1\"} 3221225472\n");
    assert_lacks(page, "firn_job_validation_loss{"); /* not measured yet */
    assert_lacks(page, "slot=\"2\"");
    assert_lacks(page, "nan");
}

static void test_other_nodes_tell_only_of_themselves(void **state)
{
    struct node *node = *state;
    strcpy(node->config.node, "node1");
    const char *page = page_of(node);
    assert_lacks(page, "firn_job_loss{");
    assert_lacks(page, "firn_job_step{");
    assert_has(page, "\nfirn_job_generation{job=\"demo\"} 7\n");
    assert_has(page, "\nfirn_worker_step{job=\"demo\",slot=\"0\"} 42\n");
}

static void test_alarms_and_drains(void **state)
{
    struct node *node = *state;
    assert_has(page_of(node), "\nfirn_job_alarm{job=\"demo\"} 0\n");
    assert_has(page_of(node), "\nfirn_node_draining 0\n");
    char event[RECORD_TEXT_SIZE];
    assert_true(slot_alarms_set(&node->job.workers.alarms, 0, "no space left", event));
    node->daemon.node.self.draining = true;
    node->daemon.keys.away = true;
    assert_has(page_of(node), "\nfirn_job_alarm{job=\"demo\"} 1\n");
    node->daemon.loop.turns =
        (struct loop_turns){.longest_ns = 125000000, .longest_busy_ns = 62500000, .slow_count = 3};
    assert_has(page_of(node), "\nfirn_loop_longest_turn_seconds 0.125\n");
    assert_has(page_of(node), "\nfirn_loop_longest_busy_turn_seconds 0.0625\n");
    assert_has(page_of(node), "\nfirn_loop_slow_turns 3\n");
    assert_has(page_of(node), "\nfirn_node_draining 1\n");
    assert_has(page_of(node), "\nfirn_etcd_reachable 0\n");
}

/* A job is reported as held only under the plan for which it was held. */
static void test_a_job_that_is_held(void **state)
{
    struct node *node = *state;
    assert_has(page_of(node), "\nfirn_job_held{job=\"demo\"} 0\n");
    node->job.fence.standing = JOB_HELD;
    node->job.fence.generation = node->job.plans.plan->generation;
    assert_has(page_of(node), "\nfirn_job_held{job=\"demo\"} 1\n");
    node->job.plans.plan->generation++;
    assert_has(page_of(node), "\nfirn_job_held{job=\"demo\"} 0\n");
}

/* Each family is declared once, with its help and type before its samples. */
static void test_every_sample_follows_its_family(void **state)
{
    char *page = strdup(page_of(*state)), *rest = page, family[64] = "";
    assert_non_null(page);
    for (char *line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n")) {
        if (line[0] == '#') {
            char name[64];
            assert_int_equal(sscanf(line, "# %*s %63s", name), 1);
            snprintf(family, sizeof(family), "%s", name);
        } else {
            assert_int_equal(strncmp(line, family, strlen(family)), 0);
            assert_non_null(strchr("{ ", line[strlen(family)]));
        }
    }
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_numbers_of_a_node_with_rank_zero, begin, end),
        cmocka_unit_test_setup_teardown(test_other_nodes_tell_only_of_themselves, begin, end),
        cmocka_unit_test_setup_teardown(test_alarms_and_drains, begin, end),
        cmocka_unit_test_setup_teardown(test_a_job_that_is_held, begin, end),
        cmocka_unit_test_setup_teardown(test_every_sample_follows_its_family, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
