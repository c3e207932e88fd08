/*
 * Tests of the units in a worker's report: the stage first, then copies, then left-over units.
 * Tests of units that a plan expects and the worker lacks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/recovery/holdings.h"
#include "lib/elastic/sample_plan.h"

/*
 * Describe a worker with the units of @letters, one letter per unit, '.' where the unit is not
 * held.
 */
static struct worker_report *describe(const char *letters, const struct plan *plan, unsigned rank)
{
    static struct worker_report report;
    bool held[SAMPLE_UNITS];
    memset(&report, 0, sizeof(report));
    for (unsigned unit = 0; unit < SAMPLE_UNITS; unit++)
        held[unit] = letters[unit] != '.';
    holdings_describe(held, SAMPLE_UNITS, plan, rank, &report);
    return &report;
}

static void assert_ranges(const struct worker_report *report, unsigned held_first,
                          unsigned held_count, unsigned old_first, unsigned old_count)
{
    assert_int_equal(report->held_first_unit, held_first);
    assert_int_equal(report->held_unit_count, held_count);
    assert_int_equal(report->old_first_unit, old_first);
    assert_int_equal(report->old_unit_count, old_count);
}

static void test_without_a_generation_all_is_left_from_before(void **state)
{
    (void)state;
    assert_ranges(describe("......", NULL, 0), 0, 0, 0, 0);
    assert_ranges(describe(".xx...", NULL, 0), 1, 2, 0, 0);
    const struct worker_report *report = describe("x.xx.x", NULL, 0);
    assert_ranges(report, 0, 1, 2, 2);
    assert_int_equal(report->extra_count, 1);
    assert_int_equal(report->extras[0].first, 5);
    assert_false(report->extras[0].shadows);
}

/* Stages [0, 2) and [2, 6). */
static void test_the_stage_comes_first_and_copies_are_named(void **state)
{
    struct plan *plan = sample_plan();
    unsigned keeper = plan->layout.shadows[0].rank, stage = plan->layout.shadows[0].stage;
    (void)state;
    assert_int_equal(keeper % SAMPLE_STAGES, 1 - stage);

    const struct worker_report *report = describe("xxxxxx", plan, keeper);
    unsigned own_first = plan->layout.stage_first_unit[1 - stage];
    unsigned own_count = plan->layout.stage_first_unit[2 - stage] - own_first;
    assert_ranges(report, own_first, own_count, 0, 0);
    assert_int_equal(report->extra_count, 1);
    assert_int_equal(report->extras[0].first, plan->layout.stage_first_unit[stage]);
    assert_true(report->extras[0].shadows);

    unsigned other = keeper >= SAMPLE_STAGES ? keeper - SAMPLE_STAGES : keeper + SAMPLE_STAGES;
    report = describe("xxxxxx", plan, other); /* the same stage, and no copies: left over */
    assert_int_equal(report->held_first_unit, own_first);
    assert_int_equal(report->old_unit_count, SAMPLE_UNITS - own_count);
    assert_int_equal(report->extra_count, 0);
    plan_free(plan);
}

/* The links broke while the rest of the stage was on its way: it is not held, and `holds` of the
 * report covers nothing. */
static void test_a_part_of_a_stage_is_left_from_before(void **state)
{
    struct plan *plan = sample_plan();
    const struct worker_report *report;
    (void)state;
    report = describe("x.xxxx", plan, 0); /* its stage is [0, 2) */
    assert_ranges(report, 0, 1, 2, 4);
    report = describe(".x....", plan, 0);
    assert_ranges(report, 1, 1, 0, 0);
    report =
        describe("xxxx.x", plan, 3); /* [2, 6), and a copy of [0, 2), which may be from before */
    assert_ranges(report, 0, 4, 5, 1);
    assert_int_equal(report->extra_count, 0);
    plan_free(plan);
}

static unsigned lacking(const char *letters, const struct plan *plan, unsigned rank)
{
    bool held[SAMPLE_UNITS];
    for (unsigned unit = 0; unit < SAMPLE_UNITS; unit++)
        held[unit] = letters[unit] != '.';
    return holdings_lacking(held, SAMPLE_UNITS, plan, rank);
}

/* Rank 0 keeps [0, 2) and is sent both; rank 3 keeps [2, 6) and a copy of [0, 2). */
static void test_what_a_plan_counts_on_is_missed(void **state)
{
    struct plan *plan = sample_plan();
    (void)state;
    assert_int_equal(lacking("......", plan, 0), SAMPLE_UNITS);
    plan->start.move_count = 1;
    assert_int_equal(lacking("......", plan, 0), 1);
    assert_int_equal(lacking(".x....", plan, 0), SAMPLE_UNITS);
    assert_int_equal(lacking("xxxx.x", plan, 3), 4);
    assert_int_equal(lacking("..xxxx", plan, 3), 0);
    assert_int_equal(lacking("xxxxxx", plan, 3), SAMPLE_UNITS);
    plan->start.source = PLAN_SOURCE_CHECKPOINT;
    assert_int_equal(lacking("......", plan, 3), SAMPLE_UNITS); /* all units are read */
    plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_generation_all_is_left_from_before),
        cmocka_unit_test(test_the_stage_comes_first_and_copies_are_named),
        cmocka_unit_test(test_a_part_of_a_stage_is_left_from_before),
        cmocka_unit_test(test_what_a_plan_counts_on_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
