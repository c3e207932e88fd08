/*
 * Tests that a generation takes exactly the predicted memory of the device: counted at the
 * allocator, for a worker that is alone on the device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "lib/worker/tiny_state.h"

#include "lib/worker/plan_of_one.h"
#include "worker/step/engine.h"
#include "worker/step/memory.h"

static struct kernel counting;
static size_t taken_bytes, free_bytes;
static bool parts; /* allocations are now parts of an arena */

static int count_and_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    taken_bytes += parts ? arena_part_bytes(size_bytes) : size_bytes;
    return kernel_cpu()->allocate(device, size_bytes, ret_memory);
}

static void tell_memory(struct kernel_device *device, size_t *ret_free_bytes,
                        size_t *ret_total_bytes)
{
    (void)device;
    *ret_free_bytes = free_bytes;
    *ret_total_bytes = (size_t)80 << 20;
}

static void begin(struct tiny_state *tiny, bool tied)
{
    counting = *kernel_cpu();
    counting.allocate = count_and_allocate;
    counting.memory = tell_memory;
    taken_bytes = 0;
    tiny_state_init(tiny, tied);
    tiny->spec.train.lanes = 6;
    tiny->spec.train.micro_batch = 2;
    tiny->spec.train.micro_batches_per_lane = 1;
    tiny->state->kernel = &counting;
    arena_free(tiny->state->arena);
    assert_int_equal(arena_new(&counting, tiny->device, &tiny->state->arena), 0);
}

static size_t sum_of(const struct memory_need *need)
{
    return need->state_bytes + memory_arena_bytes(need);
}

static void check_one(bool tied, unsigned frozen_layers, enum plan_recompute recompute)
{
    struct tiny_state tiny;
    struct error error = {0};
    struct engine *engine;
    const struct routes routes = {0};

    begin(&tiny, tied);
    struct plan *plan = plan_of_one(tiny.state->unit_count, tiny.spec.train.lanes);
    plan->layout.recompute = recompute;
    plan->layout.frozen_layers = frozen_layers;
    const struct memory_need need = memory_need(tiny.state, &plan->layout, 0, true);
    assert_int_equal(state_initialize(tiny.state, 0, 0, &error), 0);
    tiny.state->freeze.frozen_layers = frozen_layers;
    for (unsigned unit = 0; unit < tiny.state->unit_count; unit++)
        assert_int_equal(state_take_unit(tiny.state, unit, &error), 0);
    parts = true;
    if (engine_new(&(struct engine_options){.state = tiny.state, .plan = plan, .routes = &routes},
                   &engine, &error))
        fail_msg("%s", error.text);
    parts = false;
    /* The arena of the host has an address range of its own. */
    assert_int_equal(taken_bytes + arena_held_bytes(tiny.state->arena), sum_of(&need));
    const struct memory_need more = memory_need(tiny.state, &plan->layout, 0, true);
    assert_int_equal(more.state_bytes, 0); /* all state is held now */
    engine_free(engine);
    plan_free(plan);
    tiny_state_done(&tiny);
}

static void test_what_is_said_is_what_is_taken(void **state)
{
    (void)state;
    check_one(true, 0, PLAN_RECOMPUTE_NONE);
    check_one(false, 0, PLAN_RECOMPUTE_ATTENTION);
    check_one(true, 0, PLAN_RECOMPUTE_FULL);
    check_one(true, 2, PLAN_RECOMPUTE_NONE);
}

static void test_recomputation_takes_less(void **state)
{
    struct tiny_state tiny;

    (void)state;
    begin(&tiny, true);
    struct plan *plan = plan_of_one(tiny.state->unit_count, tiny.spec.train.lanes);
    size_t all = memory_need(tiny.state, &plan->layout, 0, true).activation_bytes;
    plan->layout.recompute = PLAN_RECOMPUTE_FULL;
    assert_true(memory_need(tiny.state, &plan->layout, 0, true).activation_bytes < all);
    plan_free(plan);
    tiny_state_done(&tiny);
}

static void test_what_does_not_fit_says_the_numbers(void **state)
{
    const struct memory_need need = {.state_bytes = (size_t)30 << 20,
                                     .gradient_bytes = (size_t)20 << 20,
                                     .activation_bytes = (size_t)10 << 20};
    struct tiny_state tiny;
    struct error error = {0};

    (void)state;
    begin(&tiny, true);
    free_bytes = (size_t)60 << 20;
    assert_int_equal(memory_check(tiny.state, &need, &error), 0);
    free_bytes--;
    assert_int_equal(memory_check(tiny.state, &need, &error), -ENOMEM);
    assert_non_null(strstr(error.text, "60 MiB free of 80 MiB"));
    assert_non_null(strstr(error.text, "30 MiB more for parameters and optimizer, 20 MiB for "
                                       "gradients, 10 MiB for activations and 0 MiB for sums"));
    const struct memory_need endless = {.activation_bytes = SIZE_MAX, .state_bytes = 1};
    assert_int_equal(memory_check(tiny.state, &endless, &error), -ENOMEM);
    tiny.state->kernel = kernel_cpu(); /* the free memory is unknown: it may fit */
    assert_int_equal(memory_check(tiny.state, &need, &error), 0);
    tiny_state_done(&tiny);
}

