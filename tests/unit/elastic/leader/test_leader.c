/*
 * Tests of the leader's decisions, and of their words, in single events of a job, on the miniature
 * cluster: real leader, real agents, fake workers. Random histories are the simulator's
 * (tests/sim).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lib/elastic/cluster.h"

#define LESS_THAN_A_WAIT 1.0 /* seconds: the leader collects events for CLUSTER_TIMEOUT_NS */

/* Start a cluster with the pinned layout on all slots. */
static struct cluster *start_pinned(unsigned nodes, unsigned slots, unsigned stages,
                                    unsigned replicas)
{
    struct cluster *cluster = cluster_new(1, nodes, slots);
    cluster->wishes.stages = stages;
    cluster->wishes.replicas = replicas;
    cluster_progress(cluster, 5, 20);
    assert_int_equal(cluster->etcd.plan->layout.stage_count, stages);
    assert_int_equal(cluster->etcd.plan->layout.replica_count, replicas);
    return cluster;
}

static void test_a_job_starts_when_there_are_slots(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 3, 2);
    cluster->spec.elastic.devices_min = 4;
    for (unsigned i = 0; i < 3; i++)
        cluster_kill_node(cluster, i);
    cluster_run(cluster, 12);
    assert_null(cluster->etcd.plan);
    cluster_start_daemon(cluster, 0);
    cluster_start_daemon(cluster, 2);
    cluster->nodes[2].draining = true;
    cluster_run(cluster, 1);
    assert_null(cluster->etcd.plan);
    assert_int_equal(cluster->leader.state, JOB_WAITING);
    assert_string_equal(cluster->leader.text,
                        "waits for slots: wants at least 4, 2 are free (node c is draining)");
    cluster_start_daemon(cluster, 1);
    cluster_progress(cluster, 3, 10);
    assert_int_equal(cluster->etcd.plan->generation, 1);
    assert_int_equal(cluster->etcd.plan->change.reason, PLAN_REASON_START);
    assert_int_equal(cluster->etcd.plan->start.source, PLAN_SOURCE_FRESH);
    cluster_free(cluster);
}

static void test_unlike_nodes_do_not_share_a_job(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 3, 2);
    snprintf(cluster->nodes[0].numerics_identity, PLAN_NUMERICS_SIZE, "Zen");
    snprintf(cluster->nodes[1].numerics_identity, PLAN_NUMERICS_SIZE, "Skylake");
    snprintf(cluster->nodes[2].numerics_identity, PLAN_NUMERICS_SIZE, "Skylake");
    cluster_run(cluster, 12);
    assert_string_equal(cluster->etcd.plan->numerics, "Skylake"); /* most slots */
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 4);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "a", 0), -1);
    /* The job does not move even when its own kind is gone, and the leader gives the reason. */
    cluster_kill_node(cluster, 1);
    cluster_kill_node(cluster, 2);
    cluster_run(cluster, 12);
    assert_int_equal(cluster->leader.state, JOB_RECOVERING);
    assert_non_null(
        strstr(cluster->leader.text, "node a computes with Zen, this job with Skylake"));
    assert_non_null(strstr(cluster->leader.text, "elastic.mixed_devices"));
    /* A job with mixed devices gets all slots. */
    cluster->spec.elastic.mixed_devices = true;
    cluster_kill_node(cluster, 0);
    cluster_run(cluster, 12);
    cluster_start_daemon(cluster, 0);
    cluster_run(cluster, 12);
    assert_true(plan_layout_find(&cluster->etcd.plan->layout, "a", 0) >= 0);
    assert_string_equal(cluster->etcd.plan->numerics, "");
    cluster_free(cluster);
}

