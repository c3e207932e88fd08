/*
 * Tests of recovery against an independent reading of the table in elastic/recovery/recovery.h,
 * over every small world: stages x replicas, every subset of survivors, every combination of
 * BEFORE, HOLD and APPLIED that the protocol allows.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/recovery/recovery.h"

#define UNITS       8
#define LANES       6
#define STEP        7 /* the step in flight */
#define WORKERS_MAX 12

enum fate { GONE, BEFORE, HOLD, APPLIED };

static struct worker_report reports[WORKERS_MAX];
static bool ring; /* one replica; each worker keeps a copy of the stage after its own */
static struct recovery outcome;
static struct error error;

static double square_of(uint64_t step, unsigned unit)
{
    return (double)step * 100 + unit;
}

static double loss_of(uint64_t step, unsigned lane)
{
    return (double)step * 1000 + lane;
}

/* Add the knowledge of a worker of (stage, replica) about a step that it holds. */
static void know_own(struct worker_report *report, uint64_t step, bool last_stage, unsigned lane,
                     unsigned lane_end)
{
    step_record_init(&report->record, step, UNITS, LANES);
    for (unsigned u = 0; u < report->held_unit_count; u++)
        report->record.unit_squares[report->held_first_unit + u] =
            square_of(step, report->held_first_unit + u);
    for (unsigned i = 0; i < report->extra_count; i++)
        for (unsigned u = 0; u < report->extras[i].count; u++)
            report->record.unit_squares[report->extras[i].first + u] =
                square_of(step, report->extras[i].first + u);
    for (; last_stage && lane < lane_end; lane++)
        report->record.lane_losses[lane] = loss_of(step, lane);
}

static void know_all(struct worker_report *report, uint64_t step)
{
    step_record_init(&report->record, step, UNITS, LANES);
    for (unsigned u = 0; u < UNITS; u++)
        report->record.unit_squares[u] = square_of(step, u);
    for (unsigned lane = 0; lane < LANES; lane++)
        report->record.lane_losses[lane] = loss_of(step, lane);
}

static void fill_report(struct worker_report *report, enum fate fate, unsigned stage,
                        unsigned stages, unsigned replica, unsigned replicas)
{
    memset(report, 0, offsetof(struct worker_report, record));
    report->record.step = 0;
    report->phase = WORKER_STUCK;
    report->generation = 3;
    report->held_first_unit = stage * UNITS / stages;
    report->held_unit_count = (stage + 1) * UNITS / stages - report->held_first_unit;
    if (ring) {
        unsigned next = (stage + 1) % stages, first = next * UNITS / stages;
        report->extra_count = 1;
        report->extras[0] = (struct report_extra){first, (next + 1) * UNITS / stages - first, true};
    }
    report->applied_step = fate == APPLIED ? STEP : STEP - 1;
    report->holds = fate == HOLD;
    if (fate == HOLD)
        know_own(report, STEP, stage + 1 == stages, replica * LANES / replicas,
                 (replica + 1) * LANES / replicas);
    else
        know_all(report, report->applied_step);
}

/* Check the outcome against the table, from fates alone. */
static void check_outcome(const enum fate *fates, unsigned stages, unsigned replicas)
{
    bool applied = false, before = false, held = false, covered = true, lanes_known = true;
    unsigned missing = 0;
    for (unsigned stage = stages; stage-- > 0;) {
        bool survivor = ring && fates[(stage + stages - 1) % stages] != GONE;
        for (unsigned replica = 0; replica < replicas; replica++) {
            enum fate fate = fates[replica * stages + stage];
            survivor = survivor || fate != GONE;
            applied = applied || fate == APPLIED;
            before = before || fate == BEFORE;
            held = held || fate == HOLD;
            if (stage + 1 == stages && fate == GONE)
                lanes_known = false;
        }
        if (!survivor) {
            covered = false;
            missing = stage * UNITS / stages;
        }
    }
    if (!covered) {
        assert_int_equal(outcome.kind, RECOVERY_CHECKPOINT);
        assert_int_equal(outcome.missing_unit, missing);
        return;
    }
    bool stands = applied ? held : !before && lanes_known;
    assert_int_equal(outcome.kind, stands ? RECOVERY_STANDS : RECOVERY_REPLAY);
    assert_int_equal(outcome.step, applied || stands ? STEP : STEP - 1);
    assert_int_equal(outcome.commit.step, stands ? STEP : 0);
    for (unsigned u = 0; stands && u < UNITS; u++)
        assert_true(outcome.commit.unit_squares[u] == square_of(STEP, u));
    for (unsigned lane = 0; stands && lane < LANES; lane++)
        assert_true(outcome.commit.lane_losses[lane] == loss_of(STEP, lane));
}

