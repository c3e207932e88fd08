/*
 * Tests of a lane that two replicas share, over real links: what is passed on, and what is left of
 * it wherever the step breaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/comm/mesh_harness.h"
#include "lib/elastic/ranked_plan.h"
#include "lib/worker/tiny_state.h"

#include "elastic/plan/lanes.h"
#include "worker/step/kept_step.h"
#include "worker/step/lane_relay.h"

#define STEP          7
#define LANES         3
#define MICRO_BATCHES 4
#define HEAD          2 /* micro-batches of lane SHARED that rank 0 computes for rank 1 */
#define SHARED        1
#define UNIT          2

static const struct lane_tree_span shared_span = {SHARED, 1};

/* Rank 0 has lane 0 and the head of lane 1, rank 1 the rest of it and lane 2. */
struct scene {
    struct world world;
    struct plan *plan;
    struct tiny_state tiny[2];
    struct step_division division;
    unsigned counts[2][LANES]; /* of losses */
    struct engine engines[2];
};

static unsigned unit_count(const struct scene *scene)
{
    return scene->tiny[0].state->unit_count;
}

/* @kept: of the step before it broke; NULL: nothing */
static void make_engine(struct scene *scene, unsigned rank, struct kept_step *kept)
{
    struct state *state = scene->tiny[rank].state;
    const struct gradients_options options = {.state = state,
                                              .unit_count = state->unit_count,
                                              .replica = rank,
                                              .division = &scene->division,
                                              .kept = kept ? kept_step_take_gradients(kept) : NULL};
    struct engine *engine = &scene->engines[rank];
    struct error error = {0};

    *engine = (struct engine){
        .state = state,
        .plan = scene->plan,
        .mesh = scene->world.meshes[rank],
        .part = {.rank = rank, .replica = rank, .unit_count = state->unit_count},
        .share = {.division = &scene->division, .loss_counts = scene->counts[rank]}};
    assert_int_equal(gradients_new(&options, &engine->gradients, &error), 0);
    assert_int_equal(lane_relay_new(engine, &engine->share.relay, &error), 0);
    assert_non_null(engine->share.relay);
}

static struct scene *begin_scene(void)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    world_init(&scene->world, 2);
    world_open(&scene->world);
    scene->plan = ranked_plan(2);
    struct plan_layout *layout = &scene->plan->layout;
    for (unsigned rank = 0; rank < 2; rank++)
        tiny_state_init(&scene->tiny[rank], false);
    layout->worker_count = layout->replica_count = 2;
    layout->stage_count = 1;
    layout->stage_first_unit = calloc(2, sizeof(unsigned));
    layout->replica_first_lane = calloc(3, sizeof(unsigned));
    layout->replica_head = calloc(3, sizeof(unsigned));
    assert_true(layout->stage_first_unit && layout->replica_first_lane && layout->replica_head);
    layout->stage_first_unit[1] = unit_count(scene);
    layout->lane_micro_batches = MICRO_BATCHES;
    assert_true(lanes_share(LANES, MICRO_BATCHES, NULL, 2, 0, layout->replica_first_lane,
                            layout->replica_head));
    step_division_plan(layout, LANES, MICRO_BATCHES, &scene->division);
    assert_int_equal(scene->division.heads[SHARED], HEAD);
    for (unsigned rank = 0; rank < 2; rank++)
        make_engine(scene, rank, NULL);
    return scene;
}

static void end_scene(struct scene *scene)
{
    for (unsigned rank = 0; rank < 2; rank++)
        gradients_free(scene->engines[rank].gradients);
    world_close(&scene->world);
    world_done(&scene->world);
    plan_free(scene->plan);
    for (unsigned rank = 0; rank < 2; rank++) {
        arena_end(scene->tiny[rank].state->arena);
        tiny_state_done(&scene->tiny[rank]);
    }
    free(scene);
}

static void begin_step(struct scene *scene, uint64_t step)
{
    for (unsigned rank = 0; rank < 2; rank++) {
        struct engine *engine = &scene->engines[rank];
        step_record_init(&engine->state->hold, step, unit_count(scene), LANES);
        memset(scene->counts[rank], 0, sizeof(scene->counts[rank]));
        lane_relay_forget(engine->share.relay);
        gradients_begin(engine->gradients);
        assert_int_equal(lane_relay_begin(engine->share.relay), 0);
    }
}

/* Add a micro-batch of the shared lane to a unit, as the pipeline does. */
static void add(struct scene *scene, unsigned rank, unsigned unit, unsigned index)
{
    struct engine *engine = &scene->engines[rank];

    assert_int_equal(lane_relay_await(engine->share.relay, unit, SHARED, index), 0);
    float *sum = gradients_buffer(engine->gradients, unit, SHARED, index);
    for (unsigned i = 0; i < engine->state->units[unit].layout.count; i++)
        sum[i] += (float)(i % 64) + (float)index / 8;
    gradients_added(engine->gradients, unit, SHARED, index);
    assert_int_equal(lane_relay_added(engine->share.relay, unit, SHARED, index), 0);
}