/* Each of two nodes has two slots of H100 and one of A100: the job gets the four like slots. */
static void test_unlike_slots_of_a_node_do_not_share_a_job(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 2, 3);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(cluster->nodes[i].numerics_identity, PLAN_NUMERICS_SIZE, "H100");
        snprintf(cluster->nodes[i].other_numerics_identities, PLAN_NUMERICS_SIZE, "A100");
    }
    cluster_run(cluster, 12);
    assert_string_equal(cluster->etcd.plan->numerics, "H100");
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 4);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "a", 2), -1);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "b", 2), -1);
    /* The job does not take unlike slots even if no others are left. */
    cluster->nodes[0].slot_bad[0] = cluster->nodes[0].slot_bad[1] = true;
    cluster_kill_node(cluster, 0);
    cluster_kill_node(cluster, 1);
    cluster_run(cluster, 12);
    cluster_start_daemon(cluster, 0);
    cluster_run(cluster, 12);
    assert_int_equal(cluster->leader.state, JOB_RECOVERING);
    assert_non_null(
        strstr(cluster->leader.text, "slot 2 of node a computes with A100, this job with H100"));
    cluster_free(cluster);
}

/* The job was submitted with a checkpoint that an earlier run of the job has written. */
static void test_a_job_begins_from_a_checkpoint_behind_its_generation(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 3, 2);
    cluster->etcd.checkpoint_step = 40;
    cluster->etcd.checkpoint_generation = 7;
    cluster_until(cluster, 3, cluster->etcd.plan);
    assert_int_equal(cluster->etcd.plan->generation, 8);
    assert_int_equal(cluster->etcd.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(cluster->etcd.plan->start.resume_step, 40);
    cluster_free(cluster);
}

/*
 * The job does not begin at step 0: the nodes may come back, or their files are in an object store.
 */
static void test_a_job_whose_checkpoints_are_away_waits_for_their_nodes(void **state)
{
    (void)state;
    static struct member nodes[CLUSTER_NODES];
    static const struct node_report *reports[CLUSTER_NODES];
    struct cluster *cluster = cluster_new(1, 3, 2);
    struct leader_view view;
    struct leader_decision decision;
    struct error error;
    cluster->leader.quiet = true;
    cluster_run(cluster, 1);
    cluster_build_view(cluster, &view, nodes, reports);
    snprintf(view.checkpoint.missing, sizeof(view.checkpoint.missing), "node x or y");
    struct leader_memory memory = {0};
    assert_int_equal(leader_decide(&view, &memory, &decision, &error), 0);
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_true(decision.misses_checkpoint);
    assert_string_equal(decision.text, "waits for node x or y");
    view.checkpoint.missing[0] = '\0';
    assert_int_equal(leader_decide(&view, &memory, &decision, &error), 0);
    assert_false(decision.misses_checkpoint);
    assert_int_equal(decision.plan->start.source, PLAN_SOURCE_FRESH);
    plan_free(decision.plan);
    cluster_free(cluster);
}

/* The nodes that leave have the newest checkpoint, which may be on its way into an object store. */
static void test_an_empty_plan_says_where_files_lie(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_training(3, 2);
    cluster->spec.checkpoint.copies = 2;
    cluster->wishes.desired = JOB_DESIRED_PAUSED;
    cluster_until(cluster, 5, cluster->etcd.plan->layout.worker_count == 0);
    assert_int_equal(cluster->etcd.plan->checkpoints.copy_node_count, 3);
    assert_int_equal(copies_writer_count(cluster->etcd.plan), 0);
    cluster_free(cluster);
}

static void test_draining_hands_over_and_leaves(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_training(3, 2);
    cluster->nodes[2].draining = true;
    cluster_until(cluster, 5, cluster->etcd.plan->change.reason == PLAN_REASON_DRAIN);
    assert_true(cluster->etcd.plan->change.planned);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "c", 0) <
                         (int)cluster->etcd.plan->layout.worker_count,
                     true);
    cluster_until(cluster, 5, agent_idle(cluster->nodes[2].agent));
    cluster_progress(cluster, 5, 5);
    assert_int_equal(cluster->events.published, 2);
    assert_int_equal(cluster->events.reasons[PLAN_REASON_FAILURE], 0);
    cluster_free(cluster);
}

/*
 * Start three stages on three nodes, of which one is preempted at a given time; two nodes are
 * enough.
 */
static struct cluster *start_preempted(uint64_t left_ns)
{
    struct cluster *cluster = start_pinned(3, 1, 3, 1);
    cluster->wishes.stages = cluster->wishes.replicas = 0;
    cluster->nodes[2].draining = true;
    cluster->nodes[2].drain_deadline_ns = cluster->now_ns + left_ns;
    cluster_until(cluster, 5, cluster->etcd.plan->change.reason == PLAN_REASON_DRAIN);
    return cluster;
}

