/* Draw the curve as one SVG document, without script or fonts, for light and dark backgrounds. */
#include <math.h>
#include <string.h>

#include "ctl/report/curve_panel.h"
#include "ctl/report/svg_line.h"

#define TOP          56
#define BOTTOM       48
#define TICKS_WANTED 6
#define LABELS_MAX   24 /* of marks: more would be unreadable */

struct frame {
    const struct curve *curve;
    double loss_low, loss_high;
};

static double y_of(const void *context, double loss)
{
    const struct frame *frame = context;
    double share = (loss - frame->loss_low) / (frame->loss_high - frame->loss_low);

    return SVG_LOSS_HEIGHT - BOTTOM - share * (SVG_LOSS_HEIGHT - TOP - BOTTOM);
}

static int append_escaped(const char *text, struct bytes *into)
{
    int status = 0;

    for (; *text && !status; text++) {
        const char *word = *text == '<'   ? "&lt;"
                           : *text == '>' ? "&gt;"
                           : *text == '&' ? "&amp;"
                                          : NULL;
        status = word ? bytes_append(into, word, strlen(word)) : bytes_append(into, text, 1);
    }
    return status;
}

static int append_head(const char *title, struct bytes *into)
{
    int status = bytes_append_format(
        into,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
        "font-family=\"system-ui,sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
        "<text x=\"%d\" y=\"26\" font-size=\"16\" font-weight=\"600\" fill=\"#1b2733\">",
        SVG_WIDTH, SVG_LOSS_HEIGHT + SVG_PANEL_HEIGHT, SVG_WIDTH,
        SVG_LOSS_HEIGHT + SVG_PANEL_HEIGHT, SVG_LEFT);

    if (!status)
        status = append_escaped(title, into);
    return status ? status : bytes_append_format(into, "</text>\n");
}

static int append_loss_ticks(const struct frame *frame, struct bytes *into)
{
    double distance = svg_tick_distance(frame->loss_high - frame->loss_low, TICKS_WANTED);
    int status = 0;

    for (double loss = ceil(frame->loss_low / distance) * distance;
         loss <= frame->loss_high + distance * 1e-9 && !status; loss += distance) {
        double y = y_of(frame, loss);
        status = bytes_append_format(
            into,
            "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e3e8ee\"/>"
            "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#51606f\">%.4g</text>\n",
            SVG_LEFT, y, SVG_WIDTH - SVG_RIGHT, y, SVG_LEFT - 8, y + 4, loss);
    }
    return status;
}

static int append_step_ticks(const struct frame *frame, struct bytes *into)
{
    double span = fmax(frame->curve->step_last - frame->curve->step_first, 1);
    double distance = fmax(svg_tick_distance(span, TICKS_WANTED), 1);
    int status = 0;

    for (double step = ceil(frame->curve->step_first / distance) * distance;
         step <= frame->curve->step_last && !status; step += distance)
        status = bytes_append_format(
            into, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#51606f\">%.0f</text>\n",
            svg_x(frame->curve, step), SVG_LOSS_HEIGHT - BOTTOM + 20, step);
    if (!status)
        status = bytes_append_format(
            into,
            "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#8a97a5\"/>"
            "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#51606f\">step</text>\n",
            SVG_LEFT, SVG_LOSS_HEIGHT - BOTTOM, SVG_WIDTH - SVG_RIGHT, SVG_LOSS_HEIGHT - BOTTOM,
            SVG_WIDTH - SVG_RIGHT, SVG_LOSS_HEIGHT - 10);
    return status;
}

static int append_marks(const struct frame *frame, struct bytes *into)
{
    const struct curve *curve = frame->curve;
    int status = 0;

    for (size_t i = 0; i < curve->mark_count && !status; i++) {
        double x = svg_x(frame->curve, curve->marks[i].step);
        status = bytes_append_format(into,
                                     "<line class=\"generation\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" "
                                     "y2=\"%d\" stroke=\"#b6c2ce\" stroke-dasharray=\"3 3\"/>\n",
                                     x, TOP, x, SVG_LOSS_HEIGHT - BOTTOM);
        if (!status && i < LABELS_MAX)
            status = bytes_append_format(
                into, "<text x=\"%.1f\" y=\"%d\" font-size=\"10\" fill=\"#51606f\">%s</text>\n",
                x + 3, TOP + 10 + (int)(i % 3) * 12, curve->marks[i].label);
    }
    return status;
}

static int append_validation(const struct frame *frame, struct bytes *into)
{
    const struct curve_line *line = &frame->curve->lines[CURVE_VALIDATION];
    int status = 0;

    for (size_t i = 0; i < line->count && !status; i++)
        status = bytes_append_format(
            into,
            "<circle class=\"validation\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"#e07b00\"/>\n",
            svg_x(frame->curve, line->points[i].step), y_of(frame, line->points[i].value));
    return status;
}

static int append_legend(const struct curve *curve, struct bytes *into)
{
    int status = bytes_append_format(
        into,
        "<text x=\"%d\" y=\"44\" fill=\"#51606f\"><tspan fill=\"#2b7cd3\">━ training loss</tspan>",
        SVG_LEFT);

    if (!status && curve->lines[CURVE_VALIDATION].count)
        status = bytes_append_format(into,
                                     "<tspan dx=\"14\" fill=\"#e07b00\">● validation loss</tspan>");
    if (!status && curve->mark_count)
        status = bytes_append_format(
            into, "<tspan dx=\"14\">┊ a new generation: stages x replicas</tspan>");
    return status ? status : bytes_append_format(into, "</text>\n");
}

int curve_append_svg(const struct curve *curve, const char *title, struct bytes *into)
{
    double margin =
        fmax((curve->loss_most - curve->loss_least) * 0.04, fabs(curve->loss_most) * 1e-6 + 1e-9);
    const struct frame frame = {.curve = curve,
                                .loss_low = curve->loss_least - margin,
                                .loss_high = curve->loss_most + margin};
    int status = append_head(title, into);

    if (!status)
        status = append_loss_ticks(&frame, into);
    if (!status)
        status = append_step_ticks(&frame, into);
    if (!status)
        status = append_marks(&frame, into);
    if (!status && curve->lines[CURVE_TRAINING].count)
        status = svg_append_line(curve, CURVE_TRAINING, "class=\"training\" stroke=\"#2b7cd3\"",
                                 y_of, &frame, into);
    if (!status)
        status = append_validation(&frame, into);
    if (!status)
        status = append_legend(curve, into);
    if (!status && curve->lines[CURVE_STEP].count)
        status = curve_append_panel(curve, into);
    return status ? status : bytes_append_format(into, "</svg>\n");
}
