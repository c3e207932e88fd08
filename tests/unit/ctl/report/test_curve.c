/* The loss curve in braille and as SVG. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/report/curve.h"
#include "ctl/view/terminal.h"
#include "lib/ctl/metrics_lines.h"

static struct history history;
static struct curve curve;

static int teardown(void **state)
{
    (void)state;
    curve_done(&curve);
    history_done(&history);
    return 0;
}

static int take_step(void *context, const struct history_step *step)
{
    curve_take(context, step);
    return 0;
}

/* @count steps that fall from 5 to 1; every tenth is evaluated; a generation every @every steps. */
static void make(uint64_t count, uint64_t every)
{
    for (uint64_t step = 1; step <= count; step++) {
        char text[600];
        struct error error = {0};
        double share = count > 1 ? (double)(step - 1) / (double)(count - 1) : 0;
        size_t size = metrics_line(&(struct line_values){.step = step,
                                                         .generation = 1 + step / every,
                                                         .loss = 5 - 4 * share,
                                                         .val_loss = step % 10 ? 0 : 5 - 4 * share},
                                   text);
        assert_int_equal(history_add(&history, "a", text, size, NULL, &error), 0);
    }
    assert_int_equal(curve_init(&curve), 0);
    assert_int_equal(history_hand_out(&history, UINT64_MAX, take_step, &curve), 0);
}

static char *text_of(unsigned columns, unsigned rows)
{
    struct bytes out = {0};
    assert_int_equal(curve_append_text(&curve, columns, rows, &out), 0);
    assert_int_equal(bytes_append(&out, "", 1), 0);
    return (char *)out.data;
}

static char *svg_of(const char *title)
{
    struct bytes out = {0};
    assert_int_equal(curve_append_svg(&curve, title, &out), 0);
    assert_int_equal(bytes_append(&out, "", 1), 0);
    return (char *)out.data;
}

static unsigned count_of(const char *text, const char *word)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        count++;
    return count;
}

static void test_bounds_and_means(void **state)
{
    (void)state;
    make(101, 50);
    assert_true(curve.step_first == 1 && curve.step_last == 101);
    assert_true(curve.loss_least == 1 && curve.loss_most == 5);
    assert_int_equal(curve.lines[CURVE_VALIDATION].count, 10);
    assert_int_equal(curve.mark_count, 2);
    assert_true(curve.marks[0].step == 50);
    assert_string_equal(curve.marks[1].label, "g3 1x2");
    assert_true(fabs(curve_mean(&curve, CURVE_TRAINING, 1, 102) - 3) < 1e-12);
    assert_true(curve_mean(&curve, CURVE_TRAINING, 101, 200) == 1);
    assert_true(isnan(curve_mean(&curve, CURVE_TRAINING, 200, 300)));
}

/* Every row is as wide as the canvas, the curve falls from the first to the last corner. */
static void test_braille_rows(void **state)
{
    (void)state;
    make(400, 1000);
    curve.lines[CURVE_VALIDATION].count = 0;
    AUTO_FREE char *text = text_of(40, 8);
    char *line = text;
    for (unsigned row = 0; row < 8; row++) {
        char *end = strchr(line, '\n');
        *end = '\0';
        assert_int_equal(terminal_width_of(line), 9 + 2 + 40);
        if (row == 0)
            assert_true(strncmp(line, "   5.0000 ┤⠑", strlen("   5.0000 ┤⠑")) == 0);
        if (row == 7)
            assert_true(strncmp(line, "   1.0000 ┤ ", strlen("   1.0000 ┤ ")) == 0);
        line = end + 1;
    }
    assert_non_null(strstr(line, "└"));
    assert_non_null(strstr(line, "step 400"));
    assert_null(strstr(line, "┴"));
}

/* Rows of cells that have a dot; they must be neighbours. Braille is U+2800 to U+28FF: e2 a0 80 to
 * e2 a3 bf. */