static void add_loss(struct scene *scene, unsigned rank, unsigned index)
{
    struct engine *engine = &scene->engines[rank];
    double *loss = &engine->state->hold.lane_losses[SHARED];

    assert_int_equal(lane_relay_await_loss(engine->share.relay, SHARED, index), 0);
    *loss = index > 0 ? *loss + 0.5 : 0.5;
    scene->counts[rank][SHARED] = index + 1;
    assert_int_equal(lane_relay_added_loss(engine->share.relay, SHARED, index), 0);
}

/* Compute micro-batches of the shared lane in all units from @first_unit on. */
static void run(struct scene *scene, unsigned rank, unsigned first, unsigned end,
                unsigned first_unit)
{
    for (unsigned index = first; index < end; index++)
        for (unsigned unit = unit_count(scene); unit-- > first_unit;)
            add(scene, rank, unit, index);
}

static void expect_sum(const struct scene *scene, unsigned rank, unsigned unit,
                       unsigned micro_batches)
{
    const float *sum = gradients_sum(scene->engines[rank].gradients, unit, shared_span);

    assert_non_null(sum);
    for (unsigned i = 0; i < scene->tiny[rank].state->units[unit].layout.count; i++) {
        float expected = 0;
        for (unsigned index = 0; index < micro_batches; index++)
            expected += (float)(i % 64) + (float)index / 8;
        assert_true(sum[i] == expected);
    }
}

static void close_relays(struct scene *scene)
{
    for (unsigned rank = 0; rank < 2; rank++) {
        lane_relay_close(scene->engines[rank].share.relay);
        scene->engines[rank].share.relay = NULL;
    }
}

/* Return the micro-batches of the shared lane in the sum of @unit. */
static unsigned known(const struct scene *scene, unsigned rank, unsigned unit)
{
    struct lane_sum sums[GRADIENTS_SUMS_MAX];
    unsigned count = gradients_sums(scene->engines[rank].gradients, unit, sums);

    for (unsigned i = 0; i < count; i++)
        if (sums[i].span.first == SHARED)
            return sums[i].micro_batches;
    return 0;
}

static void finish_parts(struct scene *scene)
{
    run(scene, 0, 0, HEAD, 0);
    for (unsigned index = 0; index < HEAD; index++)
        add_loss(scene, 0, index);
    for (unsigned index = HEAD; index < MICRO_BATCHES; index++)
        add_loss(scene, 1, index);
    run(scene, 1, HEAD, MICRO_BATCHES, 0);
    for (unsigned rank = 0; rank < 2; rank++)
        assert_int_equal(lane_relay_finish(scene->engines[rank].share.relay), 0);
}

/* Two steps: the second has nothing of the first. */
static void test_the_rest_goes_on_with_the_head(void **state)
{
    struct scene *scene = begin_scene();

    (void)state;
    for (uint64_t step = STEP; step < STEP + 2; step++) {
        begin_step(scene, step);
        finish_parts(scene);
        for (unsigned unit = 0; unit < unit_count(scene); unit++)
            expect_sum(scene, 1, unit, MICRO_BATCHES);
        for (unsigned rank = 0; rank < 2; rank++)
            lane_relay_hide_loss(scene->engines[rank].share.relay);
        assert_false(step_record_is_known(scene->tiny[0].state->hold.lane_losses[SHARED]));
        assert_true(scene->tiny[1].state->hold.lane_losses[SHARED] == 0.5 * MICRO_BATCHES);
    }
    close_relays(scene);
    assert_false(mesh_broken(scene->world.meshes[0]));
    end_scene(scene);
}

/* Both have finished their parts, and a third replica is missed: both keep what they have. */
static void test_all_is_kept_at_the_end_of_a_step(void **state)
{
    struct scene *scene = begin_scene();

    (void)state;
    begin_step(scene, STEP);
    finish_parts(scene);
    mesh_abort(scene->world.meshes[0], "the test breaks the links");
    close_relays(scene);
    for (unsigned unit = 0; unit < unit_count(scene); unit++) {
        expect_sum(scene, 0, unit, HEAD);
        expect_sum(scene, 1, unit, MICRO_BATCHES);
        assert_int_equal(known(scene, 0, unit), HEAD);
        assert_int_equal(known(scene, 1, unit), MICRO_BATCHES);
    }
    assert_true(scene->tiny[0].state->hold.lane_losses[SHARED] == 0.5 * HEAD);
    assert_int_equal(scene->counts[0][SHARED], HEAD);
    assert_int_equal(scene->counts[1][SHARED], MICRO_BATCHES);
    end_scene(scene);
}

