/*
 * A run as a picture over its steps: training and validation loss, with the generations marked, and
 * below them step time, stages, replicas, frozen layers and the loaded fraction of their outputs.
 * The terminal picture and the SVG are both drawn from this description. Its size is bounded for
 * any number of steps: neighbours are merged into one point, with their mean.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "ctl/cluster/history.h"

#define CURVE_LABEL_SIZE 48
#define CURVE_POINTS_MAX 8192 /* per line: several times as many as are visible */
#define CURVE_MARKS_MAX  1024

struct curve_point {
    double step, value; /* the first step; the mean of values */
    uint64_t count;     /* values in this point */
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

/** curve_init() - begin an empty curve. Return: 0 or -ENOMEM */
int curve_init(struct curve *ret_curve) CHECK_RESULT;
void curve_done(struct curve *curve);
/** curve_take() - add the next step, in order */
void curve_take(struct curve *curve, const struct history_step *step);
/** curve_is_empty() - return whether no step had a finite loss, so there is nothing to draw */
bool curve_is_empty(const struct curve *curve);

/** curve_mean() - return the mean of @kind over the steps in [@from, @end); NaN: no values */
double curve_mean(const struct curve *curve, enum curve_kind kind, double from, double end);
/** curve_most() - return the largest value of @kind; 0: no values */
double curve_most(const struct curve *curve, enum curve_kind kind);

/** curve_append_text() - append @columns x @rows cells of braille between axes, and a strip for
 * each other kind that changes or is not 0. Return: 0 or -ENOMEM */
int curve_append_text(const struct curve *curve, unsigned columns, unsigned rows,
                      struct bytes *into) CHECK_RESULT;
/** curve_append_svg() - append a whole SVG document. Return: 0 or -ENOMEM */
int curve_append_svg(const struct curve *curve, const char *title, struct bytes *into) CHECK_RESULT;