static unsigned rows_touched(char *text, unsigned rows)
{
    unsigned touched = 0, last = 0;
    for (unsigned row = 0; row < rows; row++) {
        char *end = strchr(text, '\n');
        *end = '\0';
        if (strstr(text, "\xe2\xa0") || strstr(text, "\xe2\xa1") || strstr(text, "\xe2\xa2") ||
            strstr(text, "\xe2\xa3")) {
            assert_true(touched == 0 || last == row - 1);
            last = row;
            touched++;
        }
        text = end + 1;
    }
    return touched;
}

/* The line may not break with fewer steps than dots, nor at a steep fall. */
static void test_the_line_is_whole(void **state)
{
    (void)state;
    for (uint64_t count = 2; count <= 200; count += 33) {
        make(count, 1000);
        curve.lines[CURVE_VALIDATION].count = 0;
        AUTO_FREE char *wide = text_of(30, 6);
        AUTO_FREE char *steep = text_of(2, 12);
        assert_int_equal(rows_touched(wide, 6), 6);
        assert_in_range(rows_touched(steep, 12), 9, 12); /* ends are means */
        teardown(NULL);
    }
}

static void test_marks_and_validation_are_drawn(void **state)
{
    (void)state;
    make(100, 30);
    AUTO_FREE char *text = text_of(60, 10);
    assert_int_equal(count_of(text, "┴"), 3 + 1); /* and the legend */
    assert_int_equal(count_of(text, "●"), 10 + 1);
}

static void test_one_step_and_a_flat_run_can_be_drawn(void **state)
{
    (void)state;
    make(1, 10);
    AUTO_FREE char *text = text_of(20, 3);
    AUTO_FREE char *svg = svg_of("one");
    assert_non_null(strstr(text, "5.0000"));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
}

static void test_nothing_to_draw_is_said(void **state)
{
    (void)state;
    assert_int_equal(curve_init(&curve), 0);
    assert_true(curve_is_empty(&curve));
    curve_take(&curve, &(struct history_step){.step = 1, .loss = NAN});
    assert_true(curve_is_empty(&curve));
}

/* Months of steps are as many points as days of them, with the same means. */
static void test_a_long_run_is_bounded(void **state)
{
    (void)state;
    const uint64_t count = 1000000;
    assert_int_equal(curve_init(&curve), 0);
    for (uint64_t step = 1; step <= count; step++)
        curve_take(&curve, &(struct history_step){.step = step,
                                                  .generation = 1 + step / 100,
                                                  .loss = step <= count / 2 ? 3 : 1,
                                                  .evaluated = true,
                                                  .val_loss = 2});
    assert_in_range(curve.lines[CURVE_TRAINING].count, CURVE_POINTS_MAX / 2, CURVE_POINTS_MAX);
    assert_in_range(curve.lines[CURVE_VALIDATION].count, CURVE_POINTS_MAX / 2, CURVE_POINTS_MAX);
    assert_in_range(curve.mark_count, CURVE_MARKS_MAX / 2, CURVE_MARKS_MAX);
    assert_true(curve.step_first == 1 && curve.step_last == (double)count);
    assert_true(fabs(curve_mean(&curve, CURVE_TRAINING, 1, (double)count + 1) - 2) < 1e-9);
    assert_true(curve_mean(&curve, CURVE_TRAINING, 1, (double)count / 4) == 3);
    assert_true(curve_mean(&curve, CURVE_TRAINING, 0.75 * (double)count, (double)count + 1) == 1);
    for (size_t i = 1; i < curve.mark_count; i++)
        assert_true(curve.marks[i].step > curve.marks[i - 1].step);
}

static void test_svg_has_every_part_once(void **state)
{
    (void)state;
    make(5000, 1000);
    AUTO_FREE char *svg = svg_of("a <b> & c");
    assert_int_equal(strncmp(svg, "<svg xmlns=", 11), 0);
    assert_string_equal(svg + strlen(svg) - 7, "</svg>\n");
    assert_non_null(strstr(svg, ">a &lt;b&gt; &amp; c<"));
    assert_int_equal(count_of(svg, "<circle class=\"validation\""), 500);
    assert_int_equal(count_of(svg, "<line class=\"generation\""), 5);
    assert_int_equal(count_of(svg, "<polyline"), 2); /* losses, step times */
    assert_int_equal(count_of(svg, "<text"), count_of(svg, "</text>"));
    const char *points = strstr(svg, "points=\"");
    assert_in_range(count_of(points, ","), 1000, 3000); /* bounded, however long the run */
}

