/*
 * Tests of the metrics file: one line for each step, after every crash, replay and full disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "lib/worker/metrics_file.h"
#include "worker/metrics/metrics.h"

/* A crash in the middle of a line, at every byte: the whole lines stay, and training continues. */
static void test_torn_last_line(void **state)
{
    struct stat two, three;

    (void)state;
    for (off_t cut = 1;; cut++) {
        unlink(metrics_file_path);
        struct metrics *metrics = metrics_file_open();
        metrics_file_append(metrics, 1, 2);
        assert_int_equal(stat(metrics_file_path, &two), 0);
        metrics_file_append(metrics, 3, 3);
        metrics_close(metrics);
        assert_int_equal(stat(metrics_file_path, &three), 0);
        if (two.st_size + cut >= three.st_size)
            break;
        assert_int_equal(truncate(metrics_file_path, two.st_size + cut), 0);
        metrics = metrics_file_open();
        assert_int_equal(metrics_last_step(metrics), 2);
        metrics_file_append(metrics, 3, 4);
        metrics_close(metrics);
        metrics_file_check_steps(1, 4);
    }
}

/* A step is repeated, or out of order: the file is valid up to that line. */
static void test_out_of_order(void **state)
{
    struct bytes text = {0};
    struct metrics *metrics = metrics_file_open();

    (void)state;
    metrics_file_append(metrics, 1, 5);
    metrics_close(metrics);
    metrics_file_read(&text);
    FILE *file = fopen(metrics_file_path, "a");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size_bytes, file), text.size_bytes);
    assert_int_equal(fclose(file), 0);
    metrics = metrics_file_open();
    assert_int_equal(metrics_last_step(metrics), 5);
    metrics_file_append(metrics, 6, 6);
    metrics_close(metrics);
    metrics_file_check_steps(1, 6);
    bytes_done(&text);
}

static void test_replay_equal(void **state)
{
    struct metrics *metrics = metrics_file_open();
    struct bytes before = {0}, after = {0};

    (void)state;
    metrics_file_append(metrics, 1, 20);
    metrics_close(metrics);
    metrics_file_read(&before);
    metrics = metrics_file_open();
    for (uint64_t step = 5; step <= 20; step++) { /* another layout or speed is no difference */
        struct metrics_line line = metrics_file_line(step);
        struct error error = {0};
        line.generation = 9;
        line.workers = 2;
        line.step_ms = 99;
        assert_int_equal(metrics_append(metrics, &line, &error), 0);
    }
    metrics_file_read(&after);
    assert_string_equal((char *)before.data, (char *)after.data);
    metrics_file_append(metrics, 21, 21);
    metrics_file_check_steps(1, 21);
    metrics_close(metrics);
    bytes_done(&before);
    bytes_done(&after);
}

/* A generation had no time to evaluate the finished model; the next one had. */
static void test_the_last_line_is_completed(void **state)
{
    struct metrics *metrics = metrics_file_open();
    struct metrics_line line = metrics_file_line(5);
    struct bytes text = {0};
    struct error error = {0};

    (void)state;
    metrics_file_append(metrics, 1, 5);
    line.final_evaluated = true;
    line.final_loss = 2.5;
    assert_int_equal(metrics_append(metrics, &line, &error), 0);
    assert_int_equal(metrics_append(metrics, &line, &error), 0); /* and once more */
    metrics_close(metrics);
    metrics_file_read(&text);
    assert_non_null(strstr((char *)text.data, "\"final_val_loss\":2.5"));
    metrics_file_check_steps(1, 5);
    bytes_done(&text);
}

static void check_unequal(struct metrics *metrics, const struct metrics_line *line)
{
    struct error error = {0};

    assert_int_equal(metrics_append(metrics, line, &error), -EILSEQ);
    assert_non_null(strstr(error.text, "step 4 was replayed and came out different"));
}

static void test_replay_unequal(void **state)
{
    struct metrics *metrics = metrics_file_open();
    struct metrics_line line;

    (void)state;
    metrics_file_append(metrics, 1, 6);
    line = metrics_file_line(4);
    line.loss = nextafter(line.loss, 10);
    check_unequal(metrics, &line);
    line = metrics_file_line(4);
    line.grad_norm = nextafter(line.grad_norm, 0);
    check_unequal(metrics, &line);
    line = metrics_file_line(4);
    line.frozen_layers++;
    check_unequal(metrics, &line);
    metrics_file_check_steps(1, 6);
    metrics_close(metrics);
}

