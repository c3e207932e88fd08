/*
 * Scenes with a slot that is slower than its peers, as rank 0 measures and judges it: another slot
 * takes over, or the job continues without the slow slot. The slot returns on probation, and must
 * not flap.
 */
#include "base/timeouts.h"
#include "sim/scene/scene_events.h"

#define LANE_NS        (80 * NS_PER_MS)
#define FACTOR         1.8
#define WINDOW_STEPS   5
#define RELIEF_SECONDS 10 /* two windows of slow steps, the report, and the change */
#define TERM_SECONDS   60

_Static_assert(TIMEOUTS_SLOW_SLOT_MIN == TERM_SECONDS * NS_PER_SECOND / SIM_FAILURE_TIMEOUT,
               "a slot that is slow for the first time is out for so long");

static struct scene *prepare(unsigned nodes)
{
    struct scene *scene = scene_new(nodes, 1);
    struct job_spec *spec = &scene->sim->spec;
    scene->sim->costs.lane_ns = LANE_NS;
    /* The micro-batch is so large that computing dominates the step. */
    spec->train.micro_batch = 64;
    spec->model.context = 256;
    spec->elastic.evict_stragglers.factor = FACTOR;
    spec->elastic.evict_stragglers.steps = WINDOW_STEPS;
    return scene;
}

static struct scene *start(unsigned nodes, unsigned devices)
{
    struct scene *scene = prepare(nodes);
    scene_wish(scene, &(struct desired_record){.devices = devices});
    scene_begin(scene);
    scene_progress(scene, 5);
    assert_int_equal(scene_plan(scene)->layout.worker_count, devices != 0 ? devices : nodes);
    return scene;
}

/*
 * Make a slot so slow that rank 0 measures @times: the step of a window that exceeds its reference
 * most counts as fast.
 */
static void slow_down(struct scene *scene, unsigned node, double times)
{
    scene->sim->nodes[node].machine.slowness[0] = (times * WINDOW_STEPS - 1) / (WINDOW_STEPS - 1);
}

static void recover(struct scene *scene, unsigned node)
{
    scene->sim->nodes[node].machine.slowness[0] = 1;
}

static bool uses(const struct scene *scene, unsigned node)
{
    return scene_uses(scene, node, 0);
}

static void check_relieved(const struct scene *scene, unsigned node, unsigned times)
{
    const struct plan *plan = scene_plan(scene);
    assert_int_equal(plan->change.reason, PLAN_REASON_STRAGGLER);
    assert_true(plan->change.planned);
    assert_int_equal(plan->start.source, PLAN_SOURCE_MEMORY);
    assert_int_equal(plan->slow_count, 1);
    assert_string_equal(plan->slow[0].node, sim_node_name(scene->sim, node));
    assert_int_equal(plan->slow[0].times, times);
    assert_int_equal(scene->writes.restarts_from_disk, 0);
}

static void test_without_another_slot_it_is_left_out(void **state)
{
    (void)state;
    struct scene *scene = start(3, 0);
    slow_down(scene, 1, 4);
    scene_until(scene, RELIEF_SECONDS, !uses(scene, 1));
    check_relieved(scene, 1, 1);
    assert_true(scene_explains(
        scene, "b/0 computes 4.0 times slower than its peers: 1 stage x 3 replicas"));
    assert_int_equal(scene_plan(scene)->layout.worker_count, 2);
    scene_progress(scene, 5);
    assert_int_equal(scene->writes.published, 2);
    scene_free(scene);
}

static unsigned lanes_of(const struct scene *scene, unsigned node)
{
    const struct plan_layout *layout = &scene_plan(scene)->layout;
    int rank = scene_rank(scene, node, 0);
    const unsigned *first = &layout->replica_first_lane[(unsigned)rank / layout->stage_count];
    return first[1] - first[0];
}

/* At half speed the slot still gets a third of the lanes; its recovery counts after its term. */
static void test_its_lanes_move_and_come_back(void **state)
{
    (void)state;
    struct scene *scene = start(2, 0);
    assert_int_equal(lanes_of(scene, 1), 3);
    slow_down(scene, 1, 2);
    scene_until(scene, RELIEF_SECONDS, scene_plan(scene)->change.reason == PLAN_REASON_STRAGGLER);
    assert_int_equal(scene_plan(scene)->layout.worker_count, 2);
    assert_int_equal(lanes_of(scene, 1), 2);
    check_relieved(scene, 1, 1);
    for (unsigned i = 0; i < 5; i++) { /* alternately slow and fast */
        slow_down(scene, 1, i % 2 ? 2 : 1);
        scene_run(scene, TERM_SECONDS / 6);
    }
    assert_int_equal(scene->writes.published, 2);
    recover(scene, 1);
    scene_until(scene, TERM_SECONDS, scene->writes.published == 3);
    assert_true(scene_explains(scene, "b/0 computes as fast as its peers again"));
    assert_int_equal(lanes_of(scene, 1), 3);
    scene_progress(scene, 5);
    scene_free(scene);
}