static void test_with_time_enough_a_node_that_goes_hands_over(void **state)
{
    (void)state;
    struct cluster *cluster = start_preempted(30 * NS_PER_SECOND);
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 2);
    assert_int_equal(cluster->etcd.plan->start.source, PLAN_SOURCE_MEMORY);
    cluster_progress(cluster, 5, 5);
    assert_int_equal(cluster->events.restarts_from_disk, 0);
    cluster_free(cluster);
}

static void test_without_time_enough_there_is_an_emergency_checkpoint(void **state)
{
    (void)state;
    struct cluster *cluster = start_preempted(1);
    uint64_t steps = cluster->committed_ever;
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 0);
    assert_non_null(strstr(cluster->etcd.plan->change.text, "handing over"));
    cluster_until(cluster, 10, cluster->etcd.plan->layout.worker_count == 2);
    assert_int_equal(cluster->etcd.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_true(cluster->etcd.plan->start.resume_step >= steps); /* no step is computed twice */
    cluster_progress(cluster, 5, 5);
    assert_int_equal(cluster->events.reasons[PLAN_REASON_FAILURE], 0);
    cluster_free(cluster);
}

static void test_a_job_that_cannot_do_without_a_draining_node_checkpoints_and_waits(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 2, 2);
    cluster->spec.elastic.devices_min = 3;
    cluster_progress(cluster, 5, 20);
    uint64_t step = cluster->committed_ever;
    cluster->nodes[0].draining = true;
    cluster_until(cluster, 10, cluster->etcd.plan->change.reason == PLAN_REASON_DRAIN);
    assert_int_equal(cluster->etcd.plan->layout.worker_count, 0);
    assert_true(cluster->etcd.plan->change.planned);
    cluster_until(cluster, 10, cluster->leader.state == JOB_WAITING);
    assert_int_equal(cluster_alive(cluster), 0);
    assert_non_null(strstr(cluster->leader.text, "node a is draining"));
    /* No step was lost: the job continues from the boundary at which the node left. */
    cluster->nodes[0].draining = false;
    cluster_until(cluster, 10, cluster_trains(cluster));
    assert_int_equal(cluster->etcd.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_true(cluster->etcd.plan->start.resume_step >= step);
    cluster_progress(cluster, 5, 10);
    cluster_free(cluster);
}

static void test_scaling_goes_down_and_up(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_training(3, 2);
    unsigned before = cluster->etcd.plan->layout.worker_count;
    cluster->wishes.devices = 2;
    cluster_until(cluster, LESS_THAN_A_WAIT, cluster->etcd.plan->generation == 2);
    cluster_until(cluster, 10,
                  cluster_trains(cluster) && cluster->etcd.plan->layout.worker_count <= 2);
    assert_int_equal(cluster->etcd.plan->change.reason, PLAN_REASON_SCALE);
    assert_non_null(strstr(cluster->etcd.plan->change.text, "another scale is asked for"));
    cluster_until(cluster, 10, cluster_alive(cluster) == cluster->etcd.plan->layout.worker_count);
    cluster->wishes.devices = 0;
    cluster_until(cluster, 10,
                  cluster_trains(cluster) && cluster->etcd.plan->layout.worker_count == before);
    assert_int_equal(cluster->events.reasons[PLAN_REASON_FAILURE], 0);
    cluster_free(cluster);
}

static void test_pinned_layouts_are_followed(void **state)
{
    (void)state;
    struct cluster *cluster = start_pinned(3, 2, 3, 2);
    cluster->wishes.stages = 2;
    cluster->wishes.replicas = 3;
    cluster_until(cluster, 10,
                  cluster_trains(cluster) && cluster->etcd.plan->layout.stage_count == 2);
    cluster->wishes.stages = 1;
    cluster->wishes.replicas = 7; /* more than the slots, and more than the lanes */
    cluster_run(cluster, 10);
    assert_int_equal(cluster->etcd.plan->layout.stage_count, 2);
    assert_non_null(strstr(cluster->leader.text, "7 replicas are asked for"));
    cluster_progress(cluster, 3, 5);
    cluster_free(cluster);
}

