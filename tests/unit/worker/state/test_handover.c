/*
 * Tests of the handover of units over real links: a donor continues while its units are sent, a
 * unit counts only when all of it has arrived, and donors that disagree are refused.
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

#include "base/json.h"
#include "lib/comm/mesh_harness.h"
#include "lib/elastic/ranked_plan.h"
#include "lib/worker/tiny_state.h"

#include "worker/device/tags.h"
#include "worker/state/handover.h"

#define RANKS 3
#define STEP  7
#define ROOM  256 /* bytes of messages that no rank waits for: less than a unit */

struct rank_thread {
    struct scene *scene;
    unsigned rank;
    pthread_t thread;
    int result;
};

struct scene {
    struct rank_thread threads[RANKS];
    struct world world;
    struct plan *plan;
    struct tiny_state tiny[RANKS];
    struct handover *handovers[RANKS];
    struct error error;
};

static void scene_init(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    world_init(&scene->world, RANKS);
    scene->world.unexpected_max_bytes = ROOM;
    world_open(&scene->world);
    for (unsigned rank = 0; rank < RANKS; rank++)
        tiny_state_init(&scene->tiny[rank], false);
    scene->plan = ranked_plan(RANKS);
    scene->plan->start.source = PLAN_SOURCE_MEMORY;
    scene->plan->start.moves = calloc(RANKS, sizeof(*scene->plan->start.moves));
    assert_non_null(scene->plan->start.moves);
}

static void scene_done(struct scene *scene)
{
    for (unsigned rank = 0; rank < RANKS; rank++)
        handover_close(scene->handovers[rank]);
    world_close(&scene->world);
    world_done(&scene->world);
    plan_free(scene->plan);
    for (unsigned rank = 0; rank < RANKS; rank++)
        tiny_state_done(&scene->tiny[rank]);
}

static void move(struct scene *scene, unsigned unit, unsigned from_rank, unsigned to_rank)
{
    struct plan_start *start = &scene->plan->start;

    start->moves[start->move_count++] =
        (struct plan_move){.unit = unit, .from_rank = from_rank, .to_rank = to_rank};
}

/* Give a rank a unit at @step whose elements all differ. */
static void hold(struct scene *scene, unsigned rank, unsigned unit, uint64_t step)
{
    struct state *state = scene->tiny[rank].state;
    struct state_unit *held = &state->units[unit];

    assert_int_equal(state_take_unit(state, unit, &scene->error), 0);
    state->applied_step = step;
    for (size_t i = 0; i < held->layout.count; i++) {
        held->parameters[i] = (float)i + 0.25f;
        held->first_moment[i] = (float)i + 0.5f;
        held->second_moment[i] = (float)i + 0.75f;
    }
}

static int begin(struct scene *scene, unsigned rank)
{
    return handover_begin(scene->tiny[rank].state, scene->plan, rank, scene->world.meshes[rank],
                          &scene->handovers[rank], &scene->error);
}

static void begin_all(struct scene *scene)
{
    for (unsigned rank = 0; rank < RANKS; rank++)
        assert_int_equal(begin(scene, rank), 0);
}

/* Run one rank's handover in its own thread, from start to end. */
static void *hand_over(void *context)
{
    struct rank_thread *thread = context;

    thread->result = begin(thread->scene, thread->rank);
    if (!thread->result)
        thread->result = handover_finish(thread->scene->handovers[thread->rank]);
    return NULL;
}

static int begin_in_thread(struct scene *scene, unsigned rank)
{
    struct rank_thread *thread = &scene->threads[rank];

    *thread = (struct rank_thread){.scene = scene, .rank = rank};
    return pthread_create(&thread->thread, NULL, hand_over, thread);
}

static int finish_of_thread(struct scene *scene, unsigned rank)
{
    assert_int_equal(pthread_join(scene->threads[rank].thread, NULL), 0);
    return scene->threads[rank].result;
}

