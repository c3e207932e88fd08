/* Tests of the metrics of an old job: the bytes read from them, and the lines merged into them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/worker/metrics_file.h"
#include "worker/metrics/metrics_text.h"

/* Return the bytes that this process has requested by read() and similar calls. */
static uint64_t bytes_read(void)
{
    char line[80];
    FILE *io = fopen("/proc/self/io", "re");

    assert_non_null(io);
    assert_non_null(fgets(line, sizeof(line), io));
    fclose(io);
    assert_int_equal(strncmp(line, "rchar: ", 7), 0);
    return strtoull(line + 7, NULL, 10);
}

/* Write a file like after months of training: at once, and each line once. */
static void write_long_file(uint64_t lines)
{
    FILE *file = fopen(metrics_file_path, "we");

    assert_non_null(file);
    for (uint64_t step = 1; step <= lines; step++)
        assert_true(fprintf(file,
                            "{\"job\":\"tiny\",\"step\":%llu,\"loss\":1,\"loss_bits\":\"%016llx\","
                            "\"grad_norm\":1,\"grad_norm_bits\":\"3ff0000000000000\",\"lr\":0.1,"
                            "\"frozen_layers\":0,\"generation\":%llu}\n",
                            (unsigned long long)step, (unsigned long long)step,
                            (unsigned long long)(1 + step / 1000)) > 0);
    assert_int_equal(fclose(file), 0);
}

/* Return the bytes that the begin of a generation reads with a history of @lines steps. */
static uint64_t bytes_of_a_begin(uint64_t lines)
{
    struct error error = {0};
    struct metrics_line replayed = metrics_file_line(lines / 3);

    write_long_file(lines);
    uint64_t before = bytes_read();
    struct metrics *metrics = metrics_file_open();
    assert_int_equal(metrics_last_step(metrics), lines);
    assert_int_equal(metrics_append(metrics, &replayed, &error), -EILSEQ); /* it is found */
    metrics_file_append(metrics, lines + 1, lines + 1);
    assert_int_equal(metrics_rewind(metrics, lines - 5000, &error), 0);
    assert_int_equal(metrics_last_step(metrics), lines - 5000);
    metrics_close(metrics);
    return bytes_read() - before;
}

/* With a history a thousand times longer a begin costs a few more reads, and no memory. */
static void test_a_long_history_is_not_read(void **state)
{
    (void)state;
    uint64_t short_bytes = bytes_of_a_begin(6000), long_bytes = bytes_of_a_begin(600000);
    if (long_bytes > short_bytes + short_bytes / 2 + 65536)
        fail_msg("%llu bytes are read of 6,000 lines, %llu of 600,000",
                 (unsigned long long)short_bytes, (unsigned long long)long_bytes);
}

/*
 * A node that was away adopts the lines that it missed, and keeps lines older than the travelling
 * history.
 */
static void test_adopt_keeps_what_is_older(void **state)
{
    struct error error = {0};
    struct bytes foreign = {0};

    (void)state;
    write_long_file(40000);
    struct metrics *metrics = metrics_file_open();
    assert_int_equal(metrics_history(metrics, 40000, &foreign, &error), 0);
    metrics_close(metrics);
    size_t known = metrics_text_cut(foreign.data, foreign.size_bytes, 39000);
    write_long_file(39500);
    metrics = metrics_file_open();
    assert_int_equal(
        metrics_adopt(metrics, foreign.data + known, foreign.size_bytes - known, &error), 0);
    assert_int_equal(metrics_last_step(metrics), 40000);
    metrics_close(metrics);
    struct bytes text = {0};
    metrics_file_read(&text);
    assert_int_equal(text.size_bytes, foreign.size_bytes);
    assert_memory_equal(text.data, foreign.data, text.size_bytes);
    bytes_done(&text);
    bytes_done(&foreign);
}

/* An old gap is filled in place; the lines behind it stay, and replays are compared. */
static void test_adopt_fills_an_old_gap(void **state)
{
    struct error error = {0};
    struct bytes whole = {0}, text = {0};

    (void)state;
    write_long_file(100000);
    metrics_file_read(&whole);
    size_t known = metrics_text_cut(whole.data, whole.size_bytes, 400);
    size_t gap = metrics_text_cut(whole.data, whole.size_bytes, 390);
    struct bytes torn = {0};
    assert_int_equal(bytes_append(&torn, whole.data, gap), 0);
    assert_int_equal(bytes_append(&torn, whole.data + known, whole.size_bytes - known), 0);
    assert_int_equal(file_replace(metrics_file_path, torn.data, torn.size_bytes, 0644, &error), 0);
    struct metrics *metrics = metrics_file_open();
    assert_int_equal(metrics_adopt(metrics, whole.data, known, &error), 0);
    assert_int_equal(metrics_last_step(metrics), 100000);
    metrics_file_read(&text);
    assert_int_equal(text.size_bytes, whole.size_bytes);
    assert_memory_equal(text.data, whole.data, text.size_bytes);
    struct metrics_line other = metrics_file_line(395);
    assert_int_equal(metrics_append(metrics, &other, &error), -EILSEQ);
    metrics_file_append(metrics, 100001, 100001);
    metrics_close(metrics);
    bytes_done(&torn);
    bytes_done(&text);
    bytes_done(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_long_history_is_not_read, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt_keeps_what_is_older, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt_fills_an_old_gap, metrics_file_begin),
    };
    return cmocka_run_group_tests(tests, metrics_file_make_folder, metrics_file_remove_folder);
}
