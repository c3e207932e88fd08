/* Tests of a worker's stay in a generation: its next action after a step, an evaluation or broken
 * links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol/stay.h"

#define STEPS 10

static const struct plan plan = {.start = {.source = PLAN_SOURCE_CHECKPOINT, .resume_step = 7}};
static const struct plan others = {.generation = 6, .layout.worker_count = 2};
static const struct plan empty = {.generation = 6};

static struct stay begin(uint64_t applied_step, bool evaluates)
{
    struct stay stay;

    stay_begin(&stay, &plan, applied_step, STEPS, evaluates);
    return stay;
}

static void test_the_job_ends(void **state)
{
    (void)state;
    for (unsigned evaluates = 0; evaluates < 2; evaluates++) {
        struct stay stay = begin(8, evaluates);
        assert_int_equal(stay.action, STAY_STEP);
        assert_false(stay.stepped);
        stay_stepped(&stay, 0);
        assert_int_equal(stay.action, STAY_STEP);
        stay_stepped(&stay, 0);
        assert_true(stay.stepped);
        if (evaluates) {
            assert_int_equal(stay.action, STAY_EVALUATE);
            assert_false(stay_ends_job(&stay));
            stay_evaluated(&stay);
        }
        assert_int_equal(stay.action, STAY_FINISH);
        assert_true(stay_ends_job(&stay));
    }
}

/* All steps were done in generations before. */
static void test_only_the_end_is_left(void **state)
{
    (void)state;
    assert_int_equal(begin(STEPS, true).action, STAY_EVALUATE);
    assert_int_equal(begin(STEPS, false).action, STAY_FINISH);
}

static void test_another_generation_is_announced(void **state)
{
    (void)state;
    struct stay stay = begin(7, false);
    stay_stepped(&stay, 6);
    assert_int_equal(stay.action, STAY_AWAIT_PLAN);
    assert_int_equal(stay.announced, 6);
    stay_has_plan(&stay, &others);
    assert_int_equal(stay.action, STAY_SWITCH);
}

/* It would have nothing to do: the boundary is the last one. */
static void test_not_at_the_last_step(void **state)
{
    (void)state;
    struct stay stay = begin(STEPS - 1, true);
    stay_stepped(&stay, 6);
    assert_int_equal(stay.action, STAY_EVALUATE);
    assert_int_equal(stay.announced, 0);
}

static void test_a_plan_without_workers(void **state)
{
    (void)state;
    struct stay stay = begin(7, true);
    stay_stepped(&stay, 6);
    stay_has_plan(&stay, &empty);
    assert_int_equal(stay.action, STAY_FINISH);
    assert_false(stay_ends_job(&stay));
}

static void test_a_plan_that_does_not_come(void **state)
{
    (void)state;
    struct stay stay = begin(7, false);
    stay_stepped(&stay, 6);
    stay_has_plan(&stay, NULL);
    assert_int_equal(stay.action, STAY_BREAK);
}

static void test_links_break(void **state)
{
    (void)state;
    struct stay step = begin(7, true), evaluation = begin(STEPS, true);
    stay_left(&step, 0);
    assert_int_equal(step.action, STAY_BREAK);
    stay_left(&evaluation, 0);
    assert_int_equal(evaluation.action, STAY_BREAK);
}

static void test_left_for_another_generation(void **state)
{
    (void)state;
    struct stay step = begin(8, true), evaluation = begin(STEPS, true);
    stay_left(&step, 6);
    stay_has_plan(&step, &others);
    assert_int_equal(step.action, STAY_SWITCH);
    stay_left(&evaluation, 6);
    stay_has_plan(&evaluation, &others);
    assert_int_equal(evaluation.action, STAY_SWITCH);
}

/* The boundary that was read from a checkpoint need not be written again. */
static void test_left_for_a_plan_without_workers(void **state)
{
    (void)state;
    struct stay first = begin(7, true), later = begin(8, true), evaluation = begin(STEPS, true);
    stay_left(&first, 6);
    stay_has_plan(&first, &empty);
    assert_int_equal(first.action, STAY_LEAVE);
    stay_left(&later, 6);
    stay_has_plan(&later, &empty);
    assert_int_equal(later.action, STAY_FINISH_EARLY);
    stay_left(&evaluation, 6);
    stay_has_plan(&evaluation, &empty);
    assert_int_equal(evaluation.action, STAY_FINISH_EARLY);
    assert_false(stay_ends_job(&evaluation));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_job_ends),
        cmocka_unit_test(test_only_the_end_is_left),
        cmocka_unit_test(test_another_generation_is_announced),
        cmocka_unit_test(test_not_at_the_last_step),
        cmocka_unit_test(test_a_plan_without_workers),
        cmocka_unit_test(test_a_plan_that_does_not_come),
        cmocka_unit_test(test_links_break),
        cmocka_unit_test(test_left_for_another_generation),
        cmocka_unit_test(test_left_for_a_plan_without_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
