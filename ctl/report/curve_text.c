/*
 * Draw the curve in braille, which has 2 x 4 dots per cell, so a terminal of 80 columns shows some
 * 130 points: each dot column is the mean loss of its steps, joined to the next column with steps.
 */
#include "ctl/report/curve.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/view/format.h"
#include "ctl/view/terminal.h"

#define DOTS_X      2
#define DOTS_Y      4
#define LABEL_WIDTH 9

struct canvas {
    const struct curve *curve;
    unsigned columns, rows; /* cells */
    uint8_t *dots;          /* a braille pattern for each cell */
    bool *validated;        /* a validation point lies in this cell */
};

/* Unicode numbers the dots of a cell column by column, with the lowest row added later. */
static const uint8_t dot_bits[DOTS_Y][DOTS_X] = {
    {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

static unsigned dot_row(const struct canvas *canvas, double loss)
{
    const struct curve *curve = canvas->curve;
    double span = curve->loss_most - curve->loss_least;
    double height = span > 0 ? (curve->loss_most - loss) / span : 0.5;
    unsigned last = canvas->rows * DOTS_Y - 1;

    return (unsigned)lround(fmin(fmax(height, 0), 1) * last);
}

static void set_dot(struct canvas *canvas, unsigned x, unsigned y)
{
    canvas->dots[y / DOTS_Y * canvas->columns + x / DOTS_X] |= dot_bits[y % DOTS_Y][x % DOTS_X];
}

static double column_step(const struct canvas *canvas, unsigned x)
{
    const struct curve *curve = canvas->curve;
    double steps = curve->step_last - curve->step_first + 1;

    return curve->step_first + steps * x / (canvas->columns * DOTS_X);
}

/* Draw dots from (@x0, @y0), which is already drawn, to (@x1, @y1), without gaps. */
static void draw_line(struct canvas *canvas, unsigned x0, unsigned y0, unsigned x1, unsigned y1)
{
    double rise = ((double)y1 - (double)y0) / (double)(x1 - x0);
    unsigned last = y0;

    for (unsigned x = x0 + 1; x <= x1; x++) {
        unsigned y = (unsigned)lround((double)y0 + rise * (double)(x - x0));
        unsigned from = last < y ? last + 1 : y, to = last > y ? last - 1 : y;
        for (unsigned at = from; at <= to; at++)
            set_dot(canvas, x, at);
        last = y;
    }
}

static void draw_training(struct canvas *canvas)
{
    bool begun = false;
    unsigned last_x = 0, last_y = 0;

    for (unsigned x = 0; x < canvas->columns * DOTS_X; x++) {
        double mean = curve_mean(canvas->curve, CURVE_TRAINING, column_step(canvas, x),
                                 column_step(canvas, x + 1));
        if (isnan(mean))
            continue; /* fewer steps than columns: the line to the next point fills it */
        unsigned y = dot_row(canvas, mean);
        if (begun)
            draw_line(canvas, last_x, last_y, x, y);
        else
            set_dot(canvas, x, y);
        begun = true;
        last_x = x;
        last_y = y;
    }
}

static unsigned column_of(const struct canvas *canvas, double step)
{
    const struct curve *curve = canvas->curve;
    double share = (step - curve->step_first) / (curve->step_last - curve->step_first + 1);

    return (unsigned)fmin(share * canvas->columns, canvas->columns - 1);
}

static void draw_validation(struct canvas *canvas)
{
    const struct curve_line *line = &canvas->curve->lines[CURVE_VALIDATION];

    for (size_t i = 0; i < line->count; i++) {
        const struct curve_point *point = &line->points[i];
        canvas->validated[dot_row(canvas, point->value) / DOTS_Y * canvas->columns +
                          column_of(canvas, point->step)] = true;
    }
}

static int append_cell(const struct canvas *canvas, size_t cell, struct bytes *into)
{
    if (canvas->validated[cell])
        return bytes_append_format(into, "%s●%s", terminal_color(TERMINAL_YELLOW),
                                   terminal_color(TERMINAL_PLAIN));
    if (!canvas->dots[cell])
        return bytes_append(into, " ", 1);
    const unsigned char text[] = {0xe2, (unsigned char)(0xa0 | canvas->dots[cell] >> 6),
                                  (unsigned char)(0x80 | (canvas->dots[cell] & 0x3f))};
    return bytes_append(into, text, sizeof(text));
}

static int append_row(const struct canvas *canvas, unsigned row, struct bytes *into)
{
    const struct curve *curve = canvas->curve;
    double span = curve->loss_most - curve->loss_least;
    bool labelled = row == 0 || row + 1 == canvas->rows || row == canvas->rows / 2;
    double share = canvas->rows > 1 ? (double)row / (canvas->rows - 1) : 0;
    char label[FORMAT_SIZE];
    int status = labelled ? bytes_append_format(into, "%*s ┤", LABEL_WIDTH,
                                                format_loss(curve->loss_most - span * share, label))
                          : bytes_append_format(into, "%*s │", LABEL_WIDTH, "");

    for (unsigned column = 0; column < canvas->columns && !status; column++)
        status = append_cell(canvas, (size_t)row * canvas->columns + column, into);
    return status ? status : bytes_append_format(into, "\n");
}

/* Append the axis, with a mark at the beginning of each generation. */
static int append_axis(const struct canvas *canvas, struct bytes *into)
{
    const struct curve *curve = canvas->curve;
    AUTO_FREE bool *marked = calloc(canvas->columns, sizeof(*marked));
    char last[32];
    int status = marked ? bytes_append_format(into, "%*s └", LABEL_WIDTH, "") : -ENOMEM;

    for (size_t i = 0; i < curve->mark_count && marked; i++)
        marked[column_of(canvas, curve->marks[i].step)] = true;
    for (unsigned column = 0; column < canvas->columns && !status; column++)
        status = bytes_append_format(into, "%s", marked[column] ? "┴" : "─");
    int width = snprintf(last, sizeof(last), "step %.0f", curve->step_last);
    if (!status)
        status = bytes_append_format(into, "\n%*s %-*.0f%s\n", LABEL_WIDTH + 1, "",
                                     MAX((int)canvas->columns - width, 1), curve->step_first, last);
    return status;
}

static int append_legend(const struct curve *curve, struct bytes *into)
{
    return bytes_append_format(into, "%*s  ⠒ training%s%s\n", LABEL_WIDTH, "",
                               curve->lines[CURVE_VALIDATION].count ? "   ● validation" : "",
                               curve->mark_count ? "   ┴ a new generation" : "");
}

/* ---- strips: a bar for each column ---- */

struct strip {
    enum curve_kind kind;
    const char *name, *unit;
};

static const struct strip strips[] = {
    {CURVE_STEP, "step", " ms"},      {CURVE_STAGES, "stages", ""},
    {CURVE_REPLICAS, "replicas", ""}, {CURVE_FROZEN, "frozen", " layers"},
    {CURVE_LOADED, "loaded", " %"},
};

/* Return whether to draw a strip: the table already has a layout that never changes, and most runs
 * freeze no layers. */
static bool is_drawn(const struct curve *curve, const struct strip *strip)
{
    if (strip->kind == CURVE_STAGES || strip->kind == CURVE_REPLICAS)
        return curve->mark_count > 0;
    return curve_most(curve, strip->kind) > 0;
}

static int append_strip(const struct canvas *canvas, const struct strip *strip, struct bytes *into)
{
    static const char *const bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    double most = curve_most(canvas->curve, strip->kind), last = 0;
    int status = bytes_append_format(into, "%*s  ", LABEL_WIDTH, strip->name);

    for (unsigned column = 0; column < canvas->columns && status == 0; column++) {
        double mean = curve_mean(canvas->curve, strip->kind, column_step(canvas, column * DOTS_X),
                                 column_step(canvas, (column + 1) * DOTS_X));
        last = isnan(mean) ? last : mean;
        status = bytes_append_format(
            into, "%s", bars[(size_t)ceil(last / most * (double)(ARRAY_COUNT(bars) - 1))]);
    }
    return status ? status : bytes_append_format(into, "\n");
}

/* Append the strips, and the values of their full bars. */
static int append_strips(const struct canvas *canvas, struct bytes *into)
{
    const char *between = "";
    int status = 0;

    for (size_t i = 0; i < ARRAY_COUNT(strips) && status == 0; i++)
        if (is_drawn(canvas->curve, &strips[i]))
            status = append_strip(canvas, &strips[i], into);
    for (size_t i = 0; i < ARRAY_COUNT(strips) && status == 0; i++) {
        if (!is_drawn(canvas->curve, &strips[i]))
            continue;
        if (!*between)
            status = bytes_append_format(into, "%*s  a full bar: ", LABEL_WIDTH, "");
        if (status == 0)
            status = bytes_append_format(into, "%s%s %.4g%s", between, strips[i].name,
                                         curve_most(canvas->curve, strips[i].kind), strips[i].unit);
        between = ", ";
    }
    return status || !*between ? status : bytes_append_format(into, "\n");
}

int curve_append_text(const struct curve *curve, unsigned columns, unsigned rows,
                      struct bytes *into)
{
    size_t cells = (size_t)columns * rows;
    AUTO_FREE uint8_t *dots = calloc(cells, sizeof(*dots));
    AUTO_FREE bool *validated = calloc(cells, sizeof(*validated));
    struct canvas canvas = {
        .curve = curve, .columns = columns, .rows = rows, .dots = dots, .validated = validated};
    int status = dots && validated ? 0 : -ENOMEM;

    if (status)
        return status;
    draw_training(&canvas);
    draw_validation(&canvas);
    for (unsigned row = 0; row < rows && !status; row++)
        status = append_row(&canvas, row, into);
    if (!status)
        status = append_axis(&canvas, into);
    if (!status)
        status = append_legend(curve, into);
    return status ? status : append_strips(&canvas, into);
}
