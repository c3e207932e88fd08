#include "ctl/report/curve.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int curve_init(struct curve *ret_curve)
{
    struct curve curve = {.marks = calloc(CURVE_MARKS_MAX, sizeof(struct curve_mark))};
    bool made = curve.marks;

    for (unsigned kind = 0; kind < CURVE_KINDS; kind++) {
        struct curve_point *points = calloc(CURVE_POINTS_MAX, sizeof(*points));
        curve.lines[kind] = (struct curve_line){.points = points, .each = 1};
        made = made && points;
    }
    if (!made) {
        curve_done(&curve);
        return -ENOMEM;
    }
    *ret_curve = curve;
    return 0;
}

void curve_done(struct curve *curve)
{
    for (unsigned kind = 0; kind < CURVE_KINDS; kind++)
        free(curve->lines[kind].points);
    free(curve->marks);
    *curve = (struct curve){0};
}

bool curve_is_empty(const struct curve *curve)
{
    return curve->lines[CURVE_TRAINING].count + curve->lines[CURVE_VALIDATION].count == 0;
}

static void widen(struct curve *curve, double step, double loss)
{
    bool first = curve_is_empty(curve);

    curve->step_first = first ? step : fmin(curve->step_first, step);
    curve->step_last = first ? step : fmax(curve->step_last, step);
    curve->loss_least = first ? loss : fmin(curve->loss_least, loss);
    curve->loss_most = first ? loss : fmax(curve->loss_most, loss);
}

static void join(struct curve_point *point, const struct curve_point *next)
{
    uint64_t count = point->count + next->count;

    point->value += (next->value - point->value) * ((double)next->count / (double)count);
    point->count = count;
}

/* Merge each two points into one. */
static void halve(struct curve_line *line)
{
    for (size_t i = 0; i < line->count; i++)
        if (i % 2)
            join(&line->points[i / 2], &line->points[i]);
        else
            line->points[i / 2] = line->points[i];
    line->count = (line->count + 1) / 2;
    line->each *= 2;
}

static void add(struct curve *curve, enum curve_kind kind, uint64_t step, double value)
{
    const struct curve_point point = {.step = (double)step, .value = value, .count = 1};
    struct curve_line *line = &curve->lines[kind];

    if (!isfinite(value))
        return;
    if (line->count > 0 && line->points[line->count - 1].count < line->each) {
        join(&line->points[line->count - 1], &point);
        return;
    }
    if (line->count == CURVE_POINTS_MAX)
        halve(line);
    line->points[line->count++] = point;
}

static void add_loss(struct curve *curve, enum curve_kind kind, uint64_t step, double loss)
{
    if (isfinite(loss))
        widen(curve, (double)step, loss);
    add(curve, kind, step, loss);
}

/* Add a mark; drop every other one if there are too many. */
static void add_mark(struct curve *curve, const struct history_step *step)
{
    if (curve->mark_count == CURVE_MARKS_MAX) {
        for (size_t i = 0; i < CURVE_MARKS_MAX; i += 2)
            curve->marks[i / 2] = curve->marks[i];
        curve->mark_count /= 2;
    }
    struct curve_mark *mark = &curve->marks[curve->mark_count++];
    mark->step = (double)step->step;
    snprintf(mark->label, sizeof(mark->label), "g%" PRIu64 " %ux%u", step->generation, step->stages,
             step->replicas);
}

void curve_take(struct curve *curve, const struct history_step *step)
{
    double frozen_samples = (double)(step->frozen_loaded + step->frozen_computed);

    add_loss(curve, CURVE_TRAINING, step->step, step->loss);
    if (step->evaluated)
        add_loss(curve, CURVE_VALIDATION, step->step, step->val_loss);
    if (step->final_evaluated)
        add_loss(curve, CURVE_VALIDATION, step->step, step->final_loss);
    add(curve, CURVE_STEP, step->step, step->step_ms);
    add(curve, CURVE_STAGES, step->step, step->stages);
    add(curve, CURVE_REPLICAS, step->step, step->replicas);
    add(curve, CURVE_FROZEN, step->step, step->frozen_layers);
    if (frozen_samples > 0)
        add(curve, CURVE_LOADED, step->step, 100 * (double)step->frozen_loaded / frozen_samples);
    if (curve->generation && curve->generation != step->generation)
        add_mark(curve, step);
    curve->generation = step->generation;
}

double curve_most(const struct curve *curve, enum curve_kind kind)
{
    const struct curve_line *line = &curve->lines[kind];
    double most = 0;

    for (size_t i = 0; i < line->count; i++)
        most = fmax(most, line->points[i].value);
    return most;
}

double curve_mean(const struct curve *curve, enum curve_kind kind, double from, double end)
{
    const struct curve_line *line = &curve->lines[kind];
    size_t low = 0, high = line->count;
    double sum = 0;
    uint64_t count = 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (line->points[middle].step < from)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < line->count && line->points[low].step < end; low++) {
        sum += line->points[low].value * (double)line->points[low].count;
        count += line->points[low].count;
    }
    return count ? sum / (double)count : NAN;
}
