/* The common width of both panels of the SVG picture, and lines over it. Private to curve_svg.c and
 * curve_panel.c. */
#pragma once

#include "base/compiler.h"
#include "ctl/report/curve.h"

#define SVG_WIDTH        960
#define SVG_LEFT         64
#define SVG_RIGHT        64
#define SVG_LOSS_HEIGHT  480
#define SVG_PANEL_HEIGHT 180
#define SVG_POINTS_MAX   1200 /* per line: more are invisible */

double svg_x(const struct curve *curve, double step);

/** svg_tick_distance() - return 1, 2 or 5 times a power of ten, for about @wanted ticks in @span */
double svg_tick_distance(double span, unsigned wanted);

/** svg_append_line() - append a polyline of the means of @kind, each at @y_of. Return: 0 or -ENOMEM
 */
int svg_append_line(const struct curve *curve, enum curve_kind kind, const char *look,
                    double (*y_of)(const void *context, double value), const void *context,
                    struct bytes *into) CHECK_RESULT;
