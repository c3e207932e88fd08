/* Tests of the learning rate: its schedules, and its bits. */
#include "elastic/job/learning_rate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/compiler.h"

static bool close_to(double a, double b)
{
    return fabs(a - b) <= 1e-15;
}

static void test_learning_rate(void **state)
{
    struct job_training training = {
        .steps = 1000,
        .optimizer = {.lr = 1, .warmup = 100, .min_lr_factor = 0.1},
    };

    (void)state;
    training.optimizer.schedule = JOB_SCHEDULE_CONSTANT;
    assert_true(learning_rate_at(&training, 1) == 0.01);
    assert_true(learning_rate_at(&training, 100) == 1);
    assert_true(learning_rate_at(&training, 1000) == 1);
    training.optimizer.schedule = JOB_SCHEDULE_LINEAR;
    assert_true(close_to(learning_rate_at(&training, 550), 0.55));
    assert_true(close_to(learning_rate_at(&training, 1000), 0.1));
    training.optimizer.schedule = JOB_SCHEDULE_COSINE;
    for (uint64_t step = 101; step <= 1000; step++) {
        double x = (double)(step - 100) / 900;
        assert_true(close_to(learning_rate_at(&training, step), 0.55 + 0.45 * cos(M_PI * x)));
    }
    assert_true(close_to(learning_rate_at(&training, 1000), 0.1));
    training.optimizer.warmup = 1000; /* no steps are left for the decay */
    assert_true(learning_rate_at(&training, 1000) == 1);
    training.optimizer.warmup = 0;
    training.steps = 1;
    assert_true(close_to(learning_rate_at(&training, 1), 0.1));
}

/* Rates have the same bits as before the share was configurable, at steps all over the decay. */
static void test_the_usual_rates_stay_as_they_are(void **state)
{
    static const struct {
        enum job_schedule schedule;
        uint64_t step;
        double rate;
    } known[] = {
        {JOB_SCHEDULE_COSINE, 8, 0x1.3a927497a205fp-12},
        {JOB_SCHEDULE_COSINE, 123, 0x1.3125815542e96p-12},
        {JOB_SCHEDULE_COSINE, 877, 0x1.50537111d1e3ep-15},
        {JOB_SCHEDULE_COSINE, 1000, 0x1.f75104d551d6dp-16},
        {JOB_SCHEDULE_LINEAR, 8, 0x1.3a49a5f779d24p-12},
        {JOB_SCHEDULE_LINEAR, 123, 0x1.197ff8bed92ddp-12},
        {JOB_SCHEDULE_LINEAR, 877, 0x1.0a1a97d30180cp-14},
        {JOB_SCHEDULE_LINEAR, 1000, 0x1.f75104d551d66p-16},
    };
    struct job_training training = {
        .steps = 1000,
        .optimizer = {.lr = 3e-4, .warmup = 7, .min_lr_factor = 0.1},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        training.optimizer.schedule = known[i].schedule;
        assert_true(learning_rate_at(&training, known[i].step) == known[i].rate);
    }
}

/* The rate decays to the key's share: to zero, or not at all. */
static void test_smallest_learning_rate(void **state)
{
    static const enum job_schedule falling[] = {JOB_SCHEDULE_COSINE, JOB_SCHEDULE_LINEAR};
    struct job_training training = {.steps = 100, .optimizer = {.lr = 0.5}};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(falling); i++) {
        double before = 0.5;
        training.optimizer.schedule = falling[i];
        for (uint64_t step = 1; step <= training.steps; step++) {
            double rate = learning_rate_at(&training, step);
            assert_true(rate >= 0 && rate < before);
            before = rate;
        }
        assert_true(close_to(before, 0));
    }
    training.optimizer.min_lr_factor = 1;
    for (size_t i = 0; i < ARRAY_COUNT(falling); i++) {
        training.optimizer.schedule = falling[i];
        assert_true(close_to(learning_rate_at(&training, training.steps / 2), 0.5));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learning_rate),
        cmocka_unit_test(test_the_usual_rates_stay_as_they_are),
        cmocka_unit_test(test_smallest_learning_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
