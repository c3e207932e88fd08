/*
 * Tests of nodes of different kinds in one cluster, mainly during an upgrade node by node: the
 * nodes that may share a job, the time when a job moves over, and that the move loses no step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "elastic/leader/leader_internal.h"
#include "lib/elastic/cluster.h"

static struct cluster *start(unsigned nodes, unsigned slots)
{
    struct cluster *cluster = cluster_new(1, nodes, slots);
    cluster_progress(cluster, 5, 20);
    assert_int_equal(cluster->etcd.plan->links.protocol, 2);
    assert_int_equal(cluster->etcd.plan->layout.worker_count, nodes * slots);
    return cluster;
}

/* Upgrade a node as an operator does: new programs and a new firnd; its workers train on. */
static void upgrade(struct cluster *cluster, unsigned index)
{
    cluster_stop_daemon(cluster, index);
    cluster->nodes[index].protocol.links = 3;
    cluster_start_daemon(cluster, index);
}

static void expect_words(const struct cluster *cluster, const char *words)
{
    if (!strstr(cluster->leader.text, words))
        fail_msg("\"%s\" does not say \"%s\"", cluster->leader.text, words);
}

/* The old workers train on until the last node is upgraded, then they make room. */
static void test_a_job_moves_over_when_all_nodes_are_upgraded(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 2);
    for (unsigned i = 0; i < 2; i++) {
        upgrade(cluster, i);
        cluster_progress(cluster, 10, 10);
        assert_int_equal(cluster->events.published, 1);
    }
    expect_words(cluster, "starts workers of link protocol 3, this job's speak 2");
    uint64_t committed = cluster->committed_ever;
    upgrade(cluster, 2);
    cluster_until(cluster, 5, cluster->etcd.plan->change.reason == PLAN_REASON_UPGRADE);
    assert_true(cluster->etcd.plan->change.planned);
    cluster_until(cluster, 20, cluster->etcd.plan->links.protocol == 3 && cluster_trains(cluster));
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 6);
    assert_int_equal(cluster->etcd.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(cluster->etcd.plan->start.resume_step, cluster->etcd.checkpoint_step);
    assert_true(cluster->etcd.plan->start.resume_step >=
                committed); /* the step of the boundary at which the worker left */
    assert_int_equal(cluster->events.restarts_from_disk, 0);
    cluster_progress(cluster, 5, 10);
    assert_int_equal(cluster->events.published, 3);
    cluster_free(cluster);
}

/* The slot joins the job only when the job moves over; the other workers continue without it. */
static void test_a_worker_lost_on_an_upgraded_node_has_no_successor(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 1);
    upgrade(cluster, 0);
    cluster_progress(cluster, 5, 10);
    cluster_kill_worker(cluster, fake_at(cluster, "a", 0));
    cluster_until(cluster, 10, cluster->etcd.plan->generation > 1);
    cluster_progress(cluster, 30, 20);
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 2);
    assert_int_equal(cluster->etcd.plan->links.protocol, 2);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "a", 0), -1);
    assert_int_equal(cluster->events.restarts_from_disk, 0);
    upgrade(cluster, 1);
    upgrade(cluster, 2);
    cluster_until(cluster, 20, cluster->etcd.plan->links.protocol == 3 && cluster_trains(cluster));
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 3);
    cluster_free(cluster);
}

/* No node can use the surviving state: the leader does not wait for workers that no node starts. */
static void test_after_a_failure_that_old_workers_cannot_make_up_for(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 1);
    cluster->spec.elastic.devices_min = 3;
    cluster_progress(cluster, 50, 20); /* past a checkpoint */
    upgrade(cluster, 0);
    cluster_kill_worker(cluster, fake_at(cluster, "a", 0));
    cluster_run(cluster, 10);
    assert_int_equal(cluster->leader.state, JOB_RECOVERING);
    expect_words(cluster, "wants at least 3, 2 are free (node a starts workers of link protocol 3");
    upgrade(cluster, 1);
    upgrade(cluster, 2);
    cluster_until(cluster, 20, cluster->etcd.plan->links.protocol == 3 && cluster_trains(cluster));
    assert_int_equal(cluster->events.reasons[PLAN_REASON_UPGRADE], 1);
    assert_int_equal(cluster->etcd.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    cluster_progress(cluster, 5, 10);
    cluster_free(cluster);
}

/*
 * An operator drained the last old node for good, or its slot is out of service: the node starts
 * nothing.
 */
