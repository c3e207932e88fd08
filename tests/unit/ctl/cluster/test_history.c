/* Metrics of several nodes as one history. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/compiler.h"
#include "ctl/cluster/history.h"
#include "lib/ctl/metrics_lines.h"

static struct history history;
static struct error error;

static int setup(void **state)
{
    (void)state;
    memset(&error, 0, sizeof(error));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    history_done(&history);
    return 0;
}

/* Node @node reports steps [@first, @end), whose losses are 1 / step unless @other. */
static uint64_t add(const char *node, uint64_t first, uint64_t end, double other)
{
    char text[16384];
    size_t used = 0;
    uint64_t last = 99;
    for (uint64_t step = first; step < end; step++)
        used += metrics_line(
            &(struct line_values){.step = step, .loss = other != 0 ? other : 1 / (double)step},
            text + used);
    assert_int_equal(history_add(&history, node, text, used, &last, &error), 0);
    return last;
}

static void expect_steps(const char *steps)
{
    char found[256] = "";
    for (size_t i = 0; i < history.count; i++)
        sprintf(found + strlen(found), "%s%" PRIu64, i ? " " : "", history.steps[i].step);
    assert_string_equal(found, steps);
}

static void test_copies_with_gaps_make_one_history(void **state)
{
    (void)state;
    assert_int_equal(add("b", 4, 7, 0), 6);
    assert_int_equal(add("a", 1, 4, 0), 3);
    assert_int_equal(add("c", 2, 9, 0), 8);
    expect_steps("1 2 3 4 5 6 7 8");
    assert_int_equal(history.conflict.code, 0);
    assert_string_equal(history.steps[3].node, "b"); /* the node of the first line */
    assert_int_equal(history_find(&history, 5), 4);
    assert_int_equal(history_find(&history, 99), 8);
}

static void add_last(const char *node, double val_loss, double final_loss)
{
    char text[600];
    size_t used = metrics_line(
        &(struct line_values){.step = 9, .loss = 1, .val_loss = val_loss, .final_loss = final_loss},
        text);
    assert_int_equal(history_add(&history, node, text, used, NULL, &error), 0);
}

/* A node that left before the finished model was evaluated has a line that knows less. */
static void test_the_finished_models_loss_is_taken_from_who_has_it(void **state)
{
    (void)state;
    add_last("a", 2.5, 0);
    assert_false(history.steps[0].final_evaluated);
    add_last("b", 2.5, 2.25);
    add_last("c", 2.5, 0);
    assert_int_equal(history.count, 1);
    assert_true(history.steps[0].final_evaluated && history.steps[0].final_loss == 2.25);
    assert_non_null(strstr(history.steps[0].line, "final_val_loss"));
    assert_int_equal(history.conflict.code, 0);
    add_last("d", 2.5, 2.125);
    assert_int_equal(history.conflict.code, -EILSEQ);
}

static void add_of_generation(const char *node, uint64_t generation)
{
    char text[600];
    size_t used =
        metrics_line(&(struct line_values){.step = 5, .generation = generation, .loss = 1}, text);
    assert_int_equal(history_add(&history, node, text, used, NULL, &error), 0);
}

/* A node that was cut off has lines of steps that others computed again; it may answer last. */
static void test_the_generation_that_committed_a_step_first_is_kept(void **state)
{
    (void)state;
    add_of_generation("a", 3);
    add_of_generation("b", 2);
    add_of_generation("c", 4);
    assert_int_equal(history.count, 1);
    assert_int_equal(history.steps[0].generation, 2);
    assert_string_equal(history.steps[0].node, "b");
    assert_non_null(strstr(history.steps[0].line, "\"generation\":2"));
}

static uint64_t taken, taken_last;

static int take_up_to_six(void *context, const struct history_step *step)
{
    assert_ptr_equal(context, &history);
    assert_true(step->step > taken_last);
    taken++;
    taken_last = step->step;
    return step->step == 6 ? -EPIPE : 0;
}

static void test_steps_are_handed_out_once_and_forgotten(void **state)
{
    (void)state;
    taken = taken_last = 0;
    add("a", 1, 4, 0);
    add("b", 5, 9, 0);
    assert_int_equal(history_hand_out(&history, 3, take_up_to_six, &history), 0);
    assert_int_equal(taken, 2);
    expect_steps("3 5 6 7 8");
    add("c", 1, 6, 0); /* 1 and 2 are too late; 4 is new */
    expect_steps("3 4 5 6 7 8");
    assert_int_equal(history_hand_out(&history, UINT64_MAX, take_up_to_six, &history), -EPIPE);
    assert_int_equal(taken_last, 6);
    expect_steps("7 8");
}

static void test_a_difference_is_a_conflict_and_the_first_is_kept(void **state)
{
    (void)state;
    add("a", 1, 4, 0);
    add("b", 2, 3, 0.5 + 1e-17); /* rounds to the same bits */
    assert_int_equal(history.conflict.code, 0);
    add("b", 3, 4, 0.25);
    add("c", 1, 2, 7);
    assert_int_equal(history.conflict.code, -EILSEQ);
    assert_non_null(strstr(history.conflict.text, "step 3 is not the same"));
    assert_non_null(strstr(history.conflict.text, "b: 3 3fd0000000000000"));
    expect_steps("1 2 3");
    assert_string_equal(history.steps[2].node, "a");
}

