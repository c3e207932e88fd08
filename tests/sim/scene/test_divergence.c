/* Scenes of a job that fails because the loss of a step is NaN. */
#include "membership/kv/keys.h"
#include "sim/fault/sim_faults.h"
#include "sim/scene/scene_events.h"

#define NAN_STEP         15
#define CHECKPOINT_EVERY 8
#define LANE_NS          (60 * NS_PER_MS)
#define HELD_BACK_NS     (3 * NS_PER_SECOND)

static bool holds(const struct sim_worker *worker)
{
    return worker->state.holds && worker->state.applied_step + 1 == NAN_STEP;
}

/* Pause both workers of the node when they hold the step: they hear no more, but could continue. */
static void hold_back(struct scene *scene, unsigned node)
{
    struct sim *sim = scene->sim;
    struct sim_worker *first = sim_worker_at(sim, node, 0), *second = sim_worker_at(sim, node, 1);
    while (!holds(first) || !holds(second))
        assert_true(sim_step(sim) && scene_committed(scene) < NAN_STEP);
    sim_worker_pause(first, sim->now_ns + HELD_BACK_NS);
    sim_worker_pause(second, sim->now_ns + HELD_BACK_NS);
}

/* With more than one node, the workers of the last node hear of the divergence last. */
static void expect_divergence(unsigned nodes)
{
    struct scene *scene = scene_new(nodes, 2);
    scene->sim->spec.checkpoint.every = CHECKPOINT_EVERY;
    scene->sim->faults->nan_step = NAN_STEP;
    scene->sim->costs.lane_ns = LANE_NS; /* the checkpoint is recorded before */
    scene_begin(scene);
    scene_progress(scene, 5);
    uint64_t generation = scene_plan(scene)->generation;
    if (nodes > 1)
        hold_back(scene, nodes - 1);
    scene_until(scene, 30, scene_is(scene, "failed"));
    assert_int_equal(scene_plan(scene)->generation, generation + 1);
    assert_int_equal(scene_alive(scene), 0);
    assert_string_equal(scene->state.text,
                        "step 15: the loss is NaN, so it changes no parameter (train.on_nan: "
                        "stop); to go on from the checkpoint of step 8 with other settings: "
                        "firnctl job submit --from");
    scene_free(scene);
}

static void test_a_job_that_diverges_fails_at_once(void **state)
{
    (void)state;
    expect_divergence(3);
    expect_divergence(1);
}

/* Step 15 shows that the parameters after step 14 are of no use: the checkpoint before is kept. */
static void test_the_checkpoint_before_the_last_stays(void **state)
{
    (void)state;
    struct scene *scene = scene_new(2, 1);
    char newest[KV_KEY_MAX], before[KV_KEY_MAX];
    scene->sim->spec.checkpoint.every = 7;
    scene->sim->faults->nan_step = NAN_STEP;
    scene->sim->costs.lane_ns = 5 * LANE_NS; /* recorded within the next step */
    scene_begin(scene);
    scene_until(scene, 30, scene_is(scene, "failed"));
    assert_true(scene_says(scene, "to go on from the checkpoint of step 14, or from an older one, "
                                  "with other settings"));
    scene_run(scene, 60); /* retention */
    assert_int_equal(scene->sim->spec.checkpoint.keep, 1);
    assert_non_null(
        sim_store_find(scene->sim->store, keys_checkpoint(newest, SIM_CLUSTER, SIM_JOB, 14)));
    assert_non_null(
        sim_store_find(scene->sim->store, keys_checkpoint(before, SIM_CLUSTER, SIM_JOB, 7)));
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_that_diverges_fails_at_once),
        cmocka_unit_test(test_the_checkpoint_before_the_last_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