/* With other replicas and sums made on the device, the received sums need room as well. */
static void test_room_for_the_sums_of_others_counts(void **state)
{
    struct tiny_state tiny;
    struct error error = {0};

    (void)state;
    begin(&tiny, false);
    struct plan *plan = plan_of_one(tiny.state->unit_count, tiny.spec.train.lanes);
    assert_int_equal(memory_need(tiny.state, &plan->layout, 0, true).reduction_bytes, 0);
    plan->layout.replica_count = 2;
    free(plan->layout.replica_first_lane);
    plan->layout.replica_first_lane = calloc(3, sizeof(unsigned));
    plan->layout.replica_first_lane[1] = 3;
    plan->layout.replica_first_lane[2] = tiny.spec.train.lanes;
    const struct memory_need apart = memory_need(tiny.state, &plan->layout, 0, false);
    const struct memory_need need = memory_need(tiny.state, &plan->layout, 0, true);
    assert_int_equal(apart.reduction_bytes, 0);
    assert_true(need.reduction_bytes > 0);
    assert_int_equal(memory_arena_bytes(&need), memory_arena_bytes(&apart) + need.reduction_bytes);
    free_bytes = sum_of(&need);
    assert_int_equal(memory_check(tiny.state, &need, &error), 0);
    free_bytes--;
    assert_int_equal(memory_check(tiny.state, &need, &error), -ENOMEM);
    assert_int_equal(memory_check(tiny.state, &apart, &error), 0);
    plan_free(plan);
    tiny_state_done(&tiny);
}

/* Beside the state of the last generation there is room for fewer than the plan defers. */
static void test_fewer_are_deferred_where_memory_is_short(void **state)
{
    struct tiny_state tiny;
    struct error error = {0};

    (void)state;
    begin(&tiny, false);
    struct plan *plan = plan_of_one(tiny.state->unit_count, tiny.spec.train.lanes);
    plan->layout.stage_count = 3;
    plan->layout.worker_count = 3;
    plan->layout.deferred = 2;
    free(plan->layout.stage_first_unit);
    plan->layout.stage_first_unit = calloc(4, sizeof(unsigned));
    for (unsigned stage = 1; stage <= 3; stage++)
        plan->layout.stage_first_unit[stage] = tiny.state->unit_count - 3 + stage;
    free_bytes = SIZE_MAX;
    const struct memory_need all = memory_need(tiny.state, &plan->layout, 2, true);
    assert_int_equal(all.deferred, 2);
    size_t before = all.activation_bytes;
    for (unsigned deferred = 2; deferred-- > 0;) {
        free_bytes = all.state_bytes + all.gradient_bytes + before - 1;
        const struct memory_need need = memory_need(tiny.state, &plan->layout, 2, true);
        assert_int_equal(need.deferred, deferred);
        assert_true(need.activation_bytes < before);
        assert_int_equal(memory_check(tiny.state, &need, &error), 0);
        before = need.activation_bytes;
    }
    free_bytes = all.state_bytes + all.gradient_bytes + before - 1;
    const struct memory_need least = memory_need(tiny.state, &plan->layout, 2, true);
    assert_int_equal(memory_check(tiny.state, &least, &error), -ENOMEM);
    plan_free(plan);
    tiny_state_done(&tiny);
}

/*
 * A generation that passed the check with the arena counted as free must not fail because of the
 * arena.
 */
static void test_an_arena_in_the_way_goes(void **state)
{
    static const struct {
        struct memory_need need;
        bool kept;
    } cases[] = {
        {{.state_bytes = 4096, .activation_bytes = 1024}, true},
        {{.state_bytes = 4097, .activation_bytes = 1024}, false},
        {{.state_bytes = 0, .activation_bytes = 2048}, true},
        {{.state_bytes = 0, .activation_bytes = 2049}, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct tiny_state tiny;
        struct error error = {0};
        begin(&tiny, true);
        counting.host_memory = false;
        assert_int_equal(arena_begin(tiny.state->arena, 2048, &error), 0);
        arena_end(tiny.state->arena);
        free_bytes = 4096;
        assert_int_equal(memory_check(tiny.state, &cases[i].need, &error), 0);
        memory_make_room(tiny.state, &cases[i].need);
        assert_int_equal(arena_held_bytes(tiny.state->arena), cases[i].kept ? 2048 : 0);
        tiny_state_done(&tiny);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_arena_in_the_way_goes),
        cmocka_unit_test(test_fewer_are_deferred_where_memory_is_short),
        cmocka_unit_test(test_what_is_said_is_what_is_taken),
        cmocka_unit_test(test_recomputation_takes_less),
        cmocka_unit_test(test_room_for_the_sums_of_others_counts),
        cmocka_unit_test(test_what_does_not_fit_says_the_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