/* A node that was away has gaps: it cannot compare the steps in a gap, and does not write them. */
static void test_gap(void **state)
{
    struct metrics *metrics = metrics_file_open();
    struct metrics_line strange = metrics_file_line(5);
    struct error error = {0};

    (void)state;
    metrics_file_append(metrics, 1, 3);
    metrics_file_append(metrics, 8, 9);
    strange.loss = 77;
    assert_int_equal(metrics_append(metrics, &strange, &error), 0);
    assert_int_equal(metrics_last_step(metrics), 9);
    metrics_close(metrics);
}

/* Months of lines, most of them a hole in the file. */
static void test_file_is_bounded(void **state)
{
    char older[128];
    struct bytes lines = {0};
    struct stat found;
    struct metrics *metrics = metrics_file_open();

    (void)state;
    metrics_file_append(metrics, 1, 200);
    metrics_close(metrics);
    metrics_file_read(&lines);
    assert_int_equal(truncate(metrics_file_path, 0), 0);
    assert_int_equal(truncate(metrics_file_path, METRICS_FILE_MAX), 0);
    FILE *file = fopen(metrics_file_path, "a");
    assert_non_null(file);
    fprintf(file, "\n%s", (const char *)lines.data);
    assert_int_equal(fclose(file), 0);
    bytes_done(&lines);

    metrics = metrics_file_open();
    metrics_file_append(metrics, 201, 203);
    metrics_file_append(metrics, 5, 5); /* is compared with its line */
    metrics_close(metrics);
    metrics_file_check_steps(1, 203);
    assert_int_equal(stat(metrics_file_path, &found), 0);
    assert_true(found.st_size < (off_t)METRICS_HISTORY_MAX);
    snprintf(older, sizeof(older), "%s.1", metrics_file_path);
    assert_int_equal(stat(older, &found), 0);
    assert_true(found.st_size > METRICS_FILE_MAX);
    unlink(older);
}

static void test_history(void **state)
{
    struct metrics *metrics = metrics_file_open();
    struct bytes text = {0}, all = {0};
    struct error error = {0};

    (void)state;
    assert_int_equal(metrics_history(metrics, 5, &text, &error), 0);
    assert_int_equal(text.size_bytes, 0);
    bytes_done(&text);
    text = (struct bytes){0};
    metrics_file_append(metrics, 1, 8);
    metrics_file_read(&all);
    assert_int_equal(metrics_history(metrics, 5, &text, &error), 0);
    unsigned lines = 0;
    for (size_t i = 0; i < text.size_bytes; i++)
        lines += text.data[i] == '\n';
    assert_int_equal(lines, 5);
    assert_memory_equal(text.data, all.data, text.size_bytes);
    bytes_done(&text);
    text = (struct bytes){0};
    assert_int_equal(metrics_history(metrics, 100, &text, &error), 0);
    assert_int_equal(text.size_bytes, all.size_bytes);
    bytes_done(&text);
    bytes_done(&all);
    metrics_close(metrics);
}

/*
 * Steps replayed after a rewind may differ, and are rewritten, even after the file was reopened.
 */
static void test_rewind(void **state)
{
    struct metrics *metrics = metrics_file_open();
    struct error error = {0};

    (void)state;
    metrics_file_append(metrics, 1, 8);
    assert_int_equal(metrics_rewind(metrics, 8, &error), 0);
    metrics_file_check_steps(1, 8);
    assert_int_equal(metrics_rewind(metrics, 5, &error), 0);
    metrics_file_check_steps(1, 5);
    struct metrics_line other = metrics_file_line(6);
    other.loss = 1;
    assert_int_equal(metrics_append(metrics, &other, &error), 0);
    metrics_file_append(metrics, 7, 7);
    metrics_file_check_steps(1, 7);
    assert_int_equal(metrics_rewind(metrics, 0, &error), 0);
    metrics_file_check_steps(1, 0);
    metrics_file_append(metrics, 1, 2);
    metrics_close(metrics);
    metrics = metrics_file_open();
    assert_int_equal(metrics_last_step(metrics), 2);
    metrics_close(metrics);
}

/* ---- a full disk ---- */

