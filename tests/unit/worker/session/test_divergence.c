/* Tests of a step with NaN: it stops the job or is skipped, and an alarm reports it for a while. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/job/job_spec.h"
#include "worker/session/divergence.h"

static struct step_record *record_of(uint64_t step, double loss, double square)
{
    static struct step_record record;

    step_record_init(&record, step, 2, 2);
    record.unit_squares[0] = 1;
    record.unit_squares[1] = square;
    record.lane_losses[0] = loss;
    record.lane_losses[1] = 3;
    return &record;
}

static void assert_stops(double loss, double square, const char *words)
{
    struct job_spec spec = {.train.on_nan = JOB_NAN_STOP};
    struct error error = {0};

    assert_int_equal(divergence_check(&spec.train, record_of(7, loss, square), &error), -EDOM);
    assert_non_null(strstr(error.text, "step 7: the "));
    assert_non_null(strstr(error.text, words));
    spec.train.on_nan = JOB_NAN_SKIP;
    assert_int_equal(divergence_check(&spec.train, record_of(7, loss, square), &error), 0);
}

static void test_what_is_no_number_stops_the_job(void **state)
{
    struct job_spec spec = {.train.on_nan = JOB_NAN_STOP};
    struct error error = {0};

    (void)state;
    assert_stops(NAN, 1, "the loss is NaN");
    assert_stops(-INFINITY, 1, "the loss is infinite");
    assert_stops(2, step_record_known(NAN), "the gradient norm is NaN");
    assert_stops(2, INFINITY, "the gradient norm is infinite");
    assert_stops(NAN, NAN, "the loss is NaN");
    assert_int_equal(divergence_check(&spec.train, record_of(7, 1e300, 1e300), &error), 0);
}

static void test_the_alarm_lasts_until_steps_are_calm(void **state)
{
    struct divergence divergence = {0};

    (void)state;
    assert_string_equal(divergence_alarm(&divergence, record_of(1, 2, 2)), "");
    assert_string_not_equal(divergence_alarm(&divergence, record_of(2, NAN, 2)), "");
    for (uint64_t step = 3; step < 2 + DIVERGENCE_CALM_STEPS; step++)
        assert_string_not_equal(divergence_alarm(&divergence, record_of(step, 2, 2)), "");
    assert_string_equal(divergence_alarm(&divergence, record_of(2 + DIVERGENCE_CALM_STEPS, 2, 2)),
                        "");
}

static void test_the_alarm_of_a_step_that_the_job_went_back_before_is_over(void **state)
{
    struct divergence divergence = {0};

    (void)state;
    assert_string_not_equal(divergence_alarm(&divergence, record_of(9, NAN, 2)), "");
    assert_string_equal(divergence_alarm(&divergence, record_of(5, 2, 2)), "");
    assert_string_equal(divergence_alarm(&divergence, record_of(9, 2, 2)), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_number_stops_the_job),
        cmocka_unit_test(test_the_alarm_lasts_until_steps_are_calm),
        cmocka_unit_test(test_the_alarm_of_a_step_that_the_job_went_back_before_is_over),
    };
    return cmocka_run_group_tests_name("worker/divergence", tests, NULL, NULL);
}
