/*
 * The loss of a run as a picture: training and validation over steps, with the generations marked.
 * Drawn twice, for the terminal in braille and as SVG; both from this description. Its size is
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
    double step, loss; /* the first step; the mean loss */
    uint64_t count;    /* losses in it */
};

struct curve_line {
    struct curve_point *points; /* ascending; only finite losses */
    size_t count;
    uint64_t each; /* losses that make a point full: a power of two */
};

struct curve_mark {
    double step;
    char label[CURVE_LABEL_SIZE]; /* "g3 3x2" */
};

struct curve {
    struct curve_line training, validation;
    struct curve_mark *marks; /* where a generation other than the first begins */
    size_t mark_count;
    uint64_t generation;                                 /* of the newest step; 0: none yet */
    double step_first, step_last, loss_least, loss_most; /* of both lines */
};

/** curve_init() - 0 or -ENOMEM */
int curve_init(struct curve *ret_curve) CHECK_RESULT;
void curve_done(struct curve *curve);
/** curve_take() - the next step, in order */
void curve_take(struct curve *curve, const struct history_step *step);
/** curve_is_empty() - no step had a finite loss: there is nothing to append */
bool curve_is_empty(const struct curve *curve);

/** curve_mean() - of the training losses of steps in [@from, @end); NaN when there are none */
double curve_mean(const struct curve *curve, double from, double end);

/** curve_append_text() - @columns x @rows cells of braille between axes; 0 or -ENOMEM */
int curve_append_text(const struct curve *curve, unsigned columns, unsigned rows,
                      struct bytes *into) CHECK_RESULT;
/** curve_append_svg() - a whole SVG document; 0 or -ENOMEM */
int curve_append_svg(const struct curve *curve, const char *title, struct bytes *into) CHECK_RESULT;