static void test_full_disk(void **state)
{
    (void)state;
    for (unsigned spare = 0; spare < 300; spare += 50) { /* no line fits, or a part of a line */
        unlink(metrics_file_path);
        struct metrics *metrics = metrics_file_open();
        metrics_file_append(metrics, 1, 2);
        metrics_file_fill_disk(spare);
        metrics_file_refuse(metrics, 3);
        metrics_file_refuse(metrics, 4);
        metrics_file_check_steps(1, 2);
        assert_int_equal(metrics_last_step(metrics), 4);
        metrics_file_append(metrics, 3,
                            3); /* replayed: it is compared, although it is not on disk yet */
        metrics_file_empty_disk();
        metrics_file_append(metrics, 5, 5);
        metrics_file_check_steps(1, 5);
        metrics_close(metrics);
    }
}

static void test_full_disk_until_the_end(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 2);
    metrics_file_fill_disk(0);
    metrics_file_refuse(metrics, 3);
    metrics_file_empty_disk();
    metrics_close(metrics); /* the last attempt */
    metrics_file_check_steps(1, 3);

    metrics = metrics_file_open();
    metrics_file_fill_disk(0);
    metrics_file_refuse(metrics, 4);
    metrics_close(metrics);
    metrics_file_empty_disk();
    metrics_file_check_steps(1, 3);
}

/* A disk that stays full for millions of steps does not use unbounded memory: older lines are
 * dropped, newer lines are written when there is room. */
static void test_disk_that_stays_full(void **state)
{
    CLEANUP(bytes_done) struct bytes history = {0};
    struct error error = {0};
    struct metrics *metrics = metrics_file_open();
    uint64_t step = 3, last_step;

    (void)state;
    metrics_file_append(metrics, 1, 2);
    metrics_file_fill_disk(0);
    for (size_t bytes = 0; bytes < METRICS_HISTORY_MAX + ((size_t)16 << 20); bytes += 100, step++)
        metrics_file_refuse(metrics, step);
    last_step = step - 1;
    assert_int_equal(metrics_last_step(metrics), last_step);
    assert_int_equal(metrics_history(metrics, last_step, &history, &error), 0);
    assert_in_range(history.size_bytes, METRICS_HISTORY_MAX / 2, METRICS_HISTORY_MAX + 4096);
    metrics_file_empty_disk();
    metrics_close(metrics); /* the last attempt */
    metrics = metrics_file_open();
    assert_int_equal(metrics_last_step(metrics), last_step);
    metrics_close(metrics);
}

/* Unwritten lines of steps before the rewind stay, like the lines on disk. */
static void test_rewind_with_lines_unwritten(void **state)
{
    struct error error = {0};

    (void)state;
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 2);
    metrics_file_fill_disk(0);
    for (uint64_t step = 3; step <= 5; step++)
        metrics_file_refuse(metrics, step);
    metrics_file_empty_disk();
    assert_int_equal(metrics_rewind(metrics, 4, &error), 0);
    assert_int_equal(metrics_last_step(metrics), 4);
    metrics_file_check_steps(1, 4);
    metrics_close(metrics);
}

static void test_no_folder(void **state)
{
    struct metrics *metrics = NULL;
    struct error error = {0};

    (void)state;
    assert_int_equal(metrics_open("/nowhere/at/all", &metrics, &error), -ENOENT);
    assert_non_null(strstr(error.text, "/nowhere/at/all"));
    metrics_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_torn_last_line, metrics_file_begin),
        cmocka_unit_test_setup(test_out_of_order, metrics_file_begin),
        cmocka_unit_test_setup(test_replay_equal, metrics_file_begin),
        cmocka_unit_test_setup(test_the_last_line_is_completed, metrics_file_begin),
        cmocka_unit_test_setup(test_replay_unequal, metrics_file_begin),
        cmocka_unit_test_setup(test_gap, metrics_file_begin),
        cmocka_unit_test_setup(test_file_is_bounded, metrics_file_begin),
        cmocka_unit_test_setup(test_rewind, metrics_file_begin),
        cmocka_unit_test_setup(test_history, metrics_file_begin),
        cmocka_unit_test_setup(test_full_disk, metrics_file_begin),
        cmocka_unit_test_setup(test_full_disk_until_the_end, metrics_file_begin),
        cmocka_unit_test_setup(test_disk_that_stays_full, metrics_file_begin),
        cmocka_unit_test_setup(test_rewind_with_lines_unwritten, metrics_file_begin),
        cmocka_unit_test(test_no_folder),
    };
    return cmocka_run_group_tests(tests, metrics_file_make_folder, metrics_file_remove_folder);
}