static void test_freezing_shrinks_and_forks(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 3, 2);
    cluster->spec.train.lanes = 8;
    cluster_progress(cluster, 5, 20);
    assert_int_equal(cluster->etcd.plan->layout.stage_count, 3);
    cluster->frozen_layers = 1;
    cluster_until(cluster, LESS_THAN_A_WAIT, cluster->etcd.plan->generation == 2);
    cluster_until(cluster, 10, cluster_trains(cluster));
    assert_int_equal(cluster->etcd.plan->change.reason, PLAN_REASON_FREEZE);
    assert_int_equal(cluster->etcd.plan->layout.frozen_layers, 1);
    assert_int_equal(cluster->etcd.plan->layout.stage_count, 2);
    assert_int_equal(cluster->etcd.plan->layout.replica_count, 3);
    assert_int_equal(cluster->events.prepared,
                     0); /* all processes are running: no preparation needed */
    cluster_run(cluster, 20);
    assert_int_equal(cluster->etcd.plan->generation, 2);
    cluster_free(cluster);
}

static void test_a_loss_at_the_start_is_no_lost_work(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 2, 1);
    cluster->wishes.stages = 2;
    cluster_until(cluster, 5, cluster->etcd.plan && cluster_trains(cluster));
    assert_int_equal(cluster->committed_ever, 0);
    cluster_kill_worker(cluster, cluster_rank_worker(cluster, 1));
    cluster_until(cluster, 2, cluster->etcd.plan->generation == 2);
    assert_non_null(strstr(cluster->etcd.plan->change.text, " at the start: "));
    assert_non_null(strstr(cluster->etcd.plan->change.text, " from step 0"));
    assert_null(strstr(cluster->etcd.plan->change.text, "nothing but time is lost"));
    cluster_free(cluster);
}

/* The new worker takes the place of the one that leaves, in any order of their names. */
static void test_who_stays_keeps_its_stage(void **state)
{
    (void)state;
    struct cluster *cluster = start_pinned(3, 1, 2, 1);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "a", 0), 0);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "b", 0), 1);
    cluster->nodes[0].draining = true;
    cluster_until(cluster, 10, cluster->etcd.plan->generation == 2);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "b", 0), 1);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "c", 0), 0);
    for (unsigned i = 0; i < cluster->etcd.plan->start.move_count; i++)
        assert_int_equal(cluster->etcd.plan->start.moves[i].to_rank, 0);
    cluster_free(cluster);
}

/*
 * The leader leaves a layout in which one node has the only replicas even without a gain in speed.
 */
static void test_stages_are_spread_when_another_node_can_have_copies(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 2, 2);
    cluster->spec.elastic.shadow = true;
    cluster->spec.elastic.devices_max = 2;
    cluster->wishes.stages = 2;
    cluster_kill_node(cluster, 1);
    cluster_progress(cluster, 5, 20);
    assert_int_equal(cluster->etcd.plan->layout.shadow_count, 0);
    assert_non_null(strstr(cluster->leader.text, "2 stages have no shadow"));
    cluster_start_daemon(cluster, 1);
    cluster_until(cluster, 20, cluster->etcd.plan->change.planned && cluster_trains(cluster));
    assert_int_equal(cluster->etcd.plan->layout.shadow_count, 2);
    cluster_progress(cluster, 5, 10);
    cluster_run(cluster, 60);
    assert_int_equal(cluster->events.published, 2);
    assert_null(strstr(cluster->leader.text, "no shadow"));
    cluster_free(cluster);
}

static void test_pausing_saves_and_resuming_continues(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_training(3, 2);
    cluster->wishes.desired = JOB_DESIRED_PAUSED;
    cluster_until(cluster, 5, cluster->leader.over);
    assert_int_equal(cluster->leader.state, JOB_PAUSED);
    assert_int_equal(cluster_alive(cluster), 0);
    assert_int_equal(cluster->etcd.checkpoint_step, cluster->committed_ever);
    uint64_t step = cluster->committed_ever;
    cluster->wishes.desired = JOB_DESIRED_RUNNING;
    cluster_until(cluster, 5, cluster->etcd.plan->layout.worker_count > 0);
    assert_int_equal(cluster->etcd.plan->change.reason, PLAN_REASON_RESUME);
    assert_int_equal(cluster->etcd.plan->start.resume_step, step);
    cluster_progress(cluster, 5, 10);
    cluster_free(cluster);
}

