/*
 * Tests of copies of sums over real links: what the keeper has, and that a generation without their
 * owner goes on with them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/mesh_harness.h"
#include "lib/elastic/ranked_plan.h"
#include "lib/worker/tiny_state.h"

#include "worker/step/kept_step.h"
#include "worker/step/moved_sums.h"
#include "worker/step/sum_copies.h"

#define STEP          7
#define LANES         4
#define MICRO_BATCHES 4
#define OFTEN         1e-9 /* seconds between two copies */
#define NEVER         1e6

/* Two replicas of one stage: rank 0 has lanes 0 and 1, rank 1 lanes 2 and 3. */
struct scene {
    struct world world;
    struct plan *plan;
    struct tiny_state tiny[2];
    struct step_division division;
    unsigned counts[2][LANES]; /* of losses */
    struct engine engines[2];
    int finished; /* the result of rank 1's thread */
};

static unsigned unit_count(const struct scene *scene)
{
    return scene->tiny[0].state->unit_count;
}

static void make_gradients(struct scene *scene, unsigned rank, struct kept_step *kept,
                           const struct step_sums *offered)
{
    const struct gradients_options options = {.state = scene->tiny[rank].state,
                                              .unit_count = unit_count(scene),
                                              .replica = rank,
                                              .division = &scene->division,
                                              .kept = kept ? kept_step_take_gradients(kept) : NULL,
                                              .offered = offered};
    struct error error = {0};

    assert_int_equal(gradients_new(&options, &scene->engines[rank].gradients, &error), 0);
}

static void make_engine(struct scene *scene, unsigned rank)
{
    struct engine *engine = &scene->engines[rank];
    struct error error = {0};

    *engine = (struct engine){
        .state = scene->tiny[rank].state,
        .plan = scene->plan,
        .mesh = scene->world.meshes[rank],
        .part = {.rank = rank, .replica = rank, .unit_count = unit_count(scene)},
        .share = {.division = &scene->division, .loss_counts = scene->counts[rank]}};
    make_gradients(scene, rank, NULL, NULL);
    assert_int_equal(sum_copies_new(engine, &engine->share.copies, &error), 0);
    assert_non_null(engine->share.copies);
}

static void begin_step(struct scene *scene, uint64_t step)
{
    for (unsigned rank = 0; rank < 2; rank++) {
        struct engine *engine = &scene->engines[rank];
        engine->state->applied_step = step - 1;
        step_record_init(&engine->state->hold, step, unit_count(scene), LANES);
        memset(scene->counts[rank], 0, sizeof(scene->counts[rank]));
        gradients_begin(engine->gradients);
        assert_int_equal(sum_copies_begin(engine->share.copies), 0);
    }
}

static struct scene *begin_scene(double copy_seconds)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    world_init(&scene->world, 2);
    world_open(&scene->world);
    scene->plan = ranked_plan(2);
    struct plan_layout *layout = &scene->plan->layout;
    for (unsigned rank = 0; rank < 2; rank++) {
        tiny_state_init(&scene->tiny[rank], false);
        scene->tiny[rank].spec.train.lanes = LANES;
        scene->tiny[rank].spec.train.micro_batches_per_lane = MICRO_BATCHES;
        scene->tiny[rank].spec.train.micro_batch = 1;
    }
    layout->worker_count = layout->replica_count = 2;
    layout->stage_count = 1;
    layout->copy_seconds = copy_seconds;
    layout->stage_first_unit = calloc(2, sizeof(unsigned));
    layout->replica_first_lane = calloc(3, sizeof(unsigned));
    assert_true(layout->stage_first_unit && layout->replica_first_lane);
    layout->stage_first_unit[1] = unit_count(scene);
    layout->replica_first_lane[1] = LANES / 2;
    layout->replica_first_lane[2] = LANES;
    step_division_plan(layout, LANES, MICRO_BATCHES, &scene->division);
    for (unsigned rank = 0; rank < 2; rank++)
        make_engine(scene, rank);
    begin_step(scene, STEP);
    return scene;
}

