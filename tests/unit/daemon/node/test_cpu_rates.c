/* Tests of a node's measured speed of CPU slots: measured once, in the background, and kept. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "daemon/core/event_loop.h"
#include "daemon/node/cpu_rates.h"

#define ARITHMETIC "OpenBLAS 0.3.21 SkylakeX, kernels 2, 3 threads"
#define TURN_US    (10 * 1000 * 1000) /* a turn of the loop without an event for so long fails */

static char folder[] = "/tmp/firn-test-rates-XXXXXX";
static struct config config = {.threads = 3};
static struct event_loop loop;
static struct record_rates told;
static unsigned told_count, failed_count;

/* Make a program in place of firn-worker. */
static void make_worker(const char *command)
{
    snprintf(config.worker, sizeof(config.worker), "%s/worker", folder);
    FILE *file = fopen(config.worker, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\ntest \"$1 $2\" = 'rates cpu:3' || exit 1\n%s\n", command);
    fclose(file);
    assert_int_equal(chmod(config.worker, 0700), 0);
}

static void take(void *context, const struct record_rates *rates)
{
    assert_ptr_equal(context, &loop);
    if (rates)
        told = *rates;
    told_count += rates != NULL;
    failed_count += !rates;
}

static struct cpu_rates *start(void)
{
    struct cpu_rates *rates = NULL;

    told_count = failed_count = 0;
    assert_int_equal(cpu_rates_start(&(struct cpu_rates_options){.loop = &loop.loop,
                                                                 .config = &config,
                                                                 .numerics_identity = ARITHMETIC,
                                                                 .measured = take,
                                                                 .context = &loop},
                                     &rates),
                     0);
    assert_int_equal(told_count + failed_count, 0); /* the caller does not wait */
    return rates;
}

static void measure(void)
{
    struct cpu_rates *rates = start();
    /* Each turn brings a part of the line or the end of the output. */
    while (!told_count && !failed_count)
        assert_true(sd_event_run(loop.event, TURN_US) > 0);
    cpu_rates_free(rates);
}

static void forget(void)
{
    char path[sizeof(config.data_dir) + 16];
    snprintf(path, sizeof(path), "%s/cpu-rates", folder);
    unlink(path);
}

static int setup(void **state)
{
    (void)state;
    snprintf(config.data_dir, sizeof(config.data_dir), "%s", folder);
    forget();
    return event_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    event_loop_done(&loop);
    return 0;
}

static void test_a_line(void **state)
{
    static const char *const wrong[] = {"",
                                        "f32 1e11",
                                        "memory 2e10 f32 1e11",
                                        "f32 1e11 memory 2e10 host 1",
                                        "f32 0 memory 2e10",
                                        "f32 1e11 memory -1",
                                        "f32 inf memory 2e10"};
    struct record_rates rates = {.link_bytes = 7};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_int_equal(cpu_rates_parse(wrong[i], &rates), -EINVAL);
    assert_true(rates.link_bytes == 7.0);
    assert_int_equal(cpu_rates_parse("f32 1.1e+11 memory 2.0e+10", &rates), 0);
    assert_true(rates.f32_flops == 1.1e11 && rates.memory_bytes == 2e10);
    assert_true(rates.bf16_flops == 0.0 && rates.link_bytes == 0.0);
}

static void test_what_was_measured_is_kept(void **state)
{
    struct record_rates rates = {0};

    (void)state;
    assert_int_equal(cpu_rates_recall(&config, ARITHMETIC, &rates), -ENOENT);
    make_worker("echo 'f32 1.1e+11 memory 2.0e+10'");
    measure();
    assert_int_equal(told_count, 1);
    assert_true(told.f32_flops == 1.1e11 && told.memory_bytes == 2e10);
    assert_int_equal(cpu_rates_recall(&config, ARITHMETIC, &rates), 0);
    assert_true(rates.f32_flops == 1.1e11);
    /* Other threads or kernels: no measurement exists for them. */
    assert_int_equal(
        cpu_rates_recall(&config, "OpenBLAS 0.3.21 SkylakeX, kernels 2, 30 threads", &rates),
        -ENOENT);
}

static void test_a_worker_that_says_nothing_sound_is_not_believed(void **state)
{
    static const char *const commands[] = {"exit 1", "echo 'f32 1e11'",
                                           "printf 'f32 1e11 memory 2e1'"};
    struct record_rates rates;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        make_worker(commands[i]);
        measure();
        assert_int_equal(failed_count, 1);
        assert_int_equal(cpu_rates_recall(&config, ARITHMETIC, &rates), -ENOENT);
    }
    snprintf(config.worker, sizeof(config.worker), "%s/nothing", folder);
    struct cpu_rates *none = NULL;
    assert_true(cpu_rates_start(&(struct cpu_rates_options){.loop = &loop.loop,
                                                            .config = &config,
                                                            .numerics_identity = ARITHMETIC,
                                                            .measured = take,
                                                            .context = &loop},
                                &none) < 0);
    assert_null(none);
}

static void test_a_measurement_under_way_can_be_ended(void **state)
{
    (void)state;
    make_worker("exec sleep 600");
    cpu_rates_free(start());
    assert_int_equal(told_count + failed_count, 0);
    cpu_rates_free(NULL);
}

static int end(void **state)
{
    char path[sizeof(config.data_dir) + 16];
    (void)state;
    forget();
    snprintf(path, sizeof(path), "%s/worker", folder);
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_was_measured_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_worker_that_says_nothing_sound_is_not_believed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_measurement_under_way_can_be_ended, setup, teardown),
    };
    log_set_level(LOG_LEVEL_ERROR);
    return mkdtemp(folder) ? cmocka_run_group_tests(tests, NULL, end) : 1;
}
