/* Tests of units that arrive while a step is computed: the rights of a worker before they are
 * here, and the units that are copies when the links break. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol/unit_arrivals.h"

static struct plan_move moves[] = {
    {.unit = 3, .from_rank = 0, .to_rank = 1},
    {.unit = 4, .from_rank = 2, .to_rank = 1},
    {.unit = 4, .from_rank = 2, .to_rank = 0},
};
static const struct plan plan = {.start = {.move_count = 3, .moves = moves}};

static const bool held_by_none[STEP_RECORD_UNITS_MAX];

static void test_a_rank_that_receives_nothing_waits_for_nothing(void **state)
{
    struct unit_arrivals arrivals;

    (void)state;
    unit_arrivals_begin(&arrivals, &plan, 2, held_by_none); /* it gives units */
    assert_true(unit_arrivals_are_complete(&arrivals));
    assert_true(unit_arrivals_may_compute(&arrivals, 4));
    assert_true(unit_arrivals_is_copy(&arrivals, 4));
}

static void test_a_unit_computes_with_its_parameters_and_is_a_copy_with_its_moments(void **state)
{
    struct unit_arrivals arrivals;

    (void)state;
    unit_arrivals_begin(&arrivals, &plan, 1, held_by_none);
    assert_true(unit_arrivals_is_copy(&arrivals, 2)); /* from before */
    assert_false(unit_arrivals_may_compute(&arrivals, 3));
    unit_arrivals_parameters(&arrivals, 3);
    assert_true(unit_arrivals_may_compute(&arrivals, 3));
    assert_false(unit_arrivals_may_compute(&arrivals, 4));
    assert_false(unit_arrivals_is_copy(&arrivals, 3));
    unit_arrivals_whole(&arrivals, 3);
    assert_true(unit_arrivals_is_copy(&arrivals, 3));
    assert_false(unit_arrivals_are_complete(&arrivals));
    unit_arrivals_parameters(&arrivals, 4);
    assert_false(unit_arrivals_are_complete(&arrivals));
    unit_arrivals_whole(&arrivals, 4);
    assert_true(unit_arrivals_are_complete(&arrivals));
}

static void test_a_unit_that_is_held_stays_a_copy(void **state)
{
    static const bool held[STEP_RECORD_UNITS_MAX] = {[3] = true};
    struct unit_arrivals arrivals;

    (void)state;
    unit_arrivals_begin(&arrivals, &plan, 1, held);
    assert_true(unit_arrivals_is_copy(&arrivals, 3));
    assert_false(unit_arrivals_is_copy(&arrivals, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_that_receives_nothing_waits_for_nothing),
        cmocka_unit_test(test_a_unit_that_is_held_stays_a_copy),
        cmocka_unit_test(test_a_unit_computes_with_its_parameters_and_is_a_copy_with_its_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
