/*
 * Scenes in which a node is drained, or announces that it will leave: the job hands over in memory,
 * or writes a checkpoint if there is no time, or no room, for that.
 */
#include "sim/scene/scene_events.h"

static void test_draining_hands_over_and_leaves(void **state)
{
    (void)state;
    struct scene *scene = scene_training(3, 2);
    scene_drain(scene, 2, SCENE_NO_DEADLINE);
    scene_until(scene, 5, scene_plan(scene)->change.reason == PLAN_REASON_DRAIN);
    assert_true(scene_plan(scene)->change.planned);
    assert_false(scene_uses(scene, 2, 0) || scene_uses(scene, 2, 1));
    assert_int_equal(scene_rank(scene, 2, 0), -1); /* others have its state: no donor */
    scene_until(scene, 5, scene_alive_on(scene, 2) == 0);
    scene_progress(scene, 5);
    assert_int_equal(scene->writes.published, 2);
    assert_int_equal(scene->writes.reasons[PLAN_REASON_FAILURE], 0);
    scene_free(scene);
}

/*
 * Start three stages on three nodes and preempt one node at a given time; two nodes are enough.
 */
static struct scene *start_preempted(uint64_t left_ns)
{
    struct scene *scene = scene_new(3, 1);
    scene_wish(scene, &(struct desired_record){.stages = 3, .replicas = 1});
    scene_begin(scene);
    scene_progress(scene, 5);
    assert_int_equal(scene_plan(scene)->layout.stage_count, 3);
    scene_wish(scene, &(struct desired_record){.wish = RECORD_RUNNING});
    scene_drain(scene, 2, scene->sim->now_ns + left_ns);
    scene_until(scene, 5, scene_plan(scene)->change.reason == PLAN_REASON_DRAIN);
    return scene;
}

static void test_with_time_enough_a_node_that_goes_hands_over(void **state)
{
    (void)state;
    struct scene *scene = start_preempted(30 * NS_PER_SECOND);
    assert_int_equal(scene_plan(scene)->layout.worker_count, 2);
    assert_int_equal(scene_plan(scene)->start.source, PLAN_SOURCE_MEMORY);
    scene_progress(scene, 5);
    assert_int_equal(scene->writes.restarts_from_disk, 0);
    scene_free(scene);
}

static void test_without_time_enough_there_is_an_emergency_checkpoint(void **state)
{
    (void)state;
    struct scene *scene = start_preempted(1);
    uint64_t step = scene_committed(scene);
    assert_int_equal(scene_plan(scene)->layout.worker_count, 0);
    assert_true(scene_explains(scene, "handing over"));
    scene_until(scene, 10, scene_plan(scene)->layout.worker_count == 2);
    assert_int_equal(scene_plan(scene)->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_true(scene_plan(scene)->start.resume_step >= step); /* no step is computed twice */
    scene_progress(scene, 5);
    assert_int_equal(scene->writes.reasons[PLAN_REASON_FAILURE], 0);
    scene_free(scene);
}

static void test_a_job_that_cannot_do_without_a_draining_node_checkpoints_and_waits(void **state)
{
    (void)state;
    struct scene *scene = scene_new(2, 2);
    scene->sim->spec.elastic.devices_min = 3;
    scene_begin(scene);
    scene_progress(scene, 5);
    uint64_t step = scene_committed(scene);
    scene_drain(scene, 0, SCENE_NO_DEADLINE);
    scene_until(scene, 10, scene_plan(scene)->change.reason == PLAN_REASON_DRAIN);
    assert_int_equal(scene_plan(scene)->layout.worker_count, 0);
    assert_true(scene_plan(scene)->change.planned);
    scene_until(scene, 10, scene_is(scene, "waiting"));
    assert_int_equal(scene_alive(scene), 0);
    assert_true(scene_says(scene, "node a is draining"));
    /* No step was lost: the job continues from the boundary at which the node left. */
    scene_drain_no_more(scene, 0);
    scene_until(scene, 10, scene_trains(scene));
    assert_int_equal(scene_plan(scene)->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_true(scene_plan(scene)->start.resume_step >= step);
    scene_progress(scene, 5);
    scene_free(scene);
}

/* The new worker takes the place of the leaving worker, in any order of their names. */
static void test_who_stays_keeps_its_stage(void **state)
{
    (void)state;
    struct scene *scene = scene_new(3, 1);
    scene_wish(scene, &(struct desired_record){.stages = 2, .replicas = 1});
    scene_begin(scene);
    scene_progress(scene, 5);
    assert_int_equal(scene_rank(scene, 0, 0), 0);
    assert_int_equal(scene_rank(scene, 1, 0), 1);
    scene_drain(scene, 0, SCENE_NO_DEADLINE);
    scene_until(scene, 10, scene_plan(scene)->generation == 2);
    assert_int_equal(scene_rank(scene, 1, 0), 1);
    assert_int_equal(scene_rank(scene, 2, 0), 0);
    for (unsigned i = 0; i < scene_plan(scene)->start.move_count; i++)
        assert_int_equal(scene_plan(scene)->start.moves[i].to_rank, 0);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draining_hands_over_and_leaves),
        cmocka_unit_test(test_with_time_enough_a_node_that_goes_hands_over),
        cmocka_unit_test(test_without_time_enough_there_is_an_emergency_checkpoint),
        cmocka_unit_test(test_a_job_that_cannot_do_without_a_draining_node_checkpoints_and_waits),
        cmocka_unit_test(test_who_stays_keeps_its_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
