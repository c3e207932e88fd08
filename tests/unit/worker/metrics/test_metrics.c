/*
 * Tests of the metrics file: one line for each step, after every crash, replay, hand-over and full
 * disk. A limit on the file size stands for a full disk.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "base/json.h"
#include "lib/worker/metrics_file.h"
#include "worker/metrics/metrics.h"

static void test_line(void **state)
{
    struct metrics *metrics = metrics_file_open();
    struct metrics_line plain = metrics_file_line(1), evaluated = metrics_file_line(2),
                        diverged = metrics_file_line(3);
    char expected[BITS64_TEXT_SIZE];
    struct bytes text = {0};
    struct error error = {0};
    json_t *tree;

    (void)state;
    evaluated.evaluated = true;
    evaluated.val_loss = 1.25;
    evaluated.final_evaluated = true;
    evaluated.final_loss = 1.125;
    diverged.loss = NAN;
    diverged.grad_norm = INFINITY;
    assert_int_equal(metrics_append(metrics, &plain, &error), 0);
    assert_int_equal(metrics_append(metrics, &evaluated, &error), 0);
    assert_int_equal(metrics_append(metrics, &diverged, &error), 0);
    assert_int_equal(metrics_last_step(metrics), 3);
    metrics_close(metrics);
    metrics_file_read(&text);
    char *line = (char *)text.data;
    for (unsigned i = 0; i < 3; i++) {
        char *end = strchr(line, '\n');
        assert_int_equal(json_parse(line, (size_t)(end - line), "line", &tree, &error), 0);
        bits64_text(metrics_file_line(i + 1).loss, expected);
        if (i < 2)
            assert_string_equal(json_string_value(json_object_get(tree, "loss_bits")), expected);
        assert_int_equal(json_object_get(tree, "val_loss") != NULL, i == 1);
        assert_true(json_number_value(json_object_get(tree, "final_val_loss")) ==
                    (i == 1 ? 1.125 : 0));
        assert_int_equal(json_is_null(json_object_get(tree, "loss")), i == 2);
        assert_int_equal(json_is_null(json_object_get(tree, "grad_norm")), i == 2);
        assert_true(json_is_string(json_object_get(tree, "grad_norm_bits")));
        assert_string_equal(json_string_value(json_object_get(tree, "job")), "demo");
        assert_int_equal(json_integer_value(json_object_get(tree, "tokens")), (i + 1) * 1536);
        json_decref(tree);
        line = end + 1;
    }
    bytes_done(&text);
}

/* A crash in the middle of a line, at every byte: the whole lines stay, and training continues. */
/* The count is present only if a mask excludes some tokens. */
static void test_counted(void **state)
{
    struct metrics *metrics = metrics_file_open();
    struct metrics_line plain = metrics_file_line(1), masked = metrics_file_line(2);
    struct bytes text = {0};
    struct error error = {0};

    (void)state;
    plain.counted = masked.counted = 37;
    masked.masked = true;
    assert_int_equal(metrics_append(metrics, &plain, &error), 0);
    assert_int_equal(metrics_append(metrics, &masked, &error), 0);
    metrics_close(metrics);
    metrics_file_read(&text);
    const char *second = strchr((char *)text.data, '\n');
    const char *counted = strstr((char *)text.data, ",\"counted\":37}\n");
    assert_non_null(second);
    assert_true(counted > second);
    bytes_done(&text);
    metrics_file_check_steps(1, 2);
}

/* The slowest rank is for operators only: replayed steps are compared without it. */
static void test_slowest(void **state)
{
    struct metrics *metrics = metrics_file_open();
    struct plan_worker workers[4] = {
        {.node = "a"}, {.node = "a", .slot = 1}, {.node = "b"}, {.node = "b", .slot = 1}};
    const struct plan plan = {.layout.stage_count = 2,
                              .layout.replica_count = 2,
                              .layout.worker_count = 4,
                              .layout.workers = workers};
    const struct straggler_stage slowest[2] = {{0, 3000000, 2000000}, {3, 9500000, 1000000}};
    struct metrics_line line = metrics_file_line(1), again = metrics_file_line(1);
    struct bytes text = {0};
    struct error error = {0};

    (void)state;
    line.plan = &plan;
    line.slowest = slowest;
    assert_int_equal(metrics_append(metrics, &line, &error), 0);
    assert_int_equal(metrics_append(metrics, &again, &error), 0); /* with another speed */
    metrics_close(metrics);
    metrics_file_read(&text);
    assert_non_null(strstr((char *)text.data,
                           ",\"slowest\":[{\"worker\":\"a/0\",\"lane_ms\":3.000,"
                           "\"fastest_ms\":2.000},{\"worker\":\"b/1\",\"lane_ms\":9.500,"
                           "\"fastest_ms\":1.000}]}\n"));
    bytes_done(&text);
    metrics_file_check_steps(1, 1);
}

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

