/*
 * Tests of the leader with a slot slower than its peers, on the miniature cluster: another slot
 * takes over, or the job continues without the slot; the slot returns on probation, and must not
 * flap.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/elastic/cluster.h"

#include "elastic/leader/leader_slow.h"

#define TERM_SECONDS 60 /* TIMEOUTS_SLOW_SLOT_MIN time-outs of 1.5 s */

static struct cluster *start(unsigned nodes, unsigned devices)
{
    struct cluster *cluster = cluster_new(1, nodes, 1);
    cluster->wishes.devices = devices;
    /* The micro-batch is so large that computing dominates the step. */
    cluster->spec.train.micro_batch = 64;
    cluster->spec.model.context = 256;
    cluster_progress(cluster, 5, 20);
    assert_int_equal(cluster->etcd.plan->layout.worker_count, devices != 0 ? devices : nodes);
    return cluster;
}

static bool uses(const struct cluster *cluster, unsigned node)
{
    int rank = plan_layout_find(&cluster->etcd.plan->layout, cluster->nodes[node].name, 0);
    return rank >= 0 && (unsigned)rank < cluster->etcd.plan->layout.worker_count;
}

static void check_relieved(struct cluster *cluster, unsigned node, unsigned times)
{
    assert_int_equal(cluster->etcd.plan->change.reason, PLAN_REASON_STRAGGLER);
    assert_true(cluster->etcd.plan->change.planned);
    assert_int_equal(cluster->etcd.plan->start.source, PLAN_SOURCE_MEMORY);
    assert_int_equal(cluster->etcd.plan->slow_count, 1);
    assert_string_equal(cluster->etcd.plan->slow[0].node, cluster->nodes[node].name);
    assert_int_equal(cluster->etcd.plan->slow[0].times, times);
    assert_int_equal(cluster->events.restarts_from_disk, 0);
}

static void test_without_another_slot_it_is_left_out(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 0);
    cluster->nodes[1].slowness[0] = 4;
    cluster_until(cluster, 5, !uses(cluster, 1));
    check_relieved(cluster, 1, 1);
    assert_non_null(strstr(cluster->etcd.plan->change.text,
                           "b/0 computes 4.0 times slower than its peers: 1 stage x 3 replicas"));
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 2);
    cluster_progress(cluster, 5, 20);
    assert_int_equal(cluster->events.published, 2);
    cluster_free(cluster);
}

static unsigned lanes_of(const struct cluster *cluster, unsigned node)
{
    int rank = plan_layout_find(&cluster->etcd.plan->layout, cluster->nodes[node].name, 0);
    const unsigned *first =
        &cluster->etcd.plan->layout
             .replica_first_lane[rank / (int)cluster->etcd.plan->layout.stage_count];
    return first[1] - first[0];
}

/* At half speed the slot still gets a third of the lanes; its recovery counts after its term. */
static void test_its_lanes_move_and_come_back(void **state)
{
    (void)state;
    struct cluster *cluster = start(2, 0);
    assert_int_equal(lanes_of(cluster, 1), 3);
    cluster->nodes[1].slowness[0] = 2;
    cluster_until(cluster, 5, cluster->etcd.plan->change.reason == PLAN_REASON_STRAGGLER);
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 2);
    assert_int_equal(lanes_of(cluster, 1), 2);
    check_relieved(cluster, 1, 1);
    for (unsigned i = 0; i < 5; i++) { /* slow and well in turn */
        cluster->nodes[1].slowness[0] = i % 2 ? 2 : 0;
        cluster_run(cluster, TERM_SECONDS / 6);
    }
    assert_int_equal(cluster->events.published, 2);
    cluster->nodes[1].slowness[0] = 0;
    cluster_until(cluster, TERM_SECONDS, cluster->events.published == 3);
    assert_non_null(
        strstr(cluster->etcd.plan->change.text, "b/0 computes as fast as its peers again"));
    assert_int_equal(lanes_of(cluster, 1), 3);
    cluster_progress(cluster, 5, 20);
    cluster_free(cluster);
}

static void test_a_free_slot_takes_its_place(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 2);
    unsigned slow = uses(cluster, 0) ? 0 : 1, spare = 0;
    while (uses(cluster, spare))
        spare++;
    cluster->nodes[slow].slowness[0] = 3;
    cluster_until(cluster, 5, !uses(cluster, slow));
    check_relieved(cluster, slow, 1);
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 2);
    assert_true(uses(cluster, spare));
    assert_int_equal(cluster->events.prepared, 1); /* ready before any worker stopped */
    cluster_progress(cluster, 5, 20);
    cluster_free(cluster);
}

/*
 * The slot is out for its term, then on probation, and loses its mark after a long time without
 * trouble.
 */
