/*
 * The loss of a run as a picture: training and validation over steps, with the generations marked.
 * Drawn twice, for the terminal in braille and as SVG; both from this description.
 */
#pragma once

#include <stddef.h>

#include "base/bytes.h"
#include "ctl/cluster/history.h"

#define CURVE_LABEL_SIZE 48

struct curve_point {
    double step, loss;
};

struct curve_mark {
    double step;
    char label[CURVE_LABEL_SIZE]; /* "g3 3x2" */
};

struct curve {
    struct curve_point *training, *validation; /* ascending; only finite losses */
    size_t training_count, validation_count;
    struct curve_mark *marks; /* where a generation other than the first begins */
    size_t mark_count;
    double step_first, step_last, loss_least, loss_most; /* of both */
};

/** curve_make() - 0; -ENODATA when no step has a finite loss; -ENOMEM */
int curve_make(const struct history *history, struct curve *ret_curve) CHECK_RESULT;
void curve_done(struct curve *curve);

/** curve_mean() - of the training losses of steps in [@from, @end); NaN when there are none */
double curve_mean(const struct curve *curve, double from, double end);

/** curve_append_text() - @columns x @rows cells of braille between axes; 0 or -ENOMEM */
int curve_append_text(const struct curve *curve, unsigned columns, unsigned rows,
                      struct bytes *into) CHECK_RESULT;
/** curve_append_svg() - a whole SVG document; 0 or -ENOMEM */
int curve_append_svg(const struct curve *curve, const char *title, struct bytes *into) CHECK_RESULT;