/* 90 steps: layers freeze at 30 and 60, with a layout each, and then half of the outputs are loaded
 */
static void make_freezing(void)
{
    assert_int_equal(curve_init(&curve), 0);
    for (uint64_t step = 1; step <= 90; step++) {
        unsigned phase = (unsigned)(step - 1) / 30;
        curve_take(&curve, &(struct history_step){.step = step,
                                                  .generation = 1 + phase,
                                                  .loss = 2,
                                                  .step_ms = 800 >> phase,
                                                  .stages = 4 >> phase,
                                                  .replicas = 1 << phase,
                                                  .frozen_layers = 5 * phase,
                                                  .frozen_loaded = phase == 2 ? 8 : 0,
                                                  .frozen_computed = phase == 2 ? 8 : 0});
    }
}

/* Each phase is a third of a strip, with a bar in proportion to the largest value. */
static void test_strips_show_how_the_run_went(void **state)
{
    (void)state;
    make_freezing();
    AUTO_FREE char *text = text_of(6, 3);
    assert_non_null(strstr(text, "\n     step  ██▄▄▂▂\n"));
    assert_non_null(strstr(text, "\n   stages  ██▄▄▂▂\n"));
    assert_non_null(strstr(text, "\n replicas  ▂▂▄▄██\n"));
    assert_non_null(strstr(text, "\n   frozen    ▄▄██\n"));
    assert_non_null(strstr(text, "\n   loaded      ██\n"));
    assert_non_null(strstr(text, "a full bar: step 800 ms, stages 4, replicas 4, frozen 10 layers, "
                                 "loaded 50 %\n"));
}

/* A run on one layout without frozen layers has the strip of its step times alone. */
static void test_strips_of_nothing_are_left_out(void **state)
{
    (void)state;
    assert_int_equal(curve_init(&curve), 0);
    for (uint64_t step = 1; step <= 4; step++)
        curve_take(&curve, &(struct history_step){.step = step,
                                                  .generation = 1,
                                                  .loss = 2,
                                                  .step_ms = 50,
                                                  .stages = 1,
                                                  .replicas = 2});
    AUTO_FREE char *text = text_of(4, 3);
    assert_non_null(strstr(text, "\n     step  ████\n"));
    assert_non_null(strstr(text, "a full bar: step 50 ms\n"));
    assert_null(strstr(text, "stages"));
    assert_null(strstr(text, "frozen"));
    AUTO_FREE char *svg = svg_of("plain");
    assert_null(strstr(svg, "class=\"frozen\""));
    assert_null(strstr(svg, "class=\"loaded\""));
}

static void test_svg_has_a_panel_of_step_times(void **state)
{
    (void)state;
    make_freezing();
    AUTO_FREE char *svg = svg_of("freezing");
    assert_int_equal(count_of(svg, "class=\"step\""), 1);
    assert_int_equal(count_of(svg, "class=\"frozen\""), 1);
    assert_int_equal(count_of(svg, "class=\"loaded\""), 1);
    assert_int_equal(count_of(svg, "<text"), count_of(svg, "</text>"));
    assert_int_equal(count_of(svg, "</svg>"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_bounds_and_means, teardown),
        cmocka_unit_test_teardown(test_braille_rows, teardown),
        cmocka_unit_test_teardown(test_the_line_is_whole, teardown),
        cmocka_unit_test_teardown(test_marks_and_validation_are_drawn, teardown),
        cmocka_unit_test_teardown(test_one_step_and_a_flat_run_can_be_drawn, teardown),
        cmocka_unit_test_teardown(test_nothing_to_draw_is_said, teardown),
        cmocka_unit_test_teardown(test_a_long_run_is_bounded, teardown),
        cmocka_unit_test_teardown(test_svg_has_every_part_once, teardown),
        cmocka_unit_test_teardown(test_strips_show_how_the_run_went, teardown),
        cmocka_unit_test_teardown(test_strips_of_nothing_are_left_out, teardown),
        cmocka_unit_test_teardown(test_svg_has_a_panel_of_step_times, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
