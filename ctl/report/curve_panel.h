/* The second panel of the SVG picture. Private to curve_svg.c. */
#pragma once

#include "base/compiler.h"
#include "ctl/report/curve.h"

/** curve_append_panel() - append step time, frozen layers and the loaded fraction, below the
 * losses. Return: 0 or -ENOMEM */
int curve_append_panel(const struct curve *curve, struct bytes *into) CHECK_RESULT;
