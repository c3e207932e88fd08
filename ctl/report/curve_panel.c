/* Draw the panel below the losses: how long a step took, and why. The scale of step times is at the
 * left, that of frozen layers at the right; the loaded fraction uses the whole height for 100 %. */
#include "ctl/report/curve_panel.h"

#include <math.h>

#include "ctl/report/svg_line.h"

#define TOP          (SVG_LOSS_HEIGHT + 34)
#define BOTTOM       (SVG_LOSS_HEIGHT + SVG_PANEL_HEIGHT - 20)
#define TICKS_WANTED 3

struct scale {
    double most; /* the value at the top */
};

static double y_of(const void *context, double value)
{
    const struct scale *scale = context;

    return BOTTOM - value / scale->most * (BOTTOM - TOP);
}

static struct scale scale_of(const struct curve *curve, enum curve_kind kind)
{
    double most = curve_most(curve, kind);

    return (struct scale){most > 0 ? most * 1.05 : 1};
}

/* @x, @anchor: of the numbers */
static int append_ticks(const struct scale *scale, double distance, int x, const char *anchor,
                        struct bytes *into)
{
    int status = 0;

    for (double value = 0; value <= scale->most && status == 0; value += distance)
        status = bytes_append_format(
            into, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#51606f\">%.4g</text>\n", x,
            y_of(scale, value) + 4, anchor, value);
    return status;
}

static int append_legend(bool frozen, bool loaded, struct bytes *into)
{
    int status = bytes_append_format(
        into,
        "<text x=\"%d\" y=\"%d\" fill=\"#51606f\"><tspan fill=\"#7a3fb8\">━ a step, ms</tspan>",
        SVG_LEFT, TOP - 12);

    if (status == 0 && frozen)
        status = bytes_append_format(
            into, "<tspan dx=\"14\" fill=\"#3d9b8f\">━ frozen layers (right)</tspan>");
    if (status == 0 && loaded)
        status = bytes_append_format(into, "<tspan dx=\"14\" fill=\"#b8860b\">┄ their outputs "
                                           "loaded, of 100 %%</tspan>");
    return status ? status : bytes_append_format(into, "</text>\n");
}

static int append_frozen(const struct curve *curve, struct bytes *into)
{
    const struct scale layers = scale_of(curve, CURVE_FROZEN);
    double distance = fmax(svg_tick_distance(layers.most, TICKS_WANTED), 1);
    int status = append_ticks(&layers, distance, SVG_WIDTH - SVG_RIGHT + 8, "start", into);

    return status ? status
                  : svg_append_line(curve, CURVE_FROZEN, "class=\"frozen\" stroke=\"#3d9b8f\"",
                                    y_of, &layers, into);
}

static int append_loaded(const struct curve *curve, struct bytes *into)
{
    const struct scale percent = {100};

    return svg_append_line(curve, CURVE_LOADED,
                           "class=\"loaded\" stroke=\"#b8860b\" stroke-dasharray=\"2 3\"", y_of,
                           &percent, into);
}

int curve_append_panel(const struct curve *curve, struct bytes *into)
{
    const struct scale step = scale_of(curve, CURVE_STEP);
    bool frozen = curve_most(curve, CURVE_FROZEN) > 0, loaded = curve_most(curve, CURVE_LOADED) > 0;
    int status = append_legend(frozen, loaded, into);

    if (status == 0)
        status = bytes_append_format(
            into, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#8a97a5\"/>\n", SVG_LEFT,
            BOTTOM, SVG_WIDTH - SVG_RIGHT, BOTTOM);
    if (status == 0)
        status = append_ticks(&step, svg_tick_distance(step.most, TICKS_WANTED), SVG_LEFT - 8,
                              "end", into);
    if (status == 0 && frozen)
        status = append_frozen(curve, into);
    if (status == 0 && loaded)
        status = append_loaded(curve, into);
    return status ? status
                  : svg_append_line(curve, CURVE_STEP, "class=\"step\" stroke=\"#7a3fb8\"", y_of,
                                    &step, into);
}