static void break_links(struct scene *scene)
{
    for (unsigned rank = 0; rank < RANKS; rank++)
        mesh_abort(scene->world.meshes[rank], "the test breaks the links");
}

static void assert_same_unit(const struct scene *scene, unsigned a, unsigned b, unsigned unit)
{
    const struct state_unit *one = &scene->tiny[a].state->units[unit],
                            *other = &scene->tiny[b].state->units[unit];
    size_t size_bytes = one->layout.count * sizeof(float);

    assert_memory_equal(one->parameters, other->parameters, size_bytes);
    assert_memory_equal(one->first_moment, other->first_moment, size_bytes);
    assert_memory_equal(one->second_moment, other->second_moment, size_bytes);
}

static void test_a_fresh_worker_receives_units_of_two_donors(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    hold(&scene, 0, 1, STEP);
    hold(&scene, 1, 2, STEP);
    move(&scene, 1, 0, 2);
    move(&scene, 2, 1, 2);
    begin_all(&scene); /* no donor waits for the receiver */
    assert_int_equal(scene.tiny[2].state->applied_step, STEP);
    assert_true(handover_has_arrived(scene.handovers[0])); /* it receives nothing */
    for (unsigned rank = RANKS; rank-- > 0;)
        assert_int_equal(handover_finish(scene.handovers[rank]), 0);
    assert_same_unit(&scene, 0, 2, 1);
    assert_same_unit(&scene, 1, 2, 2);
    for (unsigned rank = 0; rank < RANKS; rank++)
        handover_close(scene.handovers[rank]);
    memset(scene.handovers, 0, sizeof(scene.handovers));
    assert_true(scene.tiny[2].state->units[1].held && scene.tiny[2].state->units[2].held);
    scene_done(&scene);
}

/* Both give and both receive, and neither does anything else before it has finished. */
static void exchange(struct scene *scene)
{
    hold(scene, 0, 1, STEP);
    hold(scene, 1, 2, STEP);
    move(scene, 2, 1, 0);
    move(scene, 1, 0, 1);
    move(scene, 1, 0, 2);
    for (unsigned rank = 0; rank < RANKS; rank++)
        assert_int_equal(begin_in_thread(scene, rank), 0);
    for (unsigned rank = 0; rank < RANKS; rank++)
        assert_int_equal(finish_of_thread(scene, rank), 0);
    assert_same_unit(scene, 0, 1, 1);
    assert_same_unit(scene, 0, 2, 1);
    assert_same_unit(scene, 0, 1, 2);
}

static void test_two_ranks_give_to_each_other(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    exchange(&scene);
    scene_done(&scene);
}

/* A device has its own memory: arrays pass through copies on the host. */
static void test_arrays_of_a_device_are_copied(void **state)
{
    struct kernel device = *kernel_cpu();
    struct scene scene;

    (void)state;
    device.host_memory = false;
    scene_init(&scene);
    for (unsigned rank = 0; rank < RANKS; rank++)
        scene.tiny[rank].state->kernel = &device;
    exchange(&scene);
    for (unsigned rank = 0; rank < RANKS; rank++)
        scene.tiny[rank].state->kernel = kernel_cpu();
    scene_done(&scene);
}

/* The first caller to see the error may be unable to report it: a look between two micro-batches.
 */
static void test_an_error_stays(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    hold(&scene, 0, 1, STEP);
    move(&scene, 1, 0, 2);
    assert_int_equal(begin(&scene, 0), 0); /* rank 2 asks for nothing */
    assert_int_equal(handover_advance(scene.handovers[0]), 0);
    break_links(&scene);
    assert_true(mesh_await_fault(scene.world.meshes[0], UINT64_MAX));
    while (!handover_advance(scene.handovers[0])) /* the I/O thread ends the sends */
        sched_yield();
    assert_int_equal(handover_advance(scene.handovers[0]), -ECONNRESET);
    assert_int_equal(handover_finish(scene.handovers[0]), -ECONNRESET);
    scene_done(&scene);
}

