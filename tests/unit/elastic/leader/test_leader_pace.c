/* Tests of the measured step: which reports count, and that one slow step decides nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "elastic/leader/leader_pace.h"

static struct plan plan;
static struct leader_view view;
static struct leader_pace pace;

static int setup(void **state)
{
    (void)state;
    plan = (struct plan){.generation = 3};
    view = (struct leader_view){.plan = &plan};
    pace = (struct leader_pace){0};
    return 0;
}

static void tell(uint64_t step, double seconds)
{
    view.progress.step = step;
    view.progress.step_seconds = seconds;
    leader_pace_note(&view, &pace);
}

static void test_the_median_counts(void **state)
{
    (void)state;
    assert_true(leader_pace_seconds(&pace) == 0);
    tell(10, 0.25);
    assert_true(leader_pace_seconds(&pace) == 0.25);
    tell(11, 8);
    tell(12, 0.5);
    assert_true(leader_pace_seconds(&pace) == 0.5);
    tell(12, 9); /* the same step once more */
    assert_true(leader_pace_seconds(&pace) == 0.5);
    tell(13, 0); /* not known */
    assert_false(leader_pace_is_known(&pace));
    tell(14, 0.375);
    tell(15, 0.375);
    assert_true(leader_pace_is_known(&pace));
    assert_true(leader_pace_seconds(&pace) == 0.375);
}

static void test_old_steps_are_forgotten(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= LEADER_PACE_STEPS; step++)
        tell(step, 1);
    for (uint64_t step = 1; step <= LEADER_PACE_STEPS / 2; step++)
        tell(100 + step, 2);
    assert_true(leader_pace_seconds(&pace) == 1);
    tell(200, 2);
    assert_true(leader_pace_seconds(&pace) == 2);
}

static void test_a_new_plan_begins_anew(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= LEADER_PACE_STEPS; step++)
        tell(step, 1);
    plan.generation++;
    tell(0, 0);
    assert_true(leader_pace_seconds(&pace) == 0);
    assert_true(pace.before_freeze == 0);
    view.plan = NULL;
    tell(30, 1);
    assert_int_equal(pace.generation, 0);
}

static void test_a_freeze_begins_anew_and_remembers(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= 5; step++)
        tell(step, 1);
    view.progress.frozen_layers = 4;
    tell(6, 0.5);
    assert_true(pace.before_freeze == 1);
    assert_true(leader_pace_seconds(&pace) == 0.5);
    view.progress.frozen_layers = 7; /* too soon to have been measured */
    tell(7, 0.25);
    assert_true(pace.before_freeze == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_median_counts, setup),
        cmocka_unit_test_setup(test_old_steps_are_forgotten, setup),
        cmocka_unit_test_setup(test_a_new_plan_begins_anew, setup),
        cmocka_unit_test_setup(test_a_freeze_begins_anew_and_remembers, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