static void end_scene(struct scene *scene)
{
    for (unsigned rank = 0; rank < 2; rank++) {
        sum_copies_close(scene->engines[rank].share.copies);
        sum_copies_free(scene->engines[rank].share.copies);
        gradients_free(scene->engines[rank].gradients);
    }
    world_close(&scene->world);
    world_done(&scene->world);
    plan_free(scene->plan);
    for (unsigned rank = 0; rank < 2; rank++) {
        arena_end(scene->tiny[rank].state->arena);
        tiny_state_done(&scene->tiny[rank]);
    }
    free(scene);
}

static float addend(unsigned i, unsigned lane, unsigned index)
{
    return (float)(i % 64) + (float)lane / 8 + (float)index / 64;
}

/* Compute micro-batches of @lane in all units, as the pipeline does, and its loss. */
static void run(struct scene *scene, unsigned rank, unsigned lane, unsigned first, unsigned end)
{
    struct engine *engine = &scene->engines[rank];

    for (unsigned index = first; index < end; index++) {
        double *loss = &engine->state->hold.lane_losses[lane];
        *loss = index > 0 ? *loss + 0.5 : 0.5;
        scene->counts[rank][lane] = index + 1;
        for (unsigned unit = unit_count(scene); unit-- > 0;) {
            float *sum = gradients_buffer(engine->gradients, unit, lane, index);
            for (unsigned i = 0; i < engine->state->units[unit].layout.count; i++)
                sum[i] += addend(i, lane, index);
            gradients_added(engine->gradients, unit, lane, index);
        }
    }
}

static struct step_sums copies_of(const struct scene *scene, unsigned rank)
{
    struct copied_sums *kept = sum_copies_take(scene->engines[rank].share.copies);
    struct step_sums sums = {0};

    assert_int_equal(copied_sums_list(kept, 0, unit_count(scene), rank, true, &sums), 0);
    sum_copies_adopt(scene->engines[rank].share.copies, kept);
    return sums;
}

static const struct step_sum *find(const struct step_sums *sums, unsigned unit,
                                   struct lane_tree_span span)
{
    for (unsigned i = 0; i < sums->count; i++)
        if (sums->list[i].unit == unit && sums->list[i].span.first == span.first &&
            sums->list[i].span.count == span.count)
            return &sums->list[i];
    return NULL;
}

/* Return whether @rank has a copy of so much of @span of all units. */
static bool is_copied(const struct scene *scene, unsigned rank, struct lane_tree_span span,
                      unsigned micro_batches)
{
    CLEANUP(step_sums_done) struct step_sums sums = copies_of(scene, rank);
    unsigned count = 0;

    for (unsigned unit = 0; unit < unit_count(scene); unit++) {
        const struct step_sum *sum = find(&sums, unit, span);
        count += sum && sum->micro_batches == micro_batches;
    }
    return count == unit_count(scene);
}

/* Both look around until rank @keeper has that copy. */
static void await_copy(struct scene *scene, unsigned keeper, struct lane_tree_span span,
                       unsigned micro_batches)
{
    while (!is_copied(scene, keeper, span, micro_batches)) {
        for (unsigned rank = 0; rank < 2; rank++)
            assert_int_equal(sum_copies_advance(scene->engines[rank].share.copies), 0);
        sched_yield();
    }
}

static void expect_data(const struct scene *scene, const float *sum, unsigned unit, unsigned lane,
                        unsigned micro_batches)
{
    assert_non_null(sum);
    for (unsigned i = 0; i < scene->tiny[0].state->units[unit].layout.count; i++) {
        float expected = 0;
        for (unsigned index = 0; index < micro_batches; index++)
            expected += addend(i, lane, index);
        assert_true(sum[i] == expected);
    }
}

static void *finish(void *context)
{
    struct scene *scene = context;

    scene->finished = sum_copies_finish(scene->engines[1].share.copies);
    return NULL;
}