/* Let a donor send only the head of a unit. */
static void announce(struct scene *scene, unsigned donor, unsigned unit, unsigned to_rank)
{
    const struct state *state = scene->tiny[donor].state;
    AUTO_JSON json_t *head = state_encode(state);
    json_t *step = json_integer((json_int_t)state->applied_step);

    assert_int_equal(json_object_set_new(head, "applied_step", step), 0);
    AUTO_FREE char *text = json_text(head);
    assert_int_equal(mesh_send(scene->world.meshes[donor], to_rank,
                               tag_make(TAG_STATE_HEAD, 0, unit), text, strlen(text), NULL),
                     0);
}

static void test_a_unit_that_has_not_arrived_is_no_copy(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    hold(&scene, 0, 1, STEP);
    hold(&scene, 2, 3, STEP);
    move(&scene, 1, 0, 2);
    announce(&scene, 0, 1, 2);
    assert_int_equal(begin(&scene, 2), 0);
    break_links(&scene);
    assert_int_equal(handover_finish(scene.handovers[2]), -ECONNRESET);
    handover_close(scene.handovers[2]);
    scene.handovers[2] = NULL;
    assert_false(scene.tiny[2].state->units[1].held);
    assert_true(scene.tiny[2].state->units[3].held); /* from before */
    scene_done(&scene);
}

/* A plan that did not count on this process has the unit handed over once more. */
static void test_a_unit_that_is_held_stays_held(void **state)
{
    for (unsigned breaks = 0; breaks < 2; breaks++) {
        struct scene scene;

        (void)state;
        scene_init(&scene);
        hold(&scene, 0, 1, STEP);
        hold(&scene, 2, 1, STEP);
        move(&scene, 1, 0, 2);
        begin_all(&scene);
        assert_true(handover_has_arrived(scene.handovers[2]));
        assert_int_equal(handover_await_unit(scene.handovers[2], 1), 0);
        if (breaks)
            break_links(&scene);
        else
            assert_int_equal(handover_finish(scene.handovers[2]), 0);
        handover_close(scene.handovers[2]);
        scene.handovers[2] = NULL;
        assert_true(scene.tiny[2].state->units[1].held);
        assert_same_unit(&scene, 0, 2, 1);
        scene_done(&scene);
    }
}

static void test_donors_that_disagree_are_refused(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    hold(&scene, 0, 1, STEP);
    hold(&scene, 1, 2, STEP + 1);
    move(&scene, 1, 0, 2);
    move(&scene, 2, 1, 2);
    assert_int_equal(begin(&scene, 0), 0);
    assert_int_equal(begin(&scene, 1), 0);
    assert_int_equal(begin(&scene, 2), -EBADMSG);
    assert_string_equal(scene.error.text, "unit 2 comes at step 8 with 0 frozen layers, but this "
                                          "worker is at step 7 with 0");
    assert_null(scene.handovers[2]);
    assert_false(scene.tiny[2].state->units[1].held || scene.tiny[2].state->units[2].held);
    scene_done(&scene);
}

static void test_a_donor_without_the_unit_says_so(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    hold(&scene, 0, 1, STEP);
    move(&scene, 2, 0, 2);
    assert_int_equal(begin(&scene, 0), -ENODATA);
    assert_true(mesh_broken(scene.world.meshes[0])); /* nobody waits for it */
    scene_done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fresh_worker_receives_units_of_two_donors),
        cmocka_unit_test(test_two_ranks_give_to_each_other),
        cmocka_unit_test(test_arrays_of_a_device_are_copied),
        cmocka_unit_test(test_an_error_stays),
        cmocka_unit_test(test_a_unit_that_has_not_arrived_is_no_copy),
        cmocka_unit_test(test_a_unit_that_is_held_stays_held),
        cmocka_unit_test(test_donors_that_disagree_are_refused),
        cmocka_unit_test(test_a_donor_without_the_unit_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