static void test_old_slots_that_do_not_serve_are_not_waited_for(void **state)
{
    (void)state;
    for (unsigned drains = 0; drains < 2; drains++) {
        struct cluster *cluster = start(3, 1);
        cluster->spec.elastic.devices_min = 2;
        cluster_progress(cluster, 50, 20); /* past a checkpoint */
        upgrade(cluster, 0);
        upgrade(cluster, 1);
        cluster->nodes[2].draining = drains;
        cluster->nodes[2].slot_bad[0] = !drains;
        cluster_kill_worker(cluster, fake_at(cluster, "a", 0));
        cluster_kill_worker(cluster, fake_at(cluster, "b", 0));
        cluster_until(cluster, 20,
                      cluster->etcd.plan->links.protocol == 3 && cluster_trains(cluster));
        assert_int_equal(cluster->etcd.plan->layout.worker_count, 2);
        cluster_free(cluster);
    }
}

/* A node whose firnd is away for longer than its lease is first left out of the plan, as always. */
static void test_a_node_that_is_gone_does_not_hold_up_the_others(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 1);
    upgrade(cluster, 0);
    upgrade(cluster, 1);
    cluster_stop_daemon(cluster, 2);
    cluster_until(cluster, 30, cluster->etcd.plan->layout.worker_count == 2);
    assert_int_equal(cluster->etcd.plan->change.reason, PLAN_REASON_DRAIN);
    assert_int_equal(cluster->etcd.plan->start.source, PLAN_SOURCE_MEMORY);
    cluster_until(cluster, 30, cluster->etcd.plan->links.protocol == 3 && cluster_trains(cluster));
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 2);
    cluster->nodes[2].protocol.links = 3;
    cluster_start_daemon(cluster, 2);
    cluster_until(cluster, 20,
                  cluster->etcd.plan->layout.worker_count == 3 && cluster_trains(cluster));
    assert_int_equal(cluster->events.restarts_from_disk, 0);
    cluster_free(cluster);
}

/* A job does not move to a kind with too few slots. */
static void test_too_few_new_slots_are_not_moved_to(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 1);
    cluster->spec.elastic.devices_min = 3;
    for (unsigned i = 0; i < 3; i++) {
        cluster->nodes[i].slot_bad[0] = i == 2;
        upgrade(cluster, i);
    }
    cluster_progress(cluster, 20, 10);
    assert_int_equal(cluster->etcd.plan->links.protocol, 2);
    cluster->nodes[2].slot_bad[0] = false;
    cluster_until(cluster, 20, cluster->etcd.plan->links.protocol == 3 && cluster_trains(cluster));
    cluster_free(cluster);
}

static void expect_wait_for_slot(bool tried_again, const char *text)
{
    struct cluster *cluster = cluster_new(1, 2, 2);
    cluster->spec.elastic.devices_min = 4;
    cluster->nodes[1].slot_bad[0] = true;
    cluster->nodes[1].slot_tried_again[0] = tried_again;
    cluster_run(cluster, 1);
    assert_string_equal(cluster->leader.text, text);
    cluster_free(cluster);
}

static void test_slots_out_of_service_are_named(void **state)
{
    (void)state;
    expect_wait_for_slot(false,
                         "waits for slots: wants at least 4, 3 are free (1 slot of node b is "
                         "out of service until firnctl node resume b)");
    expect_wait_for_slot(true, "waits for slots: wants at least 4, 3 are free (1 slot of node b is "
                               "out of service for a while: firnctl node list)");
}

/* The node leads, and keeps copies of checkpoints. */
static void test_a_node_without_slots_is_not_to_be_upgraded(void **state)
{
    (void)state;
    struct member node = {.name = "d"};
    struct leader_compatibility kind = {.numerics_identity = "one", .links = 2};
    char words[200] = "something";
    leader_compatibility_words(&kind, &node, words, sizeof(words));
    assert_string_equal(words, "");
}

/* Version zero is no version to upgrade to. */
static void test_what_is_not_said_is_said_to_be_so(void **state)
{
    (void)state;
    struct member node = {.name = "d", .numerics_identity = "one", .slot_count = 1};
    struct leader_compatibility kind = {.numerics_identity = "one", .links = 2};
    char words[200];
    leader_compatibility_words(&kind, &node, words, sizeof(words));
    assert_string_equal(words, "node d does not say which link protocol its workers speak: see its "
                               "log, restart its firnd");
    node.protocol.links = 3;
    kind.links = 0;
    leader_compatibility_words(&kind, &node, words, sizeof(words));
    assert_string_equal(words, "node d starts workers of link protocol 3, nobody said what this "
                               "job's speak: upgrade all nodes");
}

/* A downgrade is an upgrade to another version number. */
static void test_a_job_begins_on_the_kind_of_most_slots(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 3, 2);
    upgrade(cluster, 0);
    cluster->spec.elastic.mixed_devices = true; /* concerns arithmetic only: lifts nothing here */
    cluster_progress(cluster, 5, 20);
    assert_int_equal(cluster->etcd.plan->links.protocol, 2);
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 4);
    cluster_free(cluster);
}