static void finish_both(struct scene *scene)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, finish, scene), 0);
    assert_int_equal(sum_copies_finish(scene->engines[0].share.copies), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(scene->finished, 0);
}

/* A copy has what its owner had, while the sum goes on growing. */
static void test_a_keeper_follows(void **state)
{
    struct scene *scene = begin_scene(OFTEN);

    (void)state;
    run(scene, 0, 0, 0, 2);
    await_copy(scene, 1, (struct lane_tree_span){0, 1}, 2);
    run(scene, 0, 0, 2, MICRO_BATCHES);
    CLEANUP(step_sums_done) struct step_sums sums = copies_of(scene, 1);
    assert_int_equal(sums.count, unit_count(scene));
    assert_int_equal(sums.losses[0].count, 2);
    assert_true(sums.losses[0].training == 1);
    struct copied_sums *kept = sum_copies_take(scene->engines[1].share.copies);
    for (unsigned i = 0; i < sums.count; i++)
        expect_data(scene, copied_sums_data(kept, &sums.list[i]), sums.list[i].unit, 0, 2);
    sum_copies_adopt(scene->engines[1].share.copies, kept);
    run(scene, 0, 1, 0, 1);
    await_copy(scene, 1, (struct lane_tree_span){1, 1}, 1);
    run(scene, 0, 1, 1, MICRO_BATCHES);
    await_copy(scene, 1, (struct lane_tree_span){0, 2}, MICRO_BATCHES);
    CLEANUP(step_sums_done) struct step_sums merged = copies_of(scene, 1);
    assert_int_equal(merged.count, unit_count(scene)); /* in place of both lanes */
    CLEANUP(step_sums_done) struct step_sums none = copies_of(scene, 0);
    assert_int_equal(none.count, 0); /* rank 1 has computed nothing */
    end_scene(scene);
}

/* Steps end with copies under way, or without any; the next one has nothing of them. */
static void test_nothing_is_under_way_between_two_steps(void **state)
{
    struct scene *scene = begin_scene(OFTEN);

    (void)state;
    for (unsigned looks = 0; looks < 6; looks++) {
        run(scene, 0, 0, 0, 2);
        run(scene, 1, 2, 0, 1);
        for (unsigned i = 0; i < 2 * looks; i++)
            assert_int_equal(sum_copies_advance(scene->engines[i % 2].share.copies), 0);
        finish_both(scene);
        begin_step(scene, STEP + looks + 1);
        for (unsigned rank = 0; rank < 2; rank++) {
            CLEANUP(step_sums_done) struct step_sums sums = copies_of(scene, rank);
            assert_int_equal(sums.count, 0);
        }
    }
    finish_both(scene);
    for (unsigned rank = 0; rank < 2; rank++) {
        sum_copies_close(scene->engines[rank].share.copies);
        assert_false(mesh_broken(scene->world.meshes[rank]));
    }
    end_scene(scene);
}

/* Both look around and end the step: rank 1 has got no copy. */
static void end_without_copies(struct scene *scene)
{
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(sum_copies_advance(scene->engines[i % 2].share.copies), 0);
    finish_both(scene);
    CLEANUP(step_sums_done) struct step_sums sums = copies_of(scene, 1);
    assert_int_equal(sums.count, 0);
    end_scene(scene);
}

static void test_nothing_is_copied_before_its_time(void **state)
{
    struct scene *scene = begin_scene(NEVER);

    (void)state;
    run(scene, 0, 0, 0, 2);
    end_without_copies(scene);
}

/* Sums whose reduction has begun are overwritten. */
static void test_nothing_is_copied_after_the_end(void **state)
{
    struct scene *scene = begin_scene(OFTEN);

    (void)state;
    run(scene, 0, 0, 0, 2);
    sum_copies_stop(scene->engines[0].share.copies);
    end_without_copies(scene);
}

