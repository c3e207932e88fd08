/*
 * Scenes of different nodes in one cluster, mainly during an upgrade node by node: which nodes may
 * share a job, when a job moves to the upgraded nodes, and that the move loses no step.
 */
#include <stdio.h>

#include "elastic/plan/versions.h"
#include "sim/scene/scene_events.h"

#define LEASE_SECONDS 12 /* until the loss of a node is known */
#define TEXT_SECONDS  2  /* the leader writes the job's state now and then */

static struct scene *start(unsigned nodes, unsigned slots, unsigned devices_min)
{
    struct scene *scene = scene_new(nodes, slots);
    scene->sim->spec.elastic.devices_min = devices_min;
    scene_begin(scene);
    scene_progress(scene, 5);
    assert_int_equal(scene_plan(scene)->links.protocol, 2);
    assert_int_equal(scene_plan(scene)->layout.worker_count, nodes * slots);
    return scene;
}

static bool has_moved_over(const struct scene *scene)
{
    return scene_plan(scene)->links.protocol == 3 && scene_trains(scene);
}

/* ---- arithmetic ---- */

static void set_numerics(struct scene *scene, unsigned node, const char *identity)
{
    snprintf(scene->sim->nodes[node].machine.numerics_identity, RECORD_NUMERICS_SIZE, "%s",
             identity);
}

static struct scene *start_unlike(bool mixed_devices)
{
    struct scene *scene = scene_new(3, 2);
    scene->sim->spec.elastic.mixed_devices = mixed_devices;
    set_numerics(scene, 0, "Zen");
    set_numerics(scene, 1, "Skylake");
    set_numerics(scene, 2, "Skylake");
    scene_begin(scene);
    scene_progress(scene, 5);
    return scene;
}

static void test_unlike_nodes_do_not_share_a_job(void **state)
{
    (void)state;
    struct scene *scene = start_unlike(false);
    scene_run(scene, LEASE_SECONDS);
    assert_string_equal(scene_plan(scene)->numerics, "Skylake"); /* most slots */
    assert_int_equal(scene_plan(scene)->layout.worker_count, 4);
    assert_int_equal(scene_rank(scene, 0, 0), -1);
    /* The job does not move even without nodes of its own kind, and the leader gives the reason. */
    scene_kill_node(scene, 1);
    scene_kill_node(scene, 2);
    scene_run(scene, LEASE_SECONDS);
    assert_true(scene_is(scene, "recovering"));
    assert_true(scene_says(scene, "node a computes with Zen, this job with Skylake"));
    assert_true(scene_says(scene, "elastic.mixed_devices"));
    scene_free(scene);
}

static void test_a_job_with_mixed_devices_gets_all_slots(void **state)
{
    (void)state;
    struct scene *scene = start_unlike(true);
    assert_int_equal(scene_plan(scene)->layout.worker_count, 6);
    assert_string_equal(scene_plan(scene)->numerics, "");
    scene_kill_node(scene, 0);
    scene_run(scene, LEASE_SECONDS);
    assert_false(scene_uses(scene, 0, 0));
    scene_return_node(scene, 0);
    scene_run(scene, LEASE_SECONDS);
    assert_true(scene_uses(scene, 0, 0));
    assert_string_equal(scene_plan(scene)->numerics, "");
    scene_free(scene);
}

/* Each of two nodes has two slots of H100 and one of A100: the job gets the four like slots. */
static void test_unlike_slots_of_a_node_do_not_share_a_job(void **state)
{
    (void)state;
    struct scene *scene = scene_new(2, 3);
    for (unsigned i = 0; i < 2; i++) {
        set_numerics(scene, i, "H100");
        snprintf(scene->sim->nodes[i].machine.last_numerics_identity, RECORD_NUMERICS_SIZE, "A100");
    }
    scene_begin(scene);
    scene_progress(scene, 5);
    assert_string_equal(scene_plan(scene)->numerics, "H100");
    assert_int_equal(scene_plan(scene)->layout.worker_count, 4);
    assert_int_equal(scene_rank(scene, 0, 2), -1);
    assert_int_equal(scene_rank(scene, 1, 2), -1);
    /* The job does not take unlike slots even if no other slots are left. */
    scene_kill_node(scene, 0);
    scene_kill_node(scene, 1);
    scene_run(scene, LEASE_SECONDS);
    scene_return_node(scene, 0);
    scene_take_out(scene, 0, 0, false);
    scene_take_out(scene, 0, 1, false);
    scene_run(scene, LEASE_SECONDS);
    assert_true(scene_is(scene, "recovering"));
    assert_true(scene_says(scene, "slot 2 of node a computes with A100, this job with H100"));
    scene_free(scene);
}