static void check_world(const enum fate *fates, unsigned stages, unsigned replicas)
{
    unsigned count = 0;
    for (unsigned worker = 0; worker < stages * replicas; worker++)
        if (fates[worker] != GONE)
            fill_report(&reports[count++], fates[worker], worker % stages, stages, worker / stages,
                        replicas);
    assert_int_equal(recovery_decide(reports, count, UNITS, LANES, JOB_NAN_STOP, &outcome, &error),
                     0);
    check_outcome(fates, stages, replicas);
}

/* Check every assignment of three fates to the workers; in large worlds every 61st. */
static void check_shape(unsigned stages, unsigned replicas, const enum fate choices[3])
{
    unsigned workers = stages * replicas, total = 1, stride = workers > 8 ? 61 : 1;
    for (unsigned i = 0; i < workers; i++)
        total *= 3;
    for (unsigned number = 0; number < total; number += stride) {
        enum fate fates[WORKERS_MAX];
        for (unsigned i = 0, rest = number; i < workers; i++, rest /= 3)
            fates[i] = choices[rest % 3];
        check_world(fates, stages, replicas);
    }
}

static void test_every_small_world_follows_the_table(void **state)
{
    (void)state;
    const enum fate nobody_applied[] = {GONE, BEFORE, HOLD},
                    somebody_applied[] = {GONE, HOLD, APPLIED};
    for (unsigned stages = 2; stages <= 4; stages++)
        for (unsigned replicas = 1; replicas <= 3; replicas++) {
            check_shape(stages, replicas, nobody_applied);
            check_shape(stages, replicas, somebody_applied);
        }
}

static void test_a_shadow_survives_for_its_stage(void **state)
{
    (void)state;
    const enum fate nobody_applied[] = {GONE, BEFORE, HOLD},
                    somebody_applied[] = {GONE, HOLD, APPLIED};
    ring = true;
    for (unsigned stages = 2; stages <= 6; stages++) {
        check_shape(stages, 1, nobody_applied);
        check_shape(stages, 1, somebody_applied);
    }
    ring = false;
}

/* Check two stages of one replica: rank 0 and rank 1. */
static void two_stages(enum fate first, enum fate second)
{
    fill_report(&reports[0], first, 0, 2, 0, 1);
    fill_report(&reports[1], second, 1, 2, 0, 1);
}

static int decide(unsigned count)
{
    return recovery_decide(reports, count, UNITS, LANES, JOB_NAN_STOP, &outcome, &error);
}

/* A lost rank may have caused the NaN, and the others have not compared their held gradients. */
static void test_a_step_without_numbers_is_computed_again(void **state)
{
    (void)state;
    two_stages(HOLD, HOLD);
    reports[1].record.lane_losses[0] = step_record_known(NAN);
    assert_int_equal(decide(2), 0);
    assert_int_equal(outcome.kind, RECOVERY_REPLAY);
    assert_int_equal(outcome.step, STEP - 1);
    assert_int_equal(outcome.commit.step, 0);
    assert_int_equal(recovery_decide(reports, 2, UNITS, LANES, JOB_NAN_SKIP, &outcome, &error), 0);
    assert_int_equal(outcome.kind, RECOVERY_STANDS); /* the step is skipped */
    two_stages(HOLD, HOLD);
    assert_int_equal(decide(2), 0);
    assert_int_equal(outcome.kind, RECOVERY_STANDS);
}