/* One bit in any of the exact fields, and nothing else, is a conflict. */
static void test_each_exact_field_counts(void **state)
{
    (void)state;
    const char *changes[][2] = {
        {"\"loss_bits\":\"4000000000000000", "\"loss_bits\":\"4000000000000001"},
        {"\"grad_norm_bits\":\"3ff8", "\"grad_norm_bits\":\"3ff9"},
        {"\"frozen_layers\":0", "\"frozen_layers\":1"},
        {"\"generation\":1", "\"generation\":7"},
        {"\"step_ms\":10.5", "\"step_ms\":99.5"}};
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        char text[600];
        size_t size = metrics_line(&(struct line_values){.step = 1, .loss = 2}, text);
        assert_int_equal(history_add(&history, "a", text, size, NULL, &error), 0);
        char *at = strstr(text, changes[i][0]);
        assert_non_null(at);
        memcpy(at, changes[i][1], strlen(changes[i][1]));
        assert_int_equal(history_add(&history, "b", text, size, NULL, &error), 0);
        assert_int_equal(history.conflict.code, i < 3 ? -EILSEQ : 0);
        history_done(&history);
    }
}

static void test_validation_only_conflicts_where_both_have_it(void **state)
{
    (void)state;
    char text[600];
    const struct line_values plain = {.step = 1, .loss = 2};
    const struct line_values evaluated = {.step = 1, .loss = 2, .val_loss = 3};
    const struct line_values other = {.step = 1, .loss = 2, .val_loss = 4};
    size_t size = metrics_line(&evaluated, text);
    assert_int_equal(history_add(&history, "a", text, size, NULL, &error), 0);
    assert_true(history.steps[0].evaluated);
    assert_true(history.steps[0].val_loss == 3);
    size = metrics_line(&plain, text);
    assert_int_equal(history_add(&history, "b", text, size, NULL, &error), 0);
    assert_int_equal(history.conflict.code, 0);
    size = metrics_line(&other, text);
    assert_int_equal(history_add(&history, "c", text, size, NULL, &error), 0);
    assert_int_equal(history.conflict.code, -EILSEQ);
}

static void test_a_line_cut_off_is_left_for_the_next_time(void **state)
{
    (void)state;
    char text[1200];
    uint64_t last;
    size_t first = metrics_line(&(struct line_values){.step = 1, .loss = 1}, text);
    metrics_line(&(struct line_values){.step = 2, .loss = 1}, text + first);
    assert_int_equal(history_add(&history, "a", text, first + 40, &last, &error), 0);
    expect_steps("1");
    assert_int_equal(last, 1);
    assert_int_equal(history_add(&history, "a", text, 0, &last, &error), 0);
    assert_int_equal(last, 0);
}

static void test_a_diverged_run_has_null_and_bits(void **state)
{
    (void)state;
    char text[600];
    metrics_line(&(struct line_values){.step = 1, .loss = NAN}, text);
    char *nan = strstr(text, "nan"); /* the worker writes null there */
    assert_non_null(nan);
    memmove(nan + 4, nan + 3, strlen(nan + 3) + 1);
    memcpy(nan, "null", 4);
    assert_int_equal(history_add(&history, "a", text, strlen(text), NULL, &error), 0);
    assert_true(isnan(history.steps[0].loss));
    assert_int_equal(strlen(history.steps[0].loss_bits), 16);
}

static void test_what_is_no_metrics_line_is_refused_by_node(void **state)
{
    (void)state;
    const char *bad[] = {"nonsense\n", "[]\n", "{\"step\":1}\n", "{\"step\":-1}\n", "\n"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        memset(&error, 0, sizeof(error));
        assert_int_equal(history_add(&history, "b", bad[i], strlen(bad[i]), NULL, &error),
                         -EBADMSG);
        assert_non_null(strstr(error.text, "metrics of node b"));
    }
    assert_int_equal(history.count, 0);
}

static void test_exact_lines(void **state)
{
    (void)state;
    char text[HISTORY_EXACT_SIZE];
    add("a", 2, 3, 0);
    assert_string_equal(history_exact(&history.steps[0], text),
                        "2 3fe0000000000000 3ff8000000000000 0");
    assert_string_equal(history_exact_json(&history.steps[0], text),
                        "{\"step\": 2, \"loss_bits\": \"3fe0000000000000\", "
                        "\"grad_norm_bits\": \"3ff8000000000000\", \"frozen_layers\": 0}");
}

#define HISTORY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(test_copies_with_gaps_make_one_history),
        HISTORY_TEST(test_the_finished_models_loss_is_taken_from_who_has_it),
        HISTORY_TEST(test_the_generation_that_committed_a_step_first_is_kept),
        HISTORY_TEST(test_steps_are_handed_out_once_and_forgotten),
        HISTORY_TEST(test_a_difference_is_a_conflict_and_the_first_is_kept),
        HISTORY_TEST(test_each_exact_field_counts),
        HISTORY_TEST(test_validation_only_conflicts_where_both_have_it),
        HISTORY_TEST(test_a_line_cut_off_is_left_for_the_next_time),
        HISTORY_TEST(test_a_diverged_run_has_null_and_bits),
        HISTORY_TEST(test_what_is_no_metrics_line_is_refused_by_node),
        HISTORY_TEST(test_exact_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
