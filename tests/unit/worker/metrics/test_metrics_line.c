/* Tests of the JSON of one line of metrics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/bits.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_line, metrics_file_begin),
        cmocka_unit_test_setup(test_counted, metrics_file_begin),
        cmocka_unit_test_setup(test_slowest, metrics_file_begin),
    };
    return cmocka_run_group_tests(tests, metrics_file_make_folder, metrics_file_remove_folder);
}