static void test_it_comes_back_on_probation(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 0);
    cluster->nodes[1].slowness[0] = 4;
    cluster_until(cluster, 5, !uses(cluster, 1));
    cluster->nodes[1].slowness[0] = 0;
    cluster_run(cluster, TERM_SECONDS - 5);
    assert_false(uses(cluster, 1));
    cluster_until(cluster, 15, uses(cluster, 1));
    assert_non_null(strstr(cluster->etcd.plan->change.text, "b/0, which was slow, is tried again"));
    assert_int_equal(cluster->etcd.plan->slow_count, 1);
    assert_true(cluster->etcd.plan->slow[0].speed >= 1);
    cluster_run(cluster, TERM_SECONDS + 5);
    assert_int_equal(cluster->events.published, 3);
    cluster->nodes[2].draining = true; /* every later plan forgets it */
    cluster_until(cluster, 10, !uses(cluster, 2));
    assert_int_equal(cluster->etcd.plan->slow_count, 0);
    cluster_free(cluster);
}

static void test_still_slow_it_is_left_out_for_twice_as_long(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 0);
    cluster->nodes[1].slowness[0] = 4;
    cluster_until(cluster, 5, !uses(cluster, 1));
    cluster_until(cluster, TERM_SECONDS + 15, uses(cluster, 1));
    cluster_until(cluster, 10, !uses(cluster, 1));
    check_relieved(cluster, 1, 2);
    cluster_run(cluster, 2 * TERM_SECONDS - 5);
    assert_false(uses(cluster, 1));
    cluster_until(cluster, 15, uses(cluster, 1));
    /* Ten minutes of flapping cost only a few changes. */
    cluster_run(cluster, 600);
    assert_in_range(cluster->events.published, 5, 10);
    cluster_free(cluster);
}

static void test_the_next_leader_knows_it(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 0);
    cluster->nodes[1].slowness[0] = 4;
    cluster_until(cluster, 5, !uses(cluster, 1));
    memset(&cluster->leader.memory, 0, sizeof(cluster->leader.memory));
    cluster_run(cluster, TERM_SECONDS - 5);
    assert_false(uses(cluster, 1));
    cluster_free(cluster);
}

static void test_a_new_firnd_begins_with_a_clean_slate(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 0);
    cluster->nodes[1].slowness[0] = 4;
    cluster_until(cluster, 5, !uses(cluster, 1));
    cluster_progress(cluster, 5, 5);
    cluster->nodes[1].slowness[0] = 0;
    cluster_kill_node(cluster, 1);
    cluster_run(cluster, 1);
    cluster_start_daemon(cluster, 1);
    cluster_until(cluster, 10, uses(cluster, 1));
    assert_int_equal(cluster->etcd.plan->slow_count, 0);
    cluster_free(cluster);
}

/* A slow slot is better than none: after a loss the leader plans with it, at its slow speed. */
static void test_it_helps_out_when_it_is_needed(void **state)
{
    (void)state;
    struct cluster *cluster = start(3, 0);
    cluster->nodes[1].slowness[0] = 1.5; /* below every threshold */
    cluster_run(cluster, 5);
    assert_int_equal(cluster->events.published, 1);
    cluster->nodes[1].slowness[0] = 4;
    cluster_until(cluster, 5, !uses(cluster, 1));
    cluster_progress(cluster, 5, 5);
    cluster_kill_node(cluster, 0);
    cluster_kill_node(cluster, 2);
    cluster_until(cluster, 30, uses(cluster, 1));
    assert_true(cluster->etcd.plan->slow_count == 1 && cluster->etcd.plan->slow[0].speed < 1);
    cluster_free(cluster);
}

static void test_where_nothing_is_faster_without_it_that_is_said(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 3, 1);
    cluster->wishes.stages = 3;
    cluster->wishes.replicas = 1;
    cluster_progress(cluster, 5, 20);
    cluster->nodes[1].slowness[0] = 3;
    cluster_run(cluster, 30);
    assert_int_equal(cluster->events.published, 1);
    assert_non_null(strstr(cluster->leader.text,
                           "b/0 computes 3.0 times slower than its peers, and no "
                           "layout without it is faster"));
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_another_slot_it_is_left_out),
        cmocka_unit_test(test_its_lanes_move_and_come_back),
        cmocka_unit_test(test_a_free_slot_takes_its_place),
        cmocka_unit_test(test_it_comes_back_on_probation),
        cmocka_unit_test(test_still_slow_it_is_left_out_for_twice_as_long),
        cmocka_unit_test(test_the_next_leader_knows_it),
        cmocka_unit_test(test_a_new_firnd_begins_with_a_clean_slate),
        cmocka_unit_test(test_it_helps_out_when_it_is_needed),
        cmocka_unit_test(test_where_nothing_is_faster_without_it_that_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