/* A head that another replica passes on is not here before it has been gone on with. */
static void test_a_head_is_not_copied_before_it_is_here(void **state)
{
    struct scene *scene = begin_scene(OFTEN);
    const struct lane_tree_span span = {1, 1};

    (void)state;
    scene->division.heads[1] = 2;
    scene->division.givers[1] = 1;
    gradients_free(scene->engines[0].gradients);
    make_gradients(scene, 0, NULL, NULL);
    gradients_begin(scene->engines[0].gradients);
    assert_non_null(gradients_sum(scene->engines[0].gradients, 0, span)); /* it is expected */
    run(scene, 0, 0, 0, 2);
    await_copy(scene, 1, (struct lane_tree_span){0, 1}, 2);
    assert_false(is_copied(scene, 1, span, 2));
    for (unsigned unit = 0; unit < unit_count(scene); unit++)
        gradients_added(scene->engines[0].gradients, unit, 1, 2);
    await_copy(scene, 1, span, 3);
    end_scene(scene);
}

/* ---- the owner dies ---- */

/* Rank 1 goes on alone, in a plan of its own. */
static struct kept_step *go_on_alone(struct scene *scene)
{
    struct engine *engine = &scene->engines[1];
    struct plan_layout *layout = &scene->plan->layout;

    mesh_abort(engine->mesh, "the test breaks the links");
    for (unsigned rank = 0; rank < 2; rank++)
        sum_copies_close(scene->engines[rank].share.copies);
    assert_true(sum_copies_keeps_any(engine->share.copies));
    struct kept_step *kept = kept_step_new(engine, sum_copies_take(engine->share.copies));
    assert_non_null(kept);
    sum_copies_free(engine->share.copies);
    engine->share.copies = NULL;
    layout->worker_count = layout->replica_count = 1;
    layout->replica_first_lane[1] = LANES;
    return kept;
}

/* The kept step is agreed upon as worker/session/step_agreement.c does it, on one rank. */
static struct moved_sums *divide(struct scene *scene, struct kept_step *kept)
{
    struct state *state = scene->tiny[1].state;
    struct moved_sums *moved = NULL;
    struct step_facts facts = {0};

    assert_int_equal(
        moved_sums_new(state, scene->plan, 0, scene->world.meshes[1], kept, true, &moved), 0);
    assert_int_equal(moved_sums_facts(moved, &facts), 0);
    step_division_continue(&scene->plan->layout, 0, STEP, LANES, MICRO_BATCHES, &facts,
                           &scene->division);
    step_facts_done(&facts);
    assert_int_equal(moved_sums_settle(moved, &scene->division), 0);
    assert_int_equal(kept_step_adopt_losses(&kept, state, moved_sums_list(moved)), 0);
    return moved;
}

static void adopt(struct scene *scene, struct kept_step *kept, const struct moved_sums *moved)
{
    struct engine *engine = &scene->engines[1];
    const struct gradients_options options = {.state = engine->state,
                                              .unit_count = unit_count(scene),
                                              .division = &scene->division,
                                              .kept = kept_step_take_gradients(kept),
                                              .offered = moved_sums_list(moved)};
    struct error error = {0};

    engine->part.rank = engine->part.replica = 0;
    assert_int_equal(gradients_new(&options, &engine->gradients, &error), 0);
}

