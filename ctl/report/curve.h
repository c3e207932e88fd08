/*
 * A run as a picture over its steps: training and validation loss, with the generations marked, and
 * below it step time, stages, replicas, frozen layers and the share of their outputs that was
 * loaded. Drawn twice, for the terminal and as SVG; both from this description. Its size is
 * bounded, whatever the number of steps: neighbours become one point, with their mean.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "ctl/cluster/history.h"

#define CURVE_LABEL_SIZE 48
#define CURVE_POINTS_MAX 8192 /* of a line: several times what can be seen */
#define CURVE_MARKS_MAX  1024

struct curve_point {
    double step, value; /* the first step; the mean of values */
    uint64_t count;     /* values in it */
};

struct curve_line {
    struct curve_point *points; /* ascending; only finite values */
    size_t count;
    uint64_t each; /* values that make a point full: a power of two */
};

enum curve_kind {
    CURVE_TRAINING,   /* loss */
    CURVE_VALIDATION, /* loss */
    CURVE_STEP,       /* milliseconds */
    CURVE_STAGES,
    CURVE_REPLICAS,
    CURVE_FROZEN, /* layers */
    CURVE_LOADED, /* percent of the samples whose frozen output was needed */
    CURVE_KINDS
};

struct curve_mark {
    double step;
    char label[CURVE_LABEL_SIZE]; /* "g3 3x2" */
};

struct curve {
    struct curve_line lines[CURVE_KINDS];
    struct curve_mark *marks; /* where a generation other than the first begins */
    size_t mark_count;
    uint64_t generation;                                 /* of the newest step; 0: none yet */
    double step_first, step_last, loss_least, loss_most; /* of both losses */
};

/** curve_init() - 0 or -ENOMEM */
int curve_init(struct curve *ret_curve) CHECK_RESULT;
void curve_done(struct curve *curve);
/** curve_take() - the next step, in order */
void curve_take(struct curve *curve, const struct history_step *step);
/** curve_is_empty() - no step had a finite loss: there is nothing to append */
bool curve_is_empty(const struct curve *curve);

/** curve_mean() - of the values of @kind of steps in [@from, @end); NaN when there are none */
double curve_mean(const struct curve *curve, enum curve_kind kind, double from, double end);
/** curve_most() - the largest value of @kind; 0 when there is none */
double curve_most(const struct curve *curve, enum curve_kind kind);

/** curve_append_text() - @columns x @rows cells of braille between axes, and a strip for each other
 * kind that changes or is not 0; 0 or -ENOMEM */
int curve_append_text(const struct curve *curve, unsigned columns, unsigned rows,
                      struct bytes *into) CHECK_RESULT;
/** curve_append_svg() - a whole SVG document; 0 or -ENOMEM */
int curve_append_svg(const struct curve *curve, const char *title, struct bytes *into) CHECK_RESULT;