static void test_a_free_slot_takes_its_place(void **state)
{
    (void)state;
    struct scene *scene = start(3, 2);
    unsigned slow = uses(scene, 0) ? 0 : 1, spare = 0;
    while (uses(scene, spare))
        spare++;
    slow_down(scene, slow, 3);
    scene_until(scene, RELIEF_SECONDS, !uses(scene, slow));
    check_relieved(scene, slow, 1);
    assert_int_equal(scene_plan(scene)->layout.worker_count, 2);
    assert_true(uses(scene, spare));
    assert_int_equal(scene->writes.prepared, 1); /* ready before any worker stopped */
    scene_progress(scene, 5);
    scene_free(scene);
}

/*
 * The slot is out for its term, then on probation, and loses its mark after a long time without
 * trouble.
 */
static void test_it_comes_back_on_probation(void **state)
{
    (void)state;
    struct scene *scene = start(3, 0);
    slow_down(scene, 1, 4);
    scene_until(scene, RELIEF_SECONDS, !uses(scene, 1));
    recover(scene, 1);
    scene_run(scene, TERM_SECONDS - 5);
    assert_false(uses(scene, 1));
    scene_until(scene, 15, uses(scene, 1));
    assert_true(scene_explains(scene, "b/0, which was slow, is tried again"));
    assert_int_equal(scene_plan(scene)->slow_count, 1);
    assert_true(scene_plan(scene)->slow[0].speed >= 1);
    scene_run(scene, TERM_SECONDS + 5);
    assert_int_equal(scene->writes.published, 3);
    scene_drain(scene, 2, SCENE_NO_DEADLINE); /* every later plan forgets it */
    scene_until(scene, 10, !uses(scene, 2));
    assert_int_equal(scene_plan(scene)->slow_count, 0);
    scene_free(scene);
}

static void test_still_slow_it_is_left_out_for_twice_as_long(void **state)
{
    (void)state;
    struct scene *scene = start(3, 0);
    slow_down(scene, 1, 4);
    scene_until(scene, RELIEF_SECONDS, !uses(scene, 1));
    scene_until(scene, TERM_SECONDS + 15, uses(scene, 1));
    scene_until(scene, RELIEF_SECONDS, !uses(scene, 1));
    check_relieved(scene, 1, 2);
    scene_run(scene, 2 * TERM_SECONDS - 5);
    assert_false(uses(scene, 1));
    scene_until(scene, 15, uses(scene, 1));
    /* Ten minutes of flapping cost only a few changes. */
    scene_run(scene, 600);
    assert_in_range(scene->writes.published, 5, 10);
    scene_free(scene);
}

static void test_the_next_leader_knows_it(void **state)
{
    (void)state;
    struct scene *scene = start(3, 0);
    slow_down(scene, 1, 4);
    scene_until(scene, RELIEF_SECONDS, !uses(scene, 1));
    uint64_t out_ns = scene->sim->now_ns;
    scene_change_leader(scene);
    scene_run(scene, TERM_SECONDS - 5 - (double)(scene->sim->now_ns - out_ns) / NS_PER_SECOND);
    assert_false(uses(scene, 1));
    scene_free(scene);
}

static void test_a_new_firnd_begins_with_a_clean_slate(void **state)
{
    (void)state;
    struct scene *scene = start(3, 0);
    slow_down(scene, 1, 4);
    scene_until(scene, RELIEF_SECONDS, !uses(scene, 1));
    scene_progress(scene, 5);
    recover(scene, 1);
    scene_kill_node(scene, 1);
    scene_run(scene, 1);
    scene_return_node(scene, 1);
    scene_until(scene, 10, uses(scene, 1));
    assert_int_equal(scene_plan(scene)->slow_count, 0);
    scene_free(scene);
}

/* A slow slot is better than none: after a loss the leader uses it, and plans with its low speed.
 */
static void test_it_helps_out_when_it_is_needed(void **state)
{
    (void)state;
    struct scene *scene = start(3, 0);
    slow_down(scene, 1, 1.5); /* below every threshold */
    scene_run(scene, RELIEF_SECONDS);
    assert_int_equal(scene->writes.published, 1);
    slow_down(scene, 1, 4);
    scene_until(scene, RELIEF_SECONDS, !uses(scene, 1));
    scene_progress(scene, 5);
    scene_kill_node(scene, 0);
    scene_kill_node(scene, 2);
    scene_until(scene, 30, uses(scene, 1));
    assert_true(scene_plan(scene)->slow_count == 1 && scene_plan(scene)->slow[0].speed < 1);
    scene_free(scene);
}

static void test_where_nothing_is_faster_without_it_that_is_said(void **state)
{
    (void)state;
    struct scene *scene = prepare(3);
    scene_wish(scene, &(struct desired_record){.stages = 3, .replicas = 1});
    scene_begin(scene);
    scene_progress(scene, 5);
    /* Without replicas the judge compares with the slot's own best window. */
    scene_progress(scene, 2 * WINDOW_STEPS);
    slow_down(scene, 1, 3);
    scene_run(scene, 30);
    assert_int_equal(scene->writes.published, 1);
    assert_true(scene_says(scene, "b/0 computes 3.0 times slower than its peers, and no "
                                  "layout without it is faster"));
    scene_free(scene);
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
