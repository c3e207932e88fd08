/*
 * Tests of sums that a donor gives to the worker in its place, over real links: what arrives late,
 * and what never arrives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/mesh_harness.h"
#include "lib/elastic/ranked_plan.h"
#include "lib/worker/tiny_state.h"

#include "base/clock.h"
#include "worker/step/engine.h"
#include "worker/step/moved_sums.h"

#define STEP          7
#define LANES         4
#define MICRO_BATCHES 2
#define UNIT          2
#define LATE_NS       (NS_PER_SECOND / 4) /* longer than the thread waits without looking around */

/* Rank 0 takes the place of rank 1, which has lanes 0 and 1 of all units. */
struct scene {
    struct world world;
    struct plan *plan;
    unsigned first_unit[2], first_lane[2];
    struct tiny_state tiny[2];
    struct step_division division;
    struct kept_step *kept;
    struct moved_sums *sums[2];
    struct gradients *gradients; /* of rank 0 */
    unsigned looks;
    bool late; /* the donor sends after a while */
    int result;
    pthread_t donor;
};

static void fill(float *values, size_t count, unsigned lane)
{
    for (size_t i = 0; i < count; i++)
        values[i] += (float)i + (float)lane / 8;
}

static struct gradients *new_gradients(struct scene *scene, unsigned rank,
                                       const struct step_sums *offered)
{
    const struct gradients_options options = {.state = scene->tiny[rank].state,
                                              .unit_count = scene->tiny[rank].state->unit_count,
                                              .division = &scene->division,
                                              .offered = offered};
    struct gradients *gradients = NULL;
    struct error error = {0};

    assert_int_equal(gradients_new(&options, &gradients, &error), 0);
    gradients_begin(gradients);
    return gradients;
}

/* Compute lanes 0 and 1 on rank 1, and keep the step. */
static void keep(struct scene *scene)
{
    struct state *state = scene->tiny[1].state;
    unsigned counts[LANES] = {MICRO_BATCHES, MICRO_BATCHES};
    struct gradients *gradients = new_gradients(scene, 1, NULL);
    struct engine engine = {.state = state,
                            .gradients = gradients,
                            .share = {.division = &scene->division, .loss_counts = counts}};

    for (unsigned unit = 0; unit < state->unit_count; unit++)
        for (unsigned lane = 0; lane < 2; lane++)
            for (unsigned m = 0; m < MICRO_BATCHES; m++) {
                fill(gradients_buffer(gradients, unit, lane, m), state->units[unit].layout.count,
                     lane);
                gradients_added(gradients, unit, lane, m);
            }
    step_record_init(&state->hold, STEP, state->unit_count, LANES);
    state->hold.lane_losses[0] = state->hold.lane_losses[1] = 1.5;
    scene->kept = kept_step_new(&engine, NULL);
    assert_non_null(scene->kept);
}

static void scene_init(struct scene *scene)
{
    static struct plan_move pair = {.from_rank = 1, .to_rank = 0};

    memset(scene, 0, sizeof(*scene));
    world_init(&scene->world, 2);
    world_open(&scene->world);
    for (unsigned rank = 0; rank < 2; rank++) {
        tiny_state_init(&scene->tiny[rank], false);
        scene->tiny[rank].spec.train.lanes = LANES;
        scene->tiny[rank].spec.train.micro_batches_per_lane = MICRO_BATCHES;
        scene->tiny[rank].spec.train.micro_batch = 1;
        scene->tiny[rank].state->applied_step = STEP - 1;
    }
    scene->plan = ranked_plan(2);
    scene->plan->layout.worker_count = scene->plan->layout.donor_count = 1;
    scene->plan->layout.stage_count = scene->plan->layout.replica_count = 1;
    scene->plan->layout.stage_first_unit = calloc(2, sizeof(unsigned));
    scene->plan->layout.replica_first_lane = calloc(2, sizeof(unsigned));
    scene->plan->start.sums = malloc(sizeof(pair));
    assert_true(scene->plan->layout.stage_first_unit && scene->plan->layout.replica_first_lane &&
                scene->plan->start.sums);
    scene->plan->layout.stage_first_unit[1] = scene->tiny[0].state->unit_count;
    scene->plan->layout.replica_first_lane[1] = LANES;
    scene->plan->start.sums[0] = pair;
    scene->plan->start.sums_count = 1;
    step_division_plan(&scene->plan->layout, LANES, MICRO_BATCHES, &scene->division);
    keep(scene);
}

static void scene_done(struct scene *scene)
{
    gradients_free(scene->gradients);
    kept_step_free(scene->kept);
    world_close(&scene->world);
    world_done(&scene->world);
    plan_free(scene->plan);
    for (unsigned rank = 0; rank < 2; rank++) {
        arena_end(scene->tiny[rank].state->arena);
        tiny_state_done(&scene->tiny[rank]);
    }
}