static void test_a_node_whose_firnd_is_not_understood_is_left_out(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 3, 2);
    cluster->nodes[1].protocol.control = VERSIONS_CONTROL + 2;
    cluster->nodes[1].protocol.control_oldest = VERSIONS_CONTROL + 1;
    cluster->nodes[2].protocol.control = VERSIONS_CONTROL + 2;
    cluster->nodes[2].protocol.control_oldest = VERSIONS_CONTROL;
    cluster_progress(cluster, 5, 20);
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 4);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "b", 0), -1);
    cluster_run(cluster, 1);
    char words[96];
    snprintf(words, sizeof(words), "firnd on node b speaks control protocol %u, the leader %u",
             VERSIONS_CONTROL + 2, VERSIONS_CONTROL);
    expect_words(cluster, words);
    cluster_free(cluster);
}

static void test_versions_meet_where_their_ranges_do(void **state)
{
    (void)state;
    assert_true(versions_meet(0, 0)); /* no version reported: the first */
    assert_true(versions_meet(VERSIONS_CONTROL_OLDEST, VERSIONS_CONTROL));
    assert_true(versions_meet(VERSIONS_CONTROL, VERSIONS_CONTROL + 7));
    assert_false(versions_meet(VERSIONS_CONTROL + 1, VERSIONS_CONTROL + 7));
}

/*
 * OpenBLAS takes its core type from the environment: if that is the only difference, the leader
 * names the remedy.
 */
static void test_a_core_that_firnd_could_ask_for_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *job, *node, *remedy; /* NULL: none */
    } cases[] = {
        {"OpenBLAS 0.3.21 Prescott, kernels 2, 1 thread",
         "OpenBLAS 0.3.21 SkylakeX, kernels 2, 1 thread", ", or OPENBLAS_CORETYPE=Prescott there"},
        {"OpenBLAS 0.3.21 Prescott, kernels 2, 1 thread",
         "OpenBLAS 0.3.21 SkylakeX, kernels 2, 2 threads", NULL},
        {"OpenBLAS 0.3.21 Prescott, kernels 2, 1 thread",
         "OpenBLAS 0.3.26 SkylakeX, kernels 2, 1 thread", NULL},
        {"OpenBLAS ", "OpenBLAS 0.3.26 SkylakeX, kernels 2, 1 thread", NULL},
        {"H100", "OpenBLAS 0.3.26 SkylakeX, kernels 2, 1 thread", NULL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct cluster *cluster = cluster_new(1, 2, 1);
        for (unsigned n = 0; n < 2; n++)
            snprintf(cluster->nodes[n].numerics_identity, PLAN_NUMERICS_SIZE, "%s", cases[i].job);
        cluster_run(cluster, 12);
        assert_string_equal(cluster->etcd.plan->numerics, cases[i].job);
        for (unsigned n = 0; n < 2; n++)
            cluster_kill_node(cluster, n);
        cluster_run(cluster, 12);
        snprintf(cluster->nodes[0].numerics_identity, PLAN_NUMERICS_SIZE, "%s", cases[i].node);
        cluster_start_daemon(cluster, 0);
        cluster_run(cluster, 12);
        assert_int_equal(cluster->leader.state, JOB_RECOVERING);
        assert_non_null(strstr(cluster->leader.text, "see elastic.mixed_devices"));
        if (cases[i].remedy)
            assert_non_null(strstr(cluster->leader.text, cases[i].remedy));
        else
            assert_null(strstr(cluster->leader.text, "OPENBLAS_CORETYPE"));
        cluster_free(cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_core_that_firnd_could_ask_for_is_named),
        cmocka_unit_test(test_a_job_moves_over_when_all_nodes_are_upgraded),
        cmocka_unit_test(test_a_worker_lost_on_an_upgraded_node_has_no_successor),
        cmocka_unit_test(test_after_a_failure_that_old_workers_cannot_make_up_for),
        cmocka_unit_test(test_old_slots_that_do_not_serve_are_not_waited_for),
        cmocka_unit_test(test_a_node_that_is_gone_does_not_hold_up_the_others),
        cmocka_unit_test(test_too_few_new_slots_are_not_moved_to),
        cmocka_unit_test(test_slots_out_of_service_are_named),
        cmocka_unit_test(test_a_node_without_slots_is_not_to_be_upgraded),
        cmocka_unit_test(test_what_is_not_said_is_said_to_be_so),
        cmocka_unit_test(test_a_job_begins_on_the_kind_of_most_slots),
        cmocka_unit_test(test_a_node_whose_firnd_is_not_understood_is_left_out),
        cmocka_unit_test(test_versions_meet_where_their_ranges_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