static void test_a_worker_that_dies_while_pausing_loses_nothing(void **state)
{
    (void)state;
    struct cluster *cluster = start_pinned(3, 2, 3, 2);
    uint64_t step = cluster->committed_ever;
    cluster->wishes.desired = JOB_DESIRED_PAUSED;
    cluster_until(cluster, 5, cluster->etcd.plan->layout.worker_count == 0);
    cluster->wishes.stages = cluster->wishes.replicas = 0;
    for (unsigned i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].alive) {
            cluster_kill_worker(cluster, &cluster->workers[i]);
            break;
        }
    cluster_until(cluster, 20, cluster->leader.over);
    assert_int_equal(cluster->leader.state, JOB_PAUSED);
    assert_true(cluster->etcd.checkpoint_step >= step);
    assert_int_equal(cluster->events.restarts_from_disk, 0);
    cluster_free(cluster);
}

static void test_cancelling_ends_it_at_once(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_training(3, 2);
    uint64_t checkpoint = cluster->etcd.checkpoint_step;
    for (unsigned i = 0; i < cluster->worker_count; i++)
        cluster->workers[i].deaf = i % 2 == 0; /* deaf workers must be killed */
    cluster->wishes.desired = JOB_DESIRED_CANCELLED;
    cluster_until(cluster, 5, cluster->leader.over);
    assert_int_equal(cluster->leader.state, JOB_CANCELLED);
    assert_int_equal(cluster_alive(cluster), 0);
    assert_true(cluster->etcd.checkpoint_step <= checkpoint + cluster->spec.checkpoint.every);
    cluster_free(cluster);
}

static void test_a_new_leader_carries_on_with_what_is_prepared(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_training(3, 2);
    cluster->wishes.devices = 2;
    cluster_until(cluster, 10,
                  cluster_trains(cluster) && cluster->etcd.plan->layout.worker_count <= 2);
    cluster_until(cluster, 10, cluster_alive(cluster) == cluster->etcd.plan->layout.worker_count);
    cluster->wishes.devices = 0;
    cluster_until(cluster, 10, cluster->etcd.next);
    memset(&cluster->leader.memory, 0, sizeof(cluster->leader.memory));
    uint64_t prepared = cluster->etcd.next->generation;
    cluster_until(cluster, 10,
                  cluster->etcd.plan->generation == prepared && cluster_trains(cluster));
    assert_int_equal(cluster->events.dropped, 0);
    cluster_free(cluster);
}

static void test_the_same_view_gives_the_same_decision(void **state)
{
    (void)state;
    static struct member nodes[CLUSTER_NODES];
    static const struct node_report *reports[CLUSTER_NODES];
    struct cluster *cluster = start_pinned(3, 2, 3, 2);
    cluster->leader.quiet = true;
    cluster->nodes[0].draining = true;
    cluster->wishes.stages = cluster->wishes.replicas = 0;
    struct leader_view view;
    cluster_build_view(cluster, &view, nodes, reports);
    struct leader_decision decisions[3];
    struct error error;
    for (unsigned i = 0; i < 3; i++) {
        struct leader_memory memory = {0};
        assert_int_equal(leader_decide(&view, &memory, &decisions[i], &error), 0);
        assert_non_null(decisions[i].plan);
        json_t *first = plan_encode(decisions[0].plan), *this = plan_encode(decisions[i].plan);
        assert_true(json_equal(first, this));
        json_decref(first);
        json_decref(this);
    }
    for (unsigned i = 0; i < 3; i++)
        plan_free(decisions[i].plan);
    cluster_free(cluster);
}

static void test_nodes_that_join_together_make_one_generation(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 4, 2);
    for (unsigned i = 1; i < 4; i++)
        cluster_kill_node(cluster, i);
    cluster_run(cluster, 12);
    cluster_progress(cluster, 5, 20);
    unsigned before = cluster->events.published;
    for (unsigned i = 1; i < 4; i++) {
        cluster_start_daemon(cluster, i);
        cluster_run(cluster, 0.3);
    }
    cluster_until(cluster, 10, cluster_trains(cluster) && cluster->events.published > before);
    cluster_run(cluster, 20);
    assert_int_equal(cluster->events.published, before + 1);
    cluster_free(cluster);
}

