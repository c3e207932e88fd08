#include "ctl/report/svg_line.h"

#include <math.h>

double svg_x(const struct curve *curve, double step)
{
    double span = curve->step_last - curve->step_first;
    double share = span > 0 ? (step - curve->step_first) / span : 0.5;

    return SVG_LEFT + share * (SVG_WIDTH - SVG_LEFT - SVG_RIGHT);
}

double svg_tick_distance(double span, unsigned wanted)
{
    double rough = span / wanted, power = pow(10, floor(log10(rough))), digit = rough / power;

    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

int svg_append_line(const struct curve *curve, enum curve_kind kind, const char *look,
                    double (*y)(const void *context, double value), const void *context,
                    struct bytes *into)
{
    double steps = curve->step_last - curve->step_first + 1;
    double bucket = fmax(steps / SVG_POINTS_MAX, 1);
    int status = bytes_append_format(
        into, "<polyline %s fill=\"none\" stroke-width=\"1.5\" points=\"", look);

    for (double from = curve->step_first; from <= curve->step_last && !status; from += bucket) {
        double mean = curve_mean(curve, kind, from, from + bucket);
        if (!isnan(mean))
            status = bytes_append_format(into, "%.1f,%.1f ", svg_x(curve, from), y(context, mean));
    }
    return status ? status : bytes_append_format(into, "\"/>\n");
}
