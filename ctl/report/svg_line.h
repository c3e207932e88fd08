/* The width that both panels of the SVG picture share, and lines over it. Private to curve_svg.c
 * and curve_panel.c. */
#pragma once

#include "base/compiler.h"
#include "ctl/report/curve.h"

#define SVG_WIDTH        960
#define SVG_LEFT         64
#define SVG_RIGHT        64
#define SVG_LOSS_HEIGHT  480
#define SVG_PANEL_HEIGHT 180
#define SVG_POINTS_MAX   1200 /* of a line: more cannot be seen */

double svg_x(const struct curve *curve, double step);

/** svg_tick_distance() - 1, 2 or 5 times a power of ten, for about @wanted ticks over @span */
double svg_tick_distance(double span, unsigned wanted);

/** svg_append_line() - a polyline of the means of @kind, @y_of of each; 0 or -ENOMEM */
int svg_append_line(const struct curve *curve, enum curve_kind kind, const char *look,
                    double (*y_of)(const void *context, double value), const void *context,
                    struct bytes *into) CHECK_RESULT;
