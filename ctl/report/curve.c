#include "ctl/report/curve.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void widen(struct curve *curve, double step, double loss)
{
    bool first = curve->training_count + curve->validation_count == 0;

    curve->step_first = first ? step : fmin(curve->step_first, step);
    curve->step_last = first ? step : fmax(curve->step_last, step);
    curve->loss_least = first ? loss : fmin(curve->loss_least, loss);
    curve->loss_most = first ? loss : fmax(curve->loss_most, loss);
}

static void take_step(struct curve *curve, const struct history_step *step,
                      const struct history_step *before)
{
    double at = (double)step->step;

    if (isfinite(step->loss)) {
        widen(curve, at, step->loss);
        curve->training[curve->training_count++] = (struct curve_point){at, step->loss};
    }
    if (step->evaluated && isfinite(step->val_loss)) {
        widen(curve, at, step->val_loss);
        curve->validation[curve->validation_count++] = (struct curve_point){at, step->val_loss};
    }
    if (step->final_evaluated && isfinite(step->final_loss)) {
        widen(curve, at, step->final_loss);
        curve->validation[curve->validation_count++] = (struct curve_point){at, step->final_loss};
    }
    if (before && before->generation != step->generation) {
        struct curve_mark *mark = &curve->marks[curve->mark_count++];
        mark->step = at;
        snprintf(mark->label, sizeof(mark->label), "g%" PRIu64 " %ux%u", step->generation,
                 step->stages, step->replicas);
    }
}

int curve_make(const struct history *history, struct curve *ret_curve)
{
    struct curve curve = {
        .training = calloc(history->count + 1, sizeof(*curve.training)),
        .validation = calloc(2 * history->count + 1, sizeof(*curve.validation)),
        .marks = calloc(history->count + 1, sizeof(*curve.marks)),
    };
    int status = curve.training && curve.validation && curve.marks ? 0 : -ENOMEM;

    for (size_t i = 0; i < history->count && !status; i++)
        take_step(&curve, &history->steps[i], i ? &history->steps[i - 1] : NULL);
    if (!status && curve.training_count + curve.validation_count == 0)
        status = -ENODATA;
    if (status)
        curve_done(&curve);
    else
        *ret_curve = curve;
    return status;
}

void curve_done(struct curve *curve)
{
    free(curve->training);
    free(curve->validation);
    free(curve->marks);
    *curve = (struct curve){0};
}

double curve_mean(const struct curve *curve, double from, double end)
{
    double sum = 0;
    size_t count = 0, low = 0, high = curve->training_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (curve->training[middle].step < from)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < curve->training_count && curve->training[low].step < end; low++, count++)
        sum += curve->training[low].loss;
    return count ? sum / (double)count : NAN;
}