static void test_nobody_left_is_the_checkpoint(void **state)
{
    (void)state;
    assert_int_equal(decide(0), 0);
    assert_int_equal(outcome.kind, RECOVERY_CHECKPOINT);
    two_stages(HOLD, HOLD);
    reports[1].held_unit_count = 0; /* alive, but fresh */
    assert_int_equal(decide(2), 0);
    assert_int_equal(outcome.kind, RECOVERY_CHECKPOINT);
    assert_int_equal(outcome.missing_unit, 4);
}

/* Units left from the generation before are a step behind when the step in flight is applied. */
static void test_extras_without_gradients_do_not_count_at_hold(void **state)
{
    (void)state;
    for (int shadows = 0; shadows <= 1; shadows++) {
        struct recovery_range ranges[REPORT_RANGES_MAX];
        two_stages(HOLD, APPLIED);
        reports[0].extra_count = 1;
        reports[0].extras[0] = (struct report_extra){4, 4, shadows};
        reports[1].held_first_unit = 0; /* a replica of the first stage: no other rank has 4 to 7 */
        assert_int_equal(decide(2), 0);
        assert_int_equal(outcome.kind, shadows ? RECOVERY_STANDS : RECOVERY_REPLAY);
        assert_int_equal(outcome.step, shadows ? STEP : STEP - 1);
        assert_int_equal(recovery_ranges(&outcome, &reports[0], ranges), 2);
        assert_int_equal(ranges[1].first, 4);
        assert_int_equal(ranges[1].count, 4);
        assert_int_equal(recovery_ranges(&outcome, &reports[1], ranges), shadows ? 1 : 0);
    }
}

static void test_old_ranges_count_after_a_broken_switch(void **state)
{
    (void)state;
    two_stages(APPLIED, APPLIED);
    reports[0].held_unit_count = 2;
    reports[0].old_first_unit = 2;
    reports[0].old_unit_count = 2;
    assert_int_equal(decide(2), 0);
    assert_int_equal(outcome.kind, RECOVERY_REPLAY);
    assert_int_equal(outcome.step, STEP);
    struct recovery_range ranges[REPORT_RANGES_MAX];
    assert_int_equal(recovery_ranges(&outcome, &reports[0], ranges), 2);
}

/* The old range has no gradients of the step that the new range holds. */
static void test_old_ranges_cannot_apply_a_step(void **state)
{
    (void)state;
    two_stages(HOLD, HOLD);
    reports[0].held_unit_count = 2;
    reports[0].old_first_unit = 2;
    reports[0].old_unit_count = 2;
    reports[0].record.unit_squares[2] = square_of(STEP, 2);
    assert_int_equal(decide(2), 0);
    assert_int_equal(outcome.kind, RECOVERY_REPLAY);
    assert_int_equal(outcome.step, STEP - 1);
    assert_int_equal(outcome.commit.step, 0);
}

static void test_a_straggler_of_an_old_generation_counts_for_nothing(void **state)
{
    (void)state;
    two_stages(APPLIED, APPLIED);
    fill_report(&reports[2], BEFORE, 0, 2, 0, 1);
    reports[2].generation = 2;
    reports[2].applied_step = STEP - 4;
    reports[2].record.step = 0;
    assert_int_equal(decide(3), 0);
    assert_int_equal(outcome.kind, RECOVERY_REPLAY);
    assert_int_equal(outcome.step, STEP);
    struct recovery_range ranges[REPORT_RANGES_MAX];
    assert_int_equal(recovery_ranges(&outcome, &reports[2], ranges), 0);
    /* A single rank with its stage cannot save the job, either. */
    reports[0] = reports[2];
    assert_int_equal(decide(2), 0);
    assert_int_equal(outcome.kind, RECOVERY_CHECKPOINT);
}