/* Closing within a step fails the links: nobody waits for ever. */
static void test_a_head_that_does_not_arrive_is_none(void **state)
{
    struct scene *scene = begin_scene();

    (void)state;
    begin_step(scene, STEP);
    run(scene, 0, 0, HEAD - 1, 0);
    close_relays(scene);
    assert_true(mesh_broken(scene->world.meshes[1]));
    for (unsigned unit = 0; unit < unit_count(scene); unit++) {
        assert_int_equal(known(scene, 0, unit), HEAD - 1);
        assert_int_equal(known(scene, 1, unit), 0);
    }
    assert_int_equal(scene->counts[1][SHARED], 0);
    end_scene(scene);
}

/* The giver dies between two units: those that have arrived are good, the loss is kept if it is
 * here. */
static void test_what_has_arrived_of_a_head_is_kept(void **state)
{
    (void)state;
    for (unsigned told = 0; told < 2; told++) {
        struct scene *scene = begin_scene();
        begin_step(scene, STEP);
        run(scene, 0, 0, HEAD - 1, 0);
        run(scene, 0, HEAD - 1, HEAD, UNIT);
        for (unsigned index = 0; told && index < HEAD; index++)
            add_loss(scene, 0, index);
        run(scene, 1, HEAD, HEAD + 1, UNIT); /* so they are here, */
        if (told)
            add_loss(scene, 1, HEAD); /* and so is the loss */
        close_relays(scene);
        for (unsigned unit = 0; unit < unit_count(scene); unit++)
            assert_int_equal(known(scene, 1, unit), unit >= UNIT ? HEAD + 1 : 0);
        assert_int_equal(scene->counts[1][SHARED], told ? HEAD + 1 : 0);
        end_scene(scene);
    }
}

/* An engine that never begins its step, or fails before it posts the receives, has no head. */
static void test_a_head_that_is_not_begun_is_none(void **state)
{
    (void)state;
    for (unsigned begun = 0; begun < 2; begun++) {
        struct scene *scene = begin_scene();
        struct engine *owner = &scene->engines[1];
        if (begun) {
            begin_step(scene, STEP);
            finish_parts(scene);
            lane_relay_forget(owner->share.relay);
            gradients_begin(owner->gradients);
        }
        assert_int_equal(known(scene, 1, UNIT), HEAD); /* it is expected */
        close_relays(scene);
        for (unsigned unit = 0; unit < unit_count(scene); unit++)
            assert_int_equal(known(scene, 1, unit), 0);
        end_scene(scene);
    }
}

/* The links break; both ranks go on with what they have, and rank 0 has begun the lane. */
static void begin_anew(struct scene *scene, unsigned start, unsigned head)
{
    struct kept_step *kept[2];

    mesh_abort(scene->world.meshes[0], "the test breaks the links");
    close_relays(scene);
    world_close(&scene->world);
    world_open(&scene->world);
    scene->division.step = STEP;
    scene->division.starts[SHARED] = start;
    scene->division.heads[SHARED] = head;
    for (unsigned rank = 0; rank < 2; rank++) {
        kept[rank] = kept_step_new(&scene->engines[rank], NULL);
        assert_non_null(kept[rank]);
        make_engine(scene, rank, kept[rank]);
    }
    begin_step(scene, STEP);
    for (unsigned rank = 0; rank < 2; rank++) {
        kept_step_restore(kept[rank], &scene->engines[rank]);
        kept_step_free(kept[rank]);
    }
}

static void test_a_head_goes_on_with_a_kept_sum(void **state)
{
    struct scene *scene = begin_scene();

    (void)state;
    begin_step(scene, STEP);
    run(scene, 0, 0, 1, 0);
    add_loss(scene, 0, 0);
    begin_anew(scene, 1, HEAD + 1);
    assert_int_equal(scene->counts[0][SHARED], 1);
    assert_int_equal(scene->counts[1][SHARED], 0);
    run(scene, 0, 1, HEAD + 1, 0);
    for (unsigned index = 1; index < HEAD + 1; index++)
        add_loss(scene, 0, index);
    add_loss(scene, 1, HEAD + 1);
    run(scene, 1, HEAD + 1, MICRO_BATCHES, 0);
    for (unsigned rank = 0; rank < 2; rank++)
        assert_int_equal(lane_relay_finish(scene->engines[rank].share.relay), 0);
    for (unsigned unit = 0; unit < unit_count(scene); unit++) {
        expect_sum(scene, 0, unit, HEAD + 1);
        expect_sum(scene, 1, unit, MICRO_BATCHES);
    }
    assert_true(scene->tiny[1].state->hold.lane_losses[SHARED] == 0.5 * MICRO_BATCHES);
    close_relays(scene);
    assert_false(mesh_broken(scene->world.meshes[0]));
    end_scene(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rest_goes_on_with_the_head),
        cmocka_unit_test(test_all_is_kept_at_the_end_of_a_step),
        cmocka_unit_test(test_a_head_that_does_not_arrive_is_none),
        cmocka_unit_test(test_what_has_arrived_of_a_head_is_kept),
        cmocka_unit_test(test_a_head_that_is_not_begun_is_none),
        cmocka_unit_test(test_a_head_goes_on_with_a_kept_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
