/* Tests of the boundaries at which a generation begins checkpoints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol/checkpoint_calendar.h"

#define EVERY 100
#define STEPS 1000

static const struct job_spec spec = {.checkpoint.every = EVERY, .train.steps = STEPS};

/* A generation that begins at @began from memory; @recorded: the recorded step in its plan. */
static struct checkpoint_calendar calendar_of(uint64_t began, uint64_t recorded)
{
    const struct plan plan = {.start.source = PLAN_SOURCE_MEMORY,
                              .checkpoints.recorded_step = recorded};
    struct checkpoint_calendar calendar;

    checkpoint_calendar_begin(&calendar, &spec, &plan, began);
    return calendar;
}

/* Return the boundary from @step on at which a checkpoint is due. */
static uint64_t next_due(const struct checkpoint_calendar *calendar, uint64_t step)
{
    while (!checkpoint_calendar_due(calendar, step) && step < UINT64_C(10) * STEPS)
        step++;
    return step;
}

static void test_the_job_names_boundaries(void **state)
{
    struct checkpoint_calendar calendar = calendar_of(250, 200);

    (void)state;
    assert_int_equal(next_due(&calendar, 251), 300);
    assert_int_equal(next_due(&calendar, 301), 400);
    assert_false(checkpoint_calendar_due(&calendar, STEPS)); /* the last checkpoint's */
}

static void test_a_missed_one_follows_the_first_step(void **state)
{
    static const uint64_t began[] = {200, 201, 299};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct checkpoint_calendar calendar = calendar_of(began[i], 100);
        assert_int_equal(next_due(&calendar, began[i]), i == 0 ? began[i] : began[i] + 1);
        assert_int_equal(next_due(&calendar, began[i] + 1), began[i] + 1);
        if (began[i] + 1 < 300)
            assert_int_equal(next_due(&calendar, began[i] + 2), 300);
    }
}

static void test_none_is_missed(void **state)
{
    struct checkpoint_calendar calendar = calendar_of(99, 0); /* none was due yet */

    (void)state;
    assert_int_equal(next_due(&calendar, 100), 100);
    calendar = calendar_of(250, 300); /* the steps since are computed again */
    assert_int_equal(next_due(&calendar, 251), 300);
    calendar = calendar_of(STEPS - 1, 100);
    assert_false(checkpoint_calendar_due(&calendar, STEPS));
}

static void test_a_restored_state_is_on_disk(void **state)
{
    const struct plan plan = {.start.source = PLAN_SOURCE_CHECKPOINT};
    struct checkpoint_calendar calendar;

    (void)state;
    checkpoint_calendar_begin(&calendar, &spec, &plan, 500); /* another job's, perhaps */
    assert_int_equal(next_due(&calendar, 501), 600);
}

static void test_no_checkpoints_but_the_last(void **state)
{
    const struct job_spec never = {.train.steps = STEPS};
    const struct plan plan = {.start.source = PLAN_SOURCE_MEMORY};
    struct checkpoint_calendar calendar;

    (void)state;
    checkpoint_calendar_begin(&calendar, &never, &plan, 500);
    for (uint64_t step = 500; step <= STEPS; step++)
        assert_false(checkpoint_calendar_due(&calendar, step));
}

static void test_a_missed_one_waits_for_shares_in_flight(void **state)
{
    struct checkpoint_calendar calendar = calendar_of(210, 100);
    uint64_t tries = 0, step = 210;

    (void)state;
    while ((step = next_due(&calendar, step + 1)) < 300) {
        assert_int_equal(step, 210 + (UINT64_C(1) << tries++));
        checkpoint_calendar_left_out(&calendar, step);
    }
    assert_int_equal(tries, 7); /* after 1, 2, 4 ... 64 steps */
    assert_int_equal(step, 300);
    checkpoint_calendar_left_out(&calendar, step);
    assert_int_equal(next_due(&calendar, step + 1), 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_job_names_boundaries),
        cmocka_unit_test(test_a_missed_one_follows_the_first_step),
        cmocka_unit_test(test_none_is_missed),
        cmocka_unit_test(test_a_restored_state_is_on_disk),
        cmocka_unit_test(test_no_checkpoints_but_the_last),
        cmocka_unit_test(test_a_missed_one_waits_for_shares_in_flight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