/* The rank applied the step before it was cut off; the others had to discard and replay it. */
static void test_one_that_is_ahead_does_not_cost_the_others_their_state(void **state)
{
    (void)state;
    two_stages(BEFORE, BEFORE);
    fill_report(&reports[2], APPLIED, 1, 2, 0, 1);
    reports[2].generation = 2;
    assert_int_equal(decide(3), 0);
    assert_int_equal(outcome.kind, RECOVERY_REPLAY);
    assert_int_equal(outcome.step, STEP - 1);
    struct recovery_range ranges[REPORT_RANGES_MAX];
    assert_int_equal(recovery_ranges(&outcome, &reports[2], ranges), 0);
    /* If the others hold the step again, the rank's record lets them apply it. */
    fill_report(&reports[0], HOLD, 0, 2, 0, 1);
    assert_int_equal(decide(3), 0);
    assert_int_equal(outcome.kind, RECOVERY_STANDS);
    assert_int_equal(outcome.step, STEP);
    assert_int_equal(recovery_ranges(&outcome, &reports[1], ranges), 0);
}

/* A rank that has just joined has applied nothing, and reports so. */
static void test_one_without_state_contradicts_nobody(void **state)
{
    (void)state;
    two_stages(APPLIED, APPLIED);
    fill_report(&reports[2], BEFORE, 0, 2, 0, 1);
    reports[2].held_unit_count = 0;
    reports[2].applied_step = 0;
    assert_int_equal(decide(3), 0);
    assert_int_equal(outcome.step, STEP);
}

/* Reports are untrusted input: units beyond the model are skipped. */
static void test_units_that_the_model_has_not_are_passed_over(void **state)
{
    (void)state;
    two_stages(APPLIED, APPLIED);
    reports[1].held_unit_count = 1u << 20;
    assert_int_equal(decide(2), 0);
    assert_int_equal(outcome.step, STEP);
    reports[0].held_unit_count = 0;
    assert_int_equal(decide(2), 0);
    assert_int_equal(outcome.missing_unit, 0);
}

static void test_contradictions_are_refused(void **state)
{
    (void)state;
    two_stages(APPLIED, BEFORE);
    assert_int_equal(decide(2), -EBADMSG);
    assert_non_null(strstr(error.text, "generation 3"));
    two_stages(APPLIED, HOLD);
    reports[1].applied_step -= 1;
    reports[1].record.step = 0;
    assert_int_equal(decide(2), -EBADMSG);
    two_stages(HOLD, HOLD);
    reports[1].record.unit_squares[0] = 1;
    assert_int_equal(decide(2), -EBADMSG);
    assert_non_null(strstr(error.text, "other values"));
}

static void test_step_zero_is_state_like_any_other(void **state)
{
    (void)state;
    two_stages(BEFORE, BEFORE);
    reports[0].applied_step = reports[1].applied_step = 0;
    reports[0].record.step = reports[1].record.step = 0;
    assert_int_equal(decide(2), 0);
    assert_int_equal(outcome.kind, RECOVERY_REPLAY);
    assert_int_equal(outcome.step, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_small_world_follows_the_table),
        cmocka_unit_test(test_a_shadow_survives_for_its_stage),
        cmocka_unit_test(test_extras_without_gradients_do_not_count_at_hold),
        cmocka_unit_test(test_a_step_without_numbers_is_computed_again),
        cmocka_unit_test(test_nobody_left_is_the_checkpoint),
        cmocka_unit_test(test_old_ranges_count_after_a_broken_switch),
        cmocka_unit_test(test_old_ranges_cannot_apply_a_step),
        cmocka_unit_test(test_a_straggler_of_an_old_generation_counts_for_nothing),
        cmocka_unit_test(test_one_that_is_ahead_does_not_cost_the_others_their_state),
        cmocka_unit_test(test_one_without_state_contradicts_nobody),
        cmocka_unit_test(test_units_that_the_model_has_not_are_passed_over),
        cmocka_unit_test(test_contradictions_are_refused),
        cmocka_unit_test(test_step_zero_is_state_like_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
