/*
 * Tests of lines that a node takes from another node: each step is in the file once, own lines
 * stay, and a file that is replaced is written from then on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/worker/metrics_file.h"
#include "worker/metrics/metrics.h"

/* Return the history of steps [1, 10] as another node has it. */
static void foreign_history(struct bytes *ret_text)
{
    struct metrics *metrics = metrics_file_open();
    struct error error = {0};

    metrics_file_append(metrics, 1, 10);
    assert_int_equal(metrics_history(metrics, 10, ret_text, &error), 0);
    metrics_close(metrics);
    unlink(metrics_file_path);
}

static void test_adopt(void **state)
{
    struct bytes foreign = {0};
    struct error error = {0};

    (void)state;
    foreign_history(&foreign);
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 4, 6); /* this node's own steps */
    assert_int_equal(metrics_adopt(metrics, foreign.data, foreign.size_bytes, &error), 0);
    assert_int_equal(metrics_last_step(metrics), 10);
    metrics_file_append(metrics, 8, 12); /* 8 to 10 are compared with the adopted lines */
    metrics_file_check_steps(1, 12);
    assert_int_equal(metrics_adopt(metrics, foreign.data, foreign.size_bytes, &error), 0);
    metrics_file_check_steps(1, 12); /* fewer lines than the file has: no change */
    metrics_close(metrics);
    bytes_done(&foreign);
}

/* Each of two nodes has lines that the other lacks, and loses none by adopting the other's. */
static void test_adopt_fills_gaps(void **state)
{
    struct bytes foreign = {0};
    struct error error = {0};

    (void)state;
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 3);
    metrics_file_append(metrics, 5, 9);
    assert_int_equal(metrics_history(metrics, 9, &foreign, &error), 0);
    metrics_close(metrics);
    unlink(metrics_file_path);
    metrics = metrics_file_open();
    metrics_file_append(metrics, 3, 4);
    metrics_file_append(metrics, 10, 11);
    assert_int_equal(metrics_adopt(metrics, foreign.data, foreign.size_bytes, &error), 0);
    metrics_file_check_steps(1, 11);
    metrics_file_append(metrics, 4, 12); /* all are present for the comparison */
    metrics_file_check_steps(1, 12);
    metrics_close(metrics);
    bytes_done(&foreign);
}

/* This node was away when the others went back and computed the steps with other bits. */
static void test_adopt_corrects(void **state)
{
    struct bytes foreign = {0};
    struct error error = {0};

    (void)state;
    foreign_history(&foreign);
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 3);
    for (uint64_t step = 4; step <= 5;
         step++) { /* wrong bits, of an earlier or a later generation */
        struct metrics_line wrong = metrics_file_line(step);
        wrong.loss = 77;
        wrong.generation = step == 4 ? wrong.generation - 1 : wrong.generation + 1;
        assert_int_equal(metrics_append(metrics, &wrong, &error), 0);
    }
    metrics_file_append(metrics, 6, 12);
    assert_int_equal(metrics_adopt(metrics, foreign.data, foreign.size_bytes, &error), 0);
    metrics_file_append(metrics, 1, 4);
    struct metrics_line own = metrics_file_line(5);
    own.loss = 77;
    assert_int_equal(metrics_append(metrics, &own, &error), 0); /* stays: no better one exists */
    assert_int_equal(metrics_last_step(metrics), 12);
    metrics_close(metrics);
    metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 4);
    metrics_file_append(metrics, 6, 13);
    metrics_close(metrics);
    bytes_done(&foreign);
}

static void test_adopt_damaged(void **state)
{
    struct bytes foreign = {0};
    struct error error = {0};

    (void)state;
    foreign_history(&foreign);
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 2);
    assert_int_equal(metrics_adopt(metrics, foreign.data, foreign.size_bytes - 1, &error),
                     -EBADMSG);
    assert_non_null(strstr(error.text, "damaged after step 9"));
    foreign.data[foreign.size_bytes / 2] = '\0';
    assert_int_equal(metrics_adopt(metrics, foreign.data, foreign.size_bytes, &error), -EBADMSG);
    metrics_file_append(metrics, 3, 3);
    metrics_file_check_steps(1, 3);
    metrics_close(metrics);
    bytes_done(&foreign);
}

static void test_adopt_with_lines_unwritten(void **state)
{
    struct bytes foreign = {0};
    struct error error = {0};

    (void)state;
    foreign_history(&foreign);
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 2);
    metrics_file_fill_disk(0);
    metrics_file_refuse(metrics, 3);
    metrics_file_empty_disk();
    assert_int_equal(metrics_adopt(metrics, foreign.data, foreign.size_bytes, &error), 0);
    metrics_file_append(metrics, 11, 11);
    metrics_file_check_steps(1, 11); /* no second step 3 */
    metrics_close(metrics);
    bytes_done(&foreign);
}

/*
 * Adopted lines that follow the present lines are appended: the file grows, and is not rewritten.
 */
static void test_adopted_lines_are_appended(void **state)
{
    struct bytes foreign = {0};
    struct error error = {0};
    struct stat before, after;

    (void)state;
    foreign_history(&foreign);
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 2);
    assert_int_equal(stat(metrics_file_path, &before), 0);
    for (unsigned turn = 0; turn < 2; turn++) {
        assert_int_equal(metrics_adopt(metrics, foreign.data, foreign.size_bytes, &error), 0);
        assert_int_equal(stat(metrics_file_path, &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
        metrics_file_check_steps(1, 10);
    }
    metrics_file_append(metrics, 11, 11);
    metrics_file_check_steps(1, 11);
    metrics_close(metrics);
    bytes_done(&foreign);
}

/* Lines written to the replaced file would be lost without an error. */
static void test_adopted_file_cannot_be_opened(void **state)
{
    struct bytes foreign = {0};
    struct error error = {0};

    (void)state;
    foreign_history(&foreign);
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 2);
    metrics_file_append(metrics, 11, 11); /* after the adopted lines: the file is written anew */
    metrics_file_fails = true;
    assert_int_equal(metrics_adopt(metrics, foreign.data, foreign.size_bytes, &error), -ENFILE);
    struct metrics_line line = metrics_file_line(12);
    assert_int_equal(metrics_append(metrics, &line, &error), -ENFILE);
    metrics_file_fails = false;
    metrics_file_append(metrics, 13, 13);
    metrics_file_check_steps(1, 13);
    metrics_close(metrics);
    bytes_done(&foreign);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_adopt, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt_fills_gaps, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt_corrects, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt_damaged, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt_with_lines_unwritten, metrics_file_begin),
        cmocka_unit_test_setup(test_adopted_lines_are_appended, metrics_file_begin),
        cmocka_unit_test_setup(test_adopted_file_cannot_be_opened, metrics_file_begin),
    };
    return cmocka_run_group_tests(tests, metrics_file_make_folder, metrics_file_remove_folder);
}