static int open_sums(struct scene *scene, unsigned rank)
{
    return moved_sums_new(scene->tiny[rank].state, scene->plan, rank, scene->world.meshes[rank],
                          rank == 1 ? scene->kept : NULL, true, &scene->sums[rank]);
}

static bool is_late(const void *context)
{
    const uint64_t *until_ns = context;

    return clock_monotonic_ns() >= *until_ns;
}

static void *run_donor(void *context)
{
    struct scene *scene = context;
    uint64_t until_ns = clock_monotonic_ns() + LATE_NS;

    scene->result = open_sums(scene, 1);
    while (!scene->result && scene->late && !is_late(&until_ns))
        sched_yield();
    if (!scene->result)
        scene->result = moved_sums_settle(scene->sums[1], NULL);
    if (!scene->result)
        scene->result = moved_sums_await_release(scene->sums[1]);
    return NULL;
}

static void look(void *context)
{
    struct scene *scene = context;

    scene->looks++;
    assert_int_equal(moved_sums_advance(scene->sums[0]), 0);
}

/* Rank 0 divides the step by what it is offered. */
static void divide(struct scene *scene)
{
    CLEANUP(step_facts_done) struct step_facts facts = {0};

    assert_int_equal(moved_sums_facts(scene->sums[0], &facts), 0);
    assert_non_null(facts.lanes);
    step_division_continue(&scene->plan->layout, 0, STEP, LANES, MICRO_BATCHES, &facts,
                           &scene->division);
    assert_int_equal(scene->division.step, STEP);
    assert_int_equal(step_division_left(&scene->division, 0), 2 * MICRO_BATCHES);
    assert_int_equal(moved_sums_settle(scene->sums[0], &scene->division), 0);
    scene->gradients = new_gradients(scene, 0, moved_sums_list(scene->sums[0]));
}

/* The thread that waits looks around, as the worker does during a step. */
static void test_late_sums_are_waited_for(void **state)
{
    struct scene *scene = malloc(sizeof(*scene));
    struct lane_sum found[GRADIENTS_SUMS_MAX];

    (void)state;
    assert_non_null(scene);
    scene_init(scene);
    scene->late = true;
    assert_int_equal(pthread_create(&scene->donor, NULL, run_donor, scene), 0);
    assert_int_equal(open_sums(scene, 0), 0);
    divide(scene);
    assert_int_equal(moved_sums_arrive(scene->sums[0], scene->gradients), 0);
    mesh_meanwhile(scene->world.meshes[0], look, scene);
    for (unsigned unit = scene->tiny[0].state->unit_count; unit-- > 0;)
        assert_int_equal(moved_sums_await_unit(scene->sums[0], unit), 0);
    mesh_meanwhile(scene->world.meshes[0], NULL, NULL);
    assert_true(scene->looks > 0);
    assert_int_equal(moved_sums_advance(scene->sums[0]), 0);
    assert_true(moved_sums_have_arrived(scene->sums[0]));
    assert_int_equal(pthread_join(scene->donor, NULL), 0);
    assert_int_equal(scene->result, 0);
    assert_int_equal(gradients_sums(scene->gradients, UNIT, found), 1);
    const float *sum = gradients_sum(scene->gradients, UNIT, found[0].span);
    for (unsigned i = 0; i < scene->tiny[0].state->units[UNIT].layout.count; i++)
        assert_true(sum[i] == 4 * (float)i + 0.25f);
    moved_sums_close(scene->sums[1], NULL);
    moved_sums_close(scene->sums[0], scene->gradients);
    assert_int_equal(gradients_sums(scene->gradients, UNIT, found), 1);
    scene_done(scene);
    free(scene);
}

/* The links break before the first receive is posted. */
static void test_sums_that_never_arrive_are_none(void **state)
{
    struct scene *scene = malloc(sizeof(*scene));
    struct lane_sum found[GRADIENTS_SUMS_MAX];

    (void)state;
    assert_non_null(scene);
    scene_init(scene);
    assert_int_equal(pthread_create(&scene->donor, NULL, run_donor, scene), 0);
    assert_int_equal(open_sums(scene, 0), 0);
    divide(scene);
    mesh_abort(scene->world.meshes[0], "the test breaks the links");
    assert_int_equal(moved_sums_arrive(scene->sums[0], scene->gradients), -ECONNRESET);
    assert_int_equal(pthread_join(scene->donor, NULL), 0);
    assert_int_equal(scene->result, -ECONNRESET);
    moved_sums_close(scene->sums[1], NULL);
    moved_sums_close(scene->sums[0], scene->gradients);
    for (unsigned unit = 0; unit < scene->tiny[0].state->unit_count; unit++)
        assert_int_equal(gradients_sums(scene->gradients, unit, found), 0);
    scene_done(scene);
    free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_sums_are_waited_for),
        cmocka_unit_test(test_sums_that_never_arrive_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