static void test_a_slot_that_cannot_start_is_given_up(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_new(1, 2, 2);
    cluster_kill_node(cluster, 1);
    cluster_run(cluster, 12);
    cluster_progress(cluster, 5, 20);
    cluster->nodes[1].start_fails = true;
    cluster_start_daemon(cluster, 1);
    cluster_until(cluster, 120, cluster->nodes[1].slot_bad[0] && cluster->nodes[1].slot_bad[1]);
    cluster_until(cluster, 60, !cluster->etcd.next);
    cluster_run(cluster, 60);
    assert_null(cluster->etcd.next);
    assert_int_equal(plan_layout_find(&cluster->etcd.plan->layout, "b", 0), -1);
    cluster_progress(cluster, 5, 5);
    cluster_free(cluster);
}

static void test_a_restarted_daemon_disturbs_nobody(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_training(3, 2);
    for (unsigned i = 0; i < 3; i++) {
        cluster_stop_daemon(cluster, i);
        cluster_run(cluster, 2);
        cluster_start_daemon(cluster, i);
        cluster_run(cluster, 1);
    }
    cluster_progress(cluster, 5, 5);
    assert_int_equal(cluster->etcd.plan->generation, 1);
    cluster_free(cluster);
}

/*
 * The workers of the node train on, but receive no plans: the leader replaces them at a boundary.
 */
static void test_a_node_without_lease_is_left_without_a_failure(void **state)
{
    (void)state;
    struct cluster *cluster = cluster_training(3, 2);
    cluster_stop_daemon(cluster, 1);
    cluster_until(cluster, 20, cluster->etcd.plan->generation == 2);
    assert_true(cluster->etcd.plan->change.planned);
    assert_non_null(strstr(cluster->etcd.plan->change.text, "node b is gone"));
    cluster_start_daemon(cluster, 1);
    cluster_progress(cluster, 5, 30);
    assert_int_equal(cluster->events.restarts_from_disk, 0);
    cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_starts_when_there_are_slots),
        cmocka_unit_test(test_a_job_begins_from_a_checkpoint_behind_its_generation),
        cmocka_unit_test(test_unlike_nodes_do_not_share_a_job),
        cmocka_unit_test(test_unlike_slots_of_a_node_do_not_share_a_job),
        cmocka_unit_test(test_a_job_whose_checkpoints_are_away_waits_for_their_nodes),
        cmocka_unit_test(test_an_empty_plan_says_where_files_lie),
        cmocka_unit_test(test_draining_hands_over_and_leaves),
        cmocka_unit_test(test_with_time_enough_a_node_that_goes_hands_over),
        cmocka_unit_test(test_without_time_enough_there_is_an_emergency_checkpoint),
        cmocka_unit_test(test_a_job_that_cannot_do_without_a_draining_node_checkpoints_and_waits),
        cmocka_unit_test(test_scaling_goes_down_and_up),
        cmocka_unit_test(test_pinned_layouts_are_followed),
        cmocka_unit_test(test_freezing_shrinks_and_forks),
        cmocka_unit_test(test_a_loss_at_the_start_is_no_lost_work),
        cmocka_unit_test(test_who_stays_keeps_its_stage),
        cmocka_unit_test(test_stages_are_spread_when_another_node_can_have_copies),
        cmocka_unit_test(test_pausing_saves_and_resuming_continues),
        cmocka_unit_test(test_a_worker_that_dies_while_pausing_loses_nothing),
        cmocka_unit_test(test_cancelling_ends_it_at_once),
        cmocka_unit_test(test_a_new_leader_carries_on_with_what_is_prepared),
        cmocka_unit_test(test_the_same_view_gives_the_same_decision),
        cmocka_unit_test(test_nodes_that_join_together_make_one_generation),
        cmocka_unit_test(test_a_slot_that_cannot_start_is_given_up),
        cmocka_unit_test(test_a_restarted_daemon_disturbs_nobody),
        cmocka_unit_test(test_a_node_without_lease_is_left_without_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
