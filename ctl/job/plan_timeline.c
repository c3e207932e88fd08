#include "ctl/job/plan_timeline.h"

#include <errno.h>
#include <math.h>

#include "ctl/view/terminal.h"
#include "elastic/planner/pipeline_timeline.h"

#define MICRO_BATCHES_DRAWN 32 /* with more, beginning and end look the same */
#define STAGES_DRAWN        16
#define LABEL_WIDTH         11 /* "  stage 123" */
#define KINDS               (SCHEDULE_BACKWARD_WEIGHT + 1)

struct drawing {
    unsigned stages, columns;
    double seconds; /* of the step */
    double *busy;   /* (stage, column, kind): seconds of the column; NULL: only measure */
};

/* Spread one operation over the columns that it touches. */
static void spread(void *context, const struct timeline_operation *operation)
{
    struct drawing *drawing = context;

    if (!drawing->busy) {
        drawing->seconds = fmax(drawing->seconds, operation->end);
        return;
    }
    double width = drawing->seconds / drawing->columns;
    for (unsigned column = (unsigned)(operation->begin / width);
         column < drawing->columns && column * width < operation->end; column++) {
        double from = fmax(operation->begin, column * width);
        double end = fmin(operation->end, (column + 1) * width);
        size_t cell = (size_t)operation->stage * drawing->columns + column;
        drawing->busy[cell * KINDS + operation->kind] += fmax(end - from, 0);
    }
}

/* Return the kind that fills most of the cell; KINDS: the stage is idle for longer. */
static unsigned kind_of(const struct drawing *drawing, const double *busy)
{
    double idle = drawing->seconds / drawing->columns;
    unsigned most = KINDS;

    for (unsigned kind = 0; kind < KINDS; kind++)
        idle -= busy[kind];
    for (unsigned kind = 0; kind < KINDS; kind++)
        if (busy[kind] > (most == KINDS ? idle : busy[most]))
            most = kind;
    return most;
}

static int append_stage(const struct drawing *drawing, unsigned stage, struct bytes *into)
{
    static const struct {
        enum terminal_color color;
        const char *letter;
    } looks[] = {
        [SCHEDULE_FORWARD] = {TERMINAL_GREEN, "F"},
        [SCHEDULE_BACKWARD] = {TERMINAL_CYAN, "B"},
        [SCHEDULE_BACKWARD_INPUT] = {TERMINAL_CYAN, "B"},
        [SCHEDULE_BACKWARD_WEIGHT] = {TERMINAL_YELLOW, "W"},
        [KINDS] = {TERMINAL_DIM, "·"},
    };
    unsigned last = UINT32_MAX;
    int status = bytes_append_format(into, "  stage %-3u", stage);

    for (unsigned column = 0; column < drawing->columns && status == 0; column++) {
        size_t cell = (size_t)stage * drawing->columns + column;
        unsigned kind = kind_of(drawing, &drawing->busy[cell * KINDS]);
        if (kind != last)
            status = bytes_append_format(into, "%s%s", terminal_color(TERMINAL_PLAIN),
                                         terminal_color(looks[kind].color));
        if (status == 0)
            status = bytes_append_format(into, "%s", looks[kind].letter);
        last = kind;
    }
    return status ? status : bytes_append_format(into, "%s\n", terminal_color(TERMINAL_PLAIN));
}

static int append_stages(const struct drawing *drawing, struct bytes *into)
{
    int status = 0;

    for (unsigned stage = 0; stage < drawing->stages && status == 0; stage++) {
        if (drawing->stages > STAGES_DRAWN && stage == STAGES_DRAWN / 2) {
            stage = drawing->stages - STAGES_DRAWN / 2;
            status = bytes_append_format(into, "  ...\n");
        }
        if (status == 0)
            status = append_stage(drawing, stage, into);
    }
    return status;
}

static int append_legend(const struct plan_layout *layout, unsigned count, struct bytes *into)
{
    int status =
        bytes_append_format(into, "  F forward, B backward%s, · idle",
                            layout->deferred > 0 ? ", W gradients of weights that waited" : "");

    if (status == 0 && count > MICRO_BATCHES_DRAWN)
        status = bytes_append_format(into, "; %d of %u micro-batches are drawn",
                                     MICRO_BATCHES_DRAWN, count);
    return status ? status : bytes_append_format(into, "\n");
}

int plan_timeline_append(const struct planner_input *input, const struct plan_layout *layout,
                         unsigned columns, struct bytes *into)
{
    unsigned count = 0;
    struct drawing drawing = {.stages = layout->stage_count, .columns = columns - LABEL_WIDTH};

    if (layout->stage_count < 2)
        return 0;
    int status = pipeline_timeline(input, layout, MICRO_BATCHES_DRAWN, spread, &drawing, &count);
    size_t cells = (size_t)drawing.stages * drawing.columns;
    AUTO_FREE double *busy = calloc(cells * KINDS, sizeof(*busy));
    drawing.busy = busy;
    if (status == 0)
        status =
            busy ? pipeline_timeline(input, layout, MICRO_BATCHES_DRAWN, spread, &drawing, &count)
                 : -ENOMEM;
    if (status == 0)
        status = bytes_append_format(into, "\nOne step as planned:\n");
    if (status == 0)
        status = append_stages(&drawing, into);
    return status ? status : append_legend(layout, count, into);
}
