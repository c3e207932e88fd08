/*
 * Tests of the state that a worker keeps of a generation when the next one continues from another
 * state.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/worker/tiny_state.h"

#include "lib/worker/plan_of_one.h"
#include "worker/session/generation.h"

static void make_room(enum plan_source source, uint64_t disputed_step)
{
    struct tiny_state tiny;
    struct error error = {0};

    tiny_state_init(&tiny, true);
    tiny.spec.train.lanes = 1;
    tiny.spec.train.micro_batch = 1;
    tiny.spec.train.micro_batches_per_lane = 1;
    assert_int_equal(state_initialize(tiny.state, 0, tiny.state->unit_count, &error), 0);
    struct plan *plan = plan_of_one(tiny.state->unit_count, 1);
    plan->start.source = source;
    struct trainer trainer = {.spec = tiny.spec,
                              .device.kernel = kernel_cpu(),
                              .state = tiny.state,
                              .plan = plan,
                              .commit.disputes = {.gradients_step = 41, .state_step = 43}};
    assert_int_equal(generation_make_room(&trainer, 0, &error), 0);
    assert_int_equal(trainer.commit.disputes.gradients_step, disputed_step);
    assert_int_equal(trainer.commit.disputes.state_step, 43); /* the reason why it goes back */
    assert_int_equal(tiny.state->units[0].held, disputed_step != 0);
    plan_free(plan);
    tiny_state_done(&tiny);
}

/* The step is replayed from a state that has nothing to do with the disputed one. */
static void test_a_rollback_ends_what_was_disputed(void **state)
{
    (void)state;
    make_room(PLAN_SOURCE_MEMORY, 41);
    make_room(PLAN_SOURCE_CHECKPOINT, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_rollback_ends_what_was_disputed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