static void test_a_generation_goes_on_with_copies(void **state)
{
    struct scene *scene = begin_scene(OFTEN);
    const struct lane_tree_span first = {0, 1}, second = {1, 1};

    (void)state;
    run(scene, 1, 2, 0, 1);
    run(scene, 0, 0, 0, MICRO_BATCHES);
    await_copy(scene, 1, first, MICRO_BATCHES);
    run(scene, 0, 1, 0, 2);
    await_copy(scene, 1, second, 2);
    run(scene, 0, 1, 2, 3); /* this one is lost */
    struct kept_step *kept = go_on_alone(scene);
    struct moved_sums *moved = divide(scene, kept);
    assert_int_equal(scene->division.step, STEP);
    assert_int_equal(scene->division.starts[0], MICRO_BATCHES);
    assert_int_equal(scene->division.starts[1], 2);
    assert_int_equal(scene->division.starts[2], 1);
    assert_int_equal(scene->division.starts[3], 0);
    struct engine *engine = &scene->engines[1];
    adopt(scene, kept, moved);
    assert_int_equal(moved_sums_arrive(moved, engine->gradients), 0);
    assert_true(moved_sums_have_arrived(moved));
    for (unsigned unit = 0; unit < unit_count(scene); unit++) {
        expect_data(scene, gradients_sum(engine->gradients, unit, first), unit, 0, MICRO_BATCHES);
        expect_data(scene, gradients_sum(engine->gradients, unit, second), unit, 1, 2);
        expect_data(scene, gradients_sum(engine->gradients, unit, (struct lane_tree_span){2, 1}),
                    unit, 2, 1);
    }
    step_record_init(&engine->state->hold, STEP, unit_count(scene), LANES);
    memset(scene->counts[1], 0, sizeof(scene->counts[1]));
    kept_step_restore(kept, engine);
    assert_int_equal(scene->counts[1][0], MICRO_BATCHES);
    assert_int_equal(scene->counts[1][1], 2);
    assert_true(engine->state->hold.lane_losses[1] == 1);
    moved_sums_close(moved, engine->gradients);
    assert_non_null(gradients_sum(engine->gradients, 0, second)); /* it has arrived */
    kept_step_free(kept);
    end_scene(scene);
}

/* The links break before the copies are in the gradients: there they are none, and the copies stay.
 */
static void test_copies_that_were_not_put_in_are_none(void **state)
{
    struct scene *scene = begin_scene(OFTEN);
    const struct lane_tree_span span = {0, 1};
    struct lane_sum found[GRADIENTS_SUMS_MAX];

    (void)state;
    run(scene, 0, 0, 0, 2);
    await_copy(scene, 1, span, 2);
    struct kept_step *kept = go_on_alone(scene); /* it has nothing of its own */
    struct moved_sums *moved = divide(scene, kept);
    assert_int_equal(scene->division.starts[0], 2);
    adopt(scene, kept, moved);
    struct gradients *gradients = scene->engines[1].gradients;
    assert_non_null(gradients_sum(gradients, 0, span)); /* it is expected */
    moved_sums_close(moved, gradients);
    for (unsigned unit = 0; unit < unit_count(scene); unit++)
        assert_int_equal(gradients_sums(gradients, unit, found), 0);
    kept_step_return_gradients(kept, gradients);
    scene->engines[1].gradients = NULL;
    moved = divide(scene, kept);
    assert_int_equal(scene->division.starts[0], 2);
    moved_sums_close(moved, NULL);
    kept_step_free(kept);
    end_scene(scene);
}

/* A worker that has begun the next step goes on with nothing of the one before. */
static void test_copies_of_another_step_count_for_nothing(void **state)
{
    struct scene *scene = begin_scene(OFTEN);

    (void)state;
    run(scene, 1, 2, 0, 1);
    run(scene, 0, 0, 0, 2);
    await_copy(scene, 1, (struct lane_tree_span){0, 1}, 2);
    struct kept_step *kept = go_on_alone(scene);
    scene->tiny[1].state->applied_step++;
    struct moved_sums *moved = divide(scene, kept);
    assert_int_equal(moved_sums_list(moved)->count, 0);
    assert_int_equal(scene->division.step, 0);
    moved_sums_close(moved, NULL);
    kept_step_free(kept);
    end_scene(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_keeper_follows),
        cmocka_unit_test(test_nothing_is_under_way_between_two_steps),
        cmocka_unit_test(test_nothing_is_copied_before_its_time),
        cmocka_unit_test(test_nothing_is_copied_after_the_end),
        cmocka_unit_test(test_a_head_is_not_copied_before_it_is_here),
        cmocka_unit_test(test_a_generation_goes_on_with_copies),
        cmocka_unit_test(test_copies_that_were_not_put_in_are_none),
        cmocka_unit_test(test_copies_of_another_step_count_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
