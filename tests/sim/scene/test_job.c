/*
 * Scenes of a job's life: it starts, is scaled, freezes, pauses and is cancelled, and its leader
 * and daemons change. They test the leader's decisions and their texts.
 */
#include <string.h>

#include "base/json.h"
#include "daemon/core/view.h"
#include "elastic/copies/copies.h"
#include "membership/kv/keys.h"
#include "sim/scene/scene_events.h"

#define LESS_THAN_A_WAIT 1.0 /* seconds: the leader collects events for SIM_FAILURE_TIMEOUT */

static const struct desired_record as_described = {.wish = RECORD_RUNNING};

/* Start a job with the pinned layout. */
static struct scene *start_pinned(unsigned nodes, unsigned slots, unsigned stages,
                                  unsigned replicas)
{
    struct scene *scene = scene_new(nodes, slots);
    scene_wish(scene, &(struct desired_record){.stages = stages, .replicas = replicas});
    scene_begin(scene);
    scene_progress(scene, 5);
    assert_int_equal(scene_plan(scene)->layout.stage_count, stages);
    assert_int_equal(scene_plan(scene)->layout.replica_count, replicas);
    return scene;
}

static void test_a_job_starts_when_there_are_slots(void **state)
{
    (void)state;
    struct scene *scene = scene_new(3, 2);
    scene->sim->spec.elastic.devices_min = 4;
    scene_power_on(scene, 0);
    scene_power_on(scene, 2);
    scene_drain(scene, 2, SCENE_NO_DEADLINE);
    scene_run(scene, 1);
    scene_submit(scene);
    scene_run(scene, 1);
    assert_null(scene_plan(scene));
    assert_true(scene_is(scene, "waiting"));
    assert_string_equal(scene->state.text,
                        "waits for slots: wants at least 4, 2 are free (node c is draining)");
    scene_power_on(scene, 1);
    scene_progress(scene, 3);
    assert_int_equal(scene_plan(scene)->generation, 1);
    assert_int_equal(scene_plan(scene)->change.reason, PLAN_REASON_START);
    assert_int_equal(scene_plan(scene)->start.source, PLAN_SOURCE_FRESH);
    scene_free(scene);
}