/* A step that stands twice, or out of order: the file is valid up to that line. */
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
 * Steps replayed after a rewind may differ, and are written anew; also after the file was reopened.
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

/* ---- a full disk ---- */

static void allow_bytes(rlim_t size)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void fill_disk(unsigned spare_bytes)
{
    struct stat now;

    assert_int_equal(stat(metrics_file_path, &now), 0);
    allow_bytes((rlim_t)now.st_size + spare_bytes);
}

static void append_refused(struct metrics *metrics, uint64_t step)
{
    struct metrics_line line = metrics_file_line(step);
    struct error error = {0};

    assert_true(metrics_append(metrics, &line, &error) < 0);
    assert_non_null(strstr(error.text, "kept and tried again"));
}

static void test_full_disk(void **state)
{
    (void)state;
    for (unsigned spare = 0; spare < 300; spare += 50) { /* no line fits, or a part of a line */
        unlink(metrics_file_path);
        struct metrics *metrics = metrics_file_open();
        metrics_file_append(metrics, 1, 2);
        fill_disk(spare);
        append_refused(metrics, 3);
        append_refused(metrics, 4);
        metrics_file_check_steps(1, 2);
        assert_int_equal(metrics_last_step(metrics), 4);
        metrics_file_append(metrics, 3,
                            3); /* replayed: it is compared, although it is not on disk yet */
        allow_bytes(RLIM_INFINITY);
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
    fill_disk(0);
    append_refused(metrics, 3);
    allow_bytes(RLIM_INFINITY);
    metrics_close(metrics); /* the last attempt */
    metrics_file_check_steps(1, 3);

    metrics = metrics_file_open();
    fill_disk(0);
    append_refused(metrics, 4);
    metrics_close(metrics);
    allow_bytes(RLIM_INFINITY);
    metrics_file_check_steps(1, 3);
}

static void test_adopt_with_lines_unwritten(void **state)
{
    struct bytes foreign = {0};
    struct error error = {0};

    (void)state;
    foreign_history(&foreign);
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 2);
    fill_disk(0);
    append_refused(metrics, 3);
    allow_bytes(RLIM_INFINITY);
    assert_int_equal(metrics_adopt(metrics, foreign.data, foreign.size_bytes, &error), 0);
    metrics_file_append(metrics, 11, 11);
    metrics_file_check_steps(1, 11); /* no second step 3 */
    metrics_close(metrics);
    bytes_done(&foreign);
}

/* Unwritten lines of steps before the rewind stay, like the lines on disk. */
static void test_rewind_with_lines_unwritten(void **state)
{
    struct error error = {0};

    (void)state;
    struct metrics *metrics = metrics_file_open();
    metrics_file_append(metrics, 1, 2);
    fill_disk(0);
    for (uint64_t step = 3; step <= 5; step++)
        append_refused(metrics, step);
    allow_bytes(RLIM_INFINITY);
    assert_int_equal(metrics_rewind(metrics, 4, &error), 0);
    assert_int_equal(metrics_last_step(metrics), 4);
    metrics_file_check_steps(1, 4);
    metrics_close(metrics);
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
        cmocka_unit_test_setup(test_line, metrics_file_begin),
        cmocka_unit_test_setup(test_counted, metrics_file_begin),
        cmocka_unit_test_setup(test_slowest, metrics_file_begin),
        cmocka_unit_test_setup(test_torn_last_line, metrics_file_begin),
        cmocka_unit_test_setup(test_adopted_lines_are_appended, metrics_file_begin),
        cmocka_unit_test_setup(test_out_of_order, metrics_file_begin),
        cmocka_unit_test_setup(test_replay_equal, metrics_file_begin),
        cmocka_unit_test_setup(test_replay_unequal, metrics_file_begin),
        cmocka_unit_test_setup(test_gap, metrics_file_begin),
        cmocka_unit_test_setup(test_rewind, metrics_file_begin),
        cmocka_unit_test_setup(test_history, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt_fills_gaps, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt_damaged, metrics_file_begin),
        cmocka_unit_test_setup(test_full_disk, metrics_file_begin),
        cmocka_unit_test_setup(test_full_disk_until_the_end, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt_corrects, metrics_file_begin),
        cmocka_unit_test_setup(test_adopt_with_lines_unwritten, metrics_file_begin),
        cmocka_unit_test_setup(test_rewind_with_lines_unwritten, metrics_file_begin),
        cmocka_unit_test_setup(test_adopted_file_cannot_be_opened, metrics_file_begin),
        cmocka_unit_test(test_no_folder),
    };
    signal(SIGXFSZ, SIG_IGN);
    return cmocka_run_group_tests(tests, metrics_file_make_folder, metrics_file_remove_folder);
}