/* ---- upgrades ---- */

/* The old workers train until the last node is upgraded; then new workers replace them. */
static void test_a_job_moves_over_when_all_nodes_are_upgraded(void **state)
{
    (void)state;
    struct scene *scene = start(3, 2, 1);
    for (unsigned i = 0; i < 2; i++) {
        scene_upgrade(scene, i);
        scene_progress(scene, 10);
        assert_int_equal(scene->writes.published, 1);
    }
    scene_until(scene, TEXT_SECONDS,
                scene_says(scene, "starts workers of link protocol 3, this job's speak 2"));
    uint64_t committed = scene_committed(scene);
    scene_upgrade(scene, 2);
    scene_until(scene, 5, scene_plan(scene)->change.reason == PLAN_REASON_UPGRADE);
    assert_true(scene_plan(scene)->change.planned);
    scene_until(scene, 20, scene_plan(scene)->links.protocol == 3);
    assert_int_equal(scene_plan(scene)->layout.worker_count, 6);
    assert_int_equal(scene_plan(scene)->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(scene_plan(scene)->start.resume_step, scene_checkpoint(scene));
    /* the step of the boundary at which the workers left */
    assert_true(scene_plan(scene)->start.resume_step >= committed);
    scene_until(scene, 20, has_moved_over(scene));
    assert_int_equal(scene->writes.restarts_from_disk, 0);
    scene_progress(scene, 5);
    assert_int_equal(scene->writes.published, 3);
    scene_free(scene);
}

/* The slot joins the job only when the job moves over; the other workers continue without it. */
static void test_a_worker_lost_on_an_upgraded_node_has_no_successor(void **state)
{
    (void)state;
    struct scene *scene = start(3, 1, 1);
    scene_upgrade(scene, 0);
    scene_progress(scene, 5);
    scene_kill_worker(scene, 0, 0);
    scene_until(scene, 10, scene_plan(scene)->generation > 1);
    scene_progress(scene, 30);
    assert_int_equal(scene_plan(scene)->layout.worker_count, 2);
    assert_int_equal(scene_plan(scene)->links.protocol, 2);
    assert_int_equal(scene_rank(scene, 0, 0), -1);
    assert_int_equal(scene->writes.restarts_from_disk, 0);
    scene_upgrade(scene, 1);
    scene_upgrade(scene, 2);
    scene_until(scene, 20, has_moved_over(scene));
    assert_int_equal(scene_plan(scene)->layout.worker_count, 3);
    scene_free(scene);
}

/* No node can use the surviving state: the leader does not wait for workers that no node can start.
 */
static void test_after_a_failure_that_old_workers_cannot_make_up_for(void **state)
{
    (void)state;
    struct scene *scene = start(3, 1, 3);
    scene_progress(scene, 50); /* past a checkpoint */
    scene_upgrade(scene, 0);
    scene_kill_worker(scene, 0, 0);
    scene_run(scene, 10);
    assert_true(scene_is(scene, "recovering"));
    assert_true(scene_says(scene, "wants at least 3, 2 are free (node a starts workers of link "
                                  "protocol 3"));
    scene_upgrade(scene, 1);
    scene_upgrade(scene, 2);
    scene_until(scene, 20, has_moved_over(scene));
    assert_int_equal(scene->writes.reasons[PLAN_REASON_UPGRADE], 1);
    assert_int_equal(scene_plan(scene)->start.source, PLAN_SOURCE_CHECKPOINT);
    scene_progress(scene, 5);
    scene_free(scene);
}

/*
 * An operator drained the last old node for good, or its slot is out of service: the node starts
 * nothing.
 */
static void test_old_slots_that_do_not_serve_are_not_waited_for(void **state)
{
    (void)state;
    for (unsigned drains = 0; drains < 2; drains++) {
        struct scene *scene = start(3, 1, 2);
        scene_progress(scene, 50); /* past a checkpoint */
        scene_upgrade(scene, 0);
        scene_upgrade(scene, 1);
        scene_run(scene, 0.1); /* until the new firnds have found the running workers */
        if (drains)
            scene_drain(scene, 2, SCENE_NO_DEADLINE);
        else
            scene_take_out(scene, 2, 0, false);
        scene_kill_worker(scene, 0, 0);
        scene_kill_worker(scene, 1, 0);
        scene_until(scene, 20, has_moved_over(scene));
        assert_int_equal(scene_plan(scene)->layout.worker_count, 2);
        scene_free(scene);
    }
}

/* The plan first leaves out a node whose firnd is away for longer than its lease, as always. */
static void test_a_node_that_is_gone_does_not_hold_up_the_others(void **state)
{
    (void)state;
    struct scene *scene = start(3, 1, 1);
    scene_upgrade(scene, 0);
    scene_upgrade(scene, 1);
    scene_stop_daemon(scene, 2);
    scene_until(scene, 30, scene_plan(scene)->layout.worker_count == 2);
    assert_int_equal(scene_plan(scene)->change.reason, PLAN_REASON_DRAIN);
    assert_int_equal(scene_plan(scene)->start.source, PLAN_SOURCE_MEMORY);
    scene_until(scene, 30, has_moved_over(scene));
    assert_int_equal(scene_plan(scene)->layout.worker_count, 2);
    scene->sim->nodes[2].links = 3;
    scene_start_daemon(scene, 2);
    scene_until(scene, 20, scene_plan(scene)->layout.worker_count == 3 && scene_trains(scene));
    assert_int_equal(scene->writes.restarts_from_disk, 0);
    scene_free(scene);
}

/* A job does not move to a kind with too few slots. */
static void test_too_few_new_slots_are_not_moved_to(void **state)
{
    (void)state;
    struct scene *scene = start(3, 1, 3);
    for (unsigned i = 0; i < 3; i++)
        scene_upgrade(scene, i);
    scene_take_out(scene, 2, 0, false);
    scene_progress(scene, 20);
    assert_int_equal(scene_plan(scene)->links.protocol, 2);
    scene_excuse(scene, 2);
    scene_until(scene, 20, has_moved_over(scene));
    scene_free(scene);
}

/* A downgrade is an upgrade to another version number. */
static void test_a_job_begins_on_the_kind_of_most_slots(void **state)
{
    (void)state;
    struct scene *scene = scene_new(3, 2);
    scene->sim->nodes[0].links = 3;
    /* concerns numerics only, and has no effect here */
    scene->sim->spec.elastic.mixed_devices = true;
    scene_begin(scene);
    scene_progress(scene, 5);
    assert_int_equal(scene_plan(scene)->links.protocol, 2);
    assert_int_equal(scene_plan(scene)->layout.worker_count, 4);
    scene_free(scene);
}

static void test_a_node_whose_firnd_is_not_understood_is_left_out(void **state)
{
    (void)state;
    struct scene *scene = scene_new(3, 2);
    scene->sim->nodes[1].machine.control = VERSIONS_CONTROL + 2;
    scene->sim->nodes[1].machine.control_oldest = VERSIONS_CONTROL + 1;
    scene->sim->nodes[2].machine.control = VERSIONS_CONTROL + 2;
    scene->sim->nodes[2].machine.control_oldest = VERSIONS_CONTROL;
    scene_begin(scene);
    scene_progress(scene, 5);
    assert_int_equal(scene_plan(scene)->layout.worker_count, 4);
    assert_int_equal(scene_rank(scene, 1, 0), -1);
    char words[96];
    snprintf(words, sizeof(words), "firnd on node b speaks control protocol %u, the leader %u",
             VERSIONS_CONTROL + 2, VERSIONS_CONTROL);
    scene_until(scene, TEXT_SECONDS, scene_says(scene, words));
    scene_free(scene);
}

/* ---- slots out of service ---- */

static void expect_wait_for_slot(bool comes_back, const char *text)
{
    struct scene *scene = scene_new(2, 2);
    scene->sim->spec.elastic.devices_min = 4;
    scene_power_on(scene, 0);
    scene_power_on(scene, 1);
    scene_take_out(scene, 1, 0, comes_back);
    scene_run(scene, 1);
    scene_submit(scene);
    scene_run(scene, 1);
    assert_null(scene_plan(scene));
    assert_string_equal(scene->state.text, text);
    scene_free(scene);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unlike_nodes_do_not_share_a_job),
        cmocka_unit_test(test_a_job_with_mixed_devices_gets_all_slots),
        cmocka_unit_test(test_unlike_slots_of_a_node_do_not_share_a_job),
        cmocka_unit_test(test_a_job_moves_over_when_all_nodes_are_upgraded),
        cmocka_unit_test(test_a_worker_lost_on_an_upgraded_node_has_no_successor),
        cmocka_unit_test(test_after_a_failure_that_old_workers_cannot_make_up_for),
        cmocka_unit_test(test_old_slots_that_do_not_serve_are_not_waited_for),
        cmocka_unit_test(test_a_node_that_is_gone_does_not_hold_up_the_others),
        cmocka_unit_test(test_too_few_new_slots_are_not_moved_to),
        cmocka_unit_test(test_a_job_begins_on_the_kind_of_most_slots),
        cmocka_unit_test(test_a_node_whose_firnd_is_not_understood_is_left_out),
        cmocka_unit_test(test_slots_out_of_service_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