/* The job was submitted with a checkpoint that an earlier run of the job has written. */
static void test_a_job_begins_from_a_checkpoint_behind_its_generation(void **state)
{
    (void)state;
    struct scene *scene = scene_new(3, 2);
    scene_add_checkpoint(scene, 40, 7);
    scene_begin(scene);
    scene_until(scene, 3, scene_plan(scene));
    assert_int_equal(scene_plan(scene)->generation, 8);
    assert_int_equal(scene_plan(scene)->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(scene_plan(scene)->start.resume_step, 40);
    scene_progress(scene, 5);
    scene_free(scene);
}

/* The leaving nodes have the newest checkpoint, which may be on its way into an object store. */
static void test_an_empty_plan_says_where_files_lie(void **state)
{
    (void)state;
    struct scene *scene = scene_new(3, 2);
    scene->sim->spec.checkpoint.copies = 2;
    scene_begin(scene);
    scene_progress(scene, 5);
    scene_wish(scene, &(struct desired_record){.wish = RECORD_PAUSED});
    scene_until(scene, 5, scene_plan(scene)->layout.worker_count == 0);
    assert_int_equal(scene_plan(scene)->checkpoints.copy_node_count, 3);
    assert_int_equal(copies_writer_count(scene_plan(scene)), 0);
    scene_free(scene);
}

static void test_scaling_goes_down_and_up(void **state)
{
    (void)state;
    struct scene *scene = scene_training(3, 2);
    unsigned before = scene_plan(scene)->layout.worker_count;
    scene_wish(scene, &(struct desired_record){.devices = 2});
    scene_until(scene, LESS_THAN_A_WAIT, scene_plan(scene)->generation == 2);
    scene_until(scene, 10, scene_trains(scene) && scene_plan(scene)->layout.worker_count <= 2);
    assert_int_equal(scene_plan(scene)->change.reason, PLAN_REASON_SCALE);
    assert_true(scene_explains(scene, "another scale is asked for"));
    scene_until(scene, 10, scene_alive(scene) == scene_plan(scene)->layout.worker_count);
    scene_wish(scene, &as_described);
    scene_until(scene, 10, scene_trains(scene) && scene_plan(scene)->layout.worker_count == before);
    assert_int_equal(scene->writes.reasons[PLAN_REASON_FAILURE], 0);
    scene_free(scene);
}

static void test_pinned_layouts_are_followed(void **state)
{
    (void)state;
    struct scene *scene = start_pinned(3, 2, 3, 2);
    scene_wish(scene, &(struct desired_record){.stages = 2, .replicas = 3});
    scene_until(scene, 10, scene_trains(scene) && scene_plan(scene)->layout.stage_count == 2);
    /* more replicas than the slots, and more than the lanes */
    scene_wish(scene, &(struct desired_record){.stages = 1, .replicas = 7});
    scene_run(scene, 10);
    assert_int_equal(scene_plan(scene)->layout.stage_count, 2);
    assert_true(scene_says(scene, "7 replicas are asked for"));
    scene_progress(scene, 3);
    scene_free(scene);
}

/* The job's own schedule freezes its first layer after this step, and the second as much later. */
#define FREEZES_AFTER 500

/* Return the number of frozen layers that the leader knows. */
static unsigned frozen_layers(const struct scene *scene)
{
    char name[KV_KEY_MAX];
    AUTO_JSON json_t *tree = NULL;
    struct progress_record record;
    const struct sim_store_key *key =
        sim_store_find(scene->sim->store, keys_said(name, SIM_CLUSTER, SIM_JOB, "progress"));
    assert_non_null(key);
    assert_int_equal(json_parse(key->value, strlen(key->value), "progress", &tree, NULL), 0);
    assert_int_equal(progress_record_decode(tree, &record, NULL), 0);
    return record.frozen_layers;
}

static void test_freezing_shrinks_and_forks(void **state)
{
    (void)state;
    struct scene *scene = scene_new(3, 3);
    scene->sim->spec.elastic.freeze.policy = JOB_FREEZE_SCHEDULE;
    scene->sim->spec.elastic.freeze.every = FREEZES_AFTER;
    scene->sim->spec.elastic.pipeline =
        JOB_PIPELINE_1F1B; /* so that fewer stages are better then */
    scene->sim->costs.lane_ns = 40 * NS_PER_MS;
    scene_begin(scene);
    scene_progress(scene, 5);
    assert_int_equal(scene_plan(scene)->layout.stage_count, 3);
    assert_int_equal(scene_plan(scene)->layout.replica_count, 3);
    scene_until(scene, 60, frozen_layers(scene) == 1);
    scene_until(scene, LESS_THAN_A_WAIT, scene_plan(scene)->generation == 2);
    scene_until(scene, 10, scene_trains(scene));
    assert_int_equal(scene_plan(scene)->change.reason, PLAN_REASON_FREEZE);
    assert_int_equal(scene_plan(scene)->layout.frozen_layers, 1);
    assert_int_equal(scene_plan(scene)->layout.stage_count, 2);
    assert_int_equal(scene_plan(scene)->layout.replica_count, 4); /* two pairs share a lane each */
    assert_int_equal(scene->writes.prepared, 0);                  /* all processes are running */
    /* Simulated stages never wait for each other, so nine workers are faster than eight, against
     * any prediction of the planner: the job goes back, and does not try that layout again. */
    scene_until(scene, 10, scene_plan(scene)->generation == 3);
    assert_non_null(strstr(scene_plan(scene)->change.text, "longer than"));
    assert_int_equal(scene_plan(scene)->layout.stage_count, 3);
    assert_int_equal(scene_plan(scene)->layout.replica_count, 3);
    scene_run(scene, 20);
    assert_in_range(scene_committed(scene), FREEZES_AFTER + 1, 2 * FREEZES_AFTER - 1);
    assert_int_not_equal(scene_plan(scene)->layout.stage_count, 2);
    scene_free(scene);
}

static void test_a_loss_at_the_start_is_no_lost_work(void **state)
{
    (void)state;
    struct scene *scene = scene_new(2, 1);
    scene_wish(scene, &(struct desired_record){.stages = 2});
    scene_begin(scene);
    scene_until(scene, 5, scene_trains(scene));
    assert_int_equal(scene_committed(scene), 0);
    assert_int_equal(scene_rank(scene, 1, 0), 1);
    scene_kill_worker(scene, 1, 0);
    scene_until(scene, 2, scene_plan(scene)->generation == 2);
    assert_true(scene_explains(scene, " at the start: "));
    assert_true(scene_explains(scene, " from step 0"));
    assert_false(scene_explains(scene, "nothing but time is lost"));
    scene_free(scene);
}

/* The leader changes a layout in which one node has the only replicas, even without a gain in
 * speed.
 */
static void test_stages_are_spread_when_another_node_can_have_copies(void **state)
{
    (void)state;
    struct scene *scene = scene_new(2, 2);
    scene->sim->spec.elastic.shadow = true;
    scene->sim->spec.elastic.devices_max = 2;
    scene_wish(scene, &(struct desired_record){.stages = 2});
    scene_power_on(scene, 0);
    scene_submit(scene);
    scene_progress(scene, 5);
    assert_int_equal(scene_plan(scene)->layout.shadow_count, 0);
    scene_until(scene, 1, scene_says(scene, "2 stages have no shadow"));
    scene_power_on(scene, 1);
    scene_until(scene, 20, scene_plan(scene)->change.planned && scene_trains(scene));
    assert_int_equal(scene_plan(scene)->layout.shadow_count, 2);
    scene_progress(scene, 5);
    scene_run(scene, 60);
    assert_int_equal(scene->writes.published, 2);
    assert_false(scene_says(scene, "no shadow"));
    scene_free(scene);
}

static void test_pausing_saves_and_resuming_continues(void **state)
{
    (void)state;
    struct scene *scene = scene_training(3, 2);
    scene_wish(scene, &(struct desired_record){.wish = RECORD_PAUSED});
    scene_until(scene, 5, scene_is(scene, "paused"));
    assert_int_equal(scene_alive(scene), 0);
    assert_int_equal(scene_checkpoint(scene), scene_committed(scene));
    uint64_t step = scene_committed(scene);
    scene_wish(scene, &as_described);
    scene_until(scene, 5, scene_plan(scene)->layout.worker_count > 0);
    assert_int_equal(scene_plan(scene)->change.reason, PLAN_REASON_RESUME);
    assert_int_equal(scene_plan(scene)->start.resume_step, step);
    scene_progress(scene, 5);
    scene_free(scene);
}

static void test_a_worker_that_dies_while_pausing_loses_nothing(void **state)
{
    (void)state;
    struct scene *scene = start_pinned(3, 2, 3, 2);
    uint64_t step = scene_committed(scene);
    scene_wish(scene, &(struct desired_record){.wish = RECORD_PAUSED, .stages = 3, .replicas = 2});
    scene_until(scene, 5, scene_plan(scene)->layout.worker_count == 0);
    scene_wish(scene, &(struct desired_record){.wish = RECORD_PAUSED});
    scene_kill_worker(scene, 0, 0);
    scene_until(scene, 20, scene_is(scene, "paused"));
    assert_true(scene_checkpoint(scene) >= step);
    assert_int_equal(scene->writes.restarts_from_disk, 0);
    scene_free(scene);
}

static void test_cancelling_ends_it_at_once(void **state)
{
    (void)state;
    struct scene *scene = scene_training(3, 2);
    uint64_t checkpoint = scene_checkpoint(scene);
    /* deaf workers must be killed */
    scene->sim->nodes[0].machine.is_deaf = scene->sim->nodes[2].machine.is_deaf = true;
    scene_wish(scene, &(struct desired_record){.wish = RECORD_CANCELLED});
    scene_until(scene, 5, scene_is(scene, "cancelled"));
    assert_int_equal(scene_alive(scene), 0);
    assert_true(scene_checkpoint(scene) <= checkpoint + SCENE_CHECKPOINT_EVERY);
    scene_free(scene);
}

static void test_a_new_leader_carries_on_with_what_is_prepared(void **state)
{
    (void)state;
    struct scene *scene = scene_training(3, 2);
    scene_wish(scene, &(struct desired_record){.devices = 2});
    scene_until(scene, 10, scene_trains(scene) && scene_plan(scene)->layout.worker_count <= 2);
    scene_until(scene, 10, scene_alive(scene) == scene_plan(scene)->layout.worker_count);
    scene_wish(scene, &as_described);
    scene_until(scene, 10, scene_next(scene));
    uint64_t prepared = scene_next(scene)->generation;
    scene_change_leader(scene);
    scene_until(scene, 10, scene_plan(scene)->generation == prepared && scene_trains(scene));
    assert_int_equal(scene->writes.dropped, 0);
    scene_free(scene);
}

/* Return the leader's view of the job. */
static struct view *view_of_leader(struct scene *scene)
{
    struct sim *sim = scene->sim;
    struct view *view = NULL;
    struct error error = {0};
    const struct sim_firnd *firnd = sim->nodes[scene_leader(scene)].firnd;
    assert_int_equal(view_make(&firnd->daemon.keys.mirror, SIM_CLUSTER, SIM_JOB, sim->now_ns,
                               SIM_FAILURE_TIMEOUT, NULL, &view, &error),
                     0);
    return view;
}

static void test_the_same_view_gives_the_same_decision(void **state)
{
    (void)state;
    struct scene *scene = start_pinned(3, 2, 3, 2);
    struct view *view = view_of_leader(scene);
    view->nodes[0].draining = true;
    view->view.wish.stages = view->view.wish.replicas = 0;
    struct leader_decision decisions[3];
    struct error error;
    for (unsigned i = 0; i < 3; i++) {
        struct leader_memory memory = {0};
        assert_int_equal(leader_decide(&view->view, &memory, &decisions[i], &error), 0);
        assert_non_null(decisions[i].plan);
        json_t *first = plan_encode(decisions[0].plan), *this = plan_encode(decisions[i].plan);
        assert_true(json_equal(first, this));
        json_decref(first);
        json_decref(this);
    }
    for (unsigned i = 0; i < 3; i++)
        plan_free(decisions[i].plan);
    view_free(view);
    scene_free(scene);
}

static void test_nodes_that_join_together_make_one_generation(void **state)
{
    (void)state;
    struct scene *scene = scene_new(4, 2);
    scene_power_on(scene, 0);
    scene_submit(scene);
    scene_progress(scene, 5);
    unsigned before = scene->writes.published;
    for (unsigned i = 1; i < 4; i++) {
        scene_return_node(scene, i);
        scene_run(scene, 0.3);
    }
    scene_until(scene, 10, scene_trains(scene) && scene->writes.published > before);
    scene_run(scene, 20);
    assert_int_equal(scene->writes.published, before + 1);
    scene_free(scene);
}

static bool is_out(const struct scene *scene, unsigned node, unsigned slot)
{
    return scene->sim->nodes[node].firnd->daemon.node.self.slots[slot].bad[0] != '\0';
}

static void test_a_slot_that_cannot_start_is_given_up(void **state)
{
    (void)state;
    struct scene *scene = scene_new(2, 2);
    scene_power_on(scene, 0);
    scene_submit(scene);
    scene_progress(scene, 5);
    scene->sim->nodes[1].starts_fail = true;
    scene_power_on(scene, 1);
    scene_until(scene, 120, is_out(scene, 1, 0) && is_out(scene, 1, 1));
    scene_until(scene, 60, !scene_next(scene));
    scene_run(scene, 60);
    assert_null(scene_next(scene));
    assert_int_equal(scene_rank(scene, 1, 0), -1);
    scene_progress(scene, 5);
    scene_free(scene);
}

static void test_a_restarted_daemon_disturbs_nobody(void **state)
{
    (void)state;
    struct scene *scene = scene_training(3, 2);
    for (unsigned i = 0; i < 3; i++) {
        scene_stop_daemon(scene, i);
        scene_run(scene, 2);
        scene_start_daemon(scene, i);
        scene_run(scene, 1);
    }
    scene_progress(scene, 5);
    assert_int_equal(scene_plan(scene)->generation, 1);
    scene_free(scene);
}

/*
 * The workers of the node train on, but receive no plans: the leader replaces them at a boundary.
 */
static void test_a_node_without_lease_is_left_without_a_failure(void **state)
{
    (void)state;
    struct scene *scene = scene_training(3, 2);
    scene_stop_daemon(scene, 1);
    scene_until(scene, 20, scene_plan(scene)->generation == 2);
    assert_true(scene_plan(scene)->change.planned);
    assert_true(scene_explains(scene, "node b is gone"));
    scene_start_daemon(scene, 1);
    scene_progress(scene, 5);
    assert_int_equal(scene->writes.restarts_from_disk, 0);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_starts_when_there_are_slots),
        cmocka_unit_test(test_a_job_begins_from_a_checkpoint_behind_its_generation),
        cmocka_unit_test(test_an_empty_plan_says_where_files_lie),
        cmocka_unit_test(test_scaling_goes_down_and_up),
        cmocka_unit_test(test_pinned_layouts_are_followed),
        cmocka_unit_test(test_freezing_shrinks_and_forks),
        cmocka_unit_test(test_a_loss_at_the_start_is_no_lost_work),
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
