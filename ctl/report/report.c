/* firnctl report: summarise a run. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "base/size_words.h"
#include "ctl/cluster/collector.h"
#include "ctl/command/commands.h"
#include "ctl/report/curve.h"
#include "ctl/report/report_facts.h"
#include "ctl/view/format.h"
#include "ctl/view/meter.h"
#include "ctl/view/output.h"
#include "ctl/view/terminal.h"
#include "ctl/view/text_table.h"
#include "elastic/job/job_spec.h"

#define METER_STEPS       20000 /* a quarter of a second of reading */
#define CURVE_ROWS        12
#define CURVE_COLUMNS_MAX 100u
#define CURVE_MARGIN      13u /* labels and axis beside the curve */

/* ---- the curve ---- */

static int print_curve(const struct curve *curve)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    unsigned columns = terminal_columns();
    unsigned width = columns > CURVE_MARGIN + 20 ? columns - CURVE_MARGIN : 20;
    int status = curve_append_text(curve, MIN(width, CURVE_COLUMNS_MAX), CURVE_ROWS, &text);

    if (!status)
        printf("\n%.*s", (int)text.size_bytes, (const char *)text.data);
    return status;
}

static int write_svg(const struct curve *curve, const char *job, const struct report_facts *facts,
                     const char *path, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    char title[NAME_SIZE + 128], from[FORMAT_SIZE], to[FORMAT_SIZE];

    snprintf(title, sizeof(title), "%s: loss %s → %s in %" PRIu64 " step%s", job,
             format_loss(facts->loss_first, from), format_loss(facts->loss_last, to),
             facts->steps_committed, plural(facts->steps_committed));
    if (curve_append_svg(curve, title, &text))
        return error_set(error, -ENOMEM, "no memory for the curve");
    return output_file(path, text.data, text.size_bytes, error);
}

/* ---- text ---- */

static void print_losses(const struct report_facts *facts)
{
    char from[FORMAT_SIZE], to[FORMAT_SIZE];

    printf("loss         %s → %s", format_loss(facts->loss_first, from),
           format_loss(facts->loss_last, to));
    if (facts->first_step > 1)
        printf(" (from step %" PRIu64 " on: no older line is known)", facts->first_step);
    printf("\n");
    if (!isnan(facts->val_loss_last))
        printf("validation   %s → %s\n", format_loss(facts->val_loss_first, from),
               format_loss(facts->val_loss_last, to));
}

static void print_frozen(const struct cluster_job *job, const struct report_facts *facts)
{
    double samples = (double)facts->frozen_loaded + (double)facts->frozen_computed;

    printf("frozen       %u of %u layer%s at the end", facts->frozen_layers,
           job->spec->model.layers, plural(job->spec->model.layers));
    if (samples > 0)
        printf("; their output was loaded for %.0f %% of the samples since the first froze",
               100 * (double)facts->frozen_loaded / samples);
    printf("\n");
}

static void print_summary(const struct cluster_job *job, const struct report_facts *facts)
{
    char words[sizeof(job->state.state) + sizeof(job->state.text) + 8];
    char took[FORMAT_SIZE], step[FORMAT_SIZE], rate[FORMAT_SIZE], size[FORMAT_SIZE];

    cluster_job_words(job, words, sizeof(words));
    printf("%s%s%s   %s\n", terminal_color(TERMINAL_BOLD), job->name,
           terminal_color(TERMINAL_PLAIN), words);
    print_losses(facts);
    printf("steps        %" PRIu64 " of %" PRIu64 " committed, %" PRIu64
           " lost and computed again\n",
           facts->steps_committed, job->spec->train.steps, facts->steps_lost);
    printf("time         %s, %s a step, %s tokens/s\n", format_duration(facts->seconds, took),
           format_duration(facts->step_seconds_mean, step),
           format_count(facts->tokens_per_second, rate));
    print_frozen(job, facts);
    printf("checkpoints  %zu kept", job->checkpoint_count);
    if (job->checkpoint_count)
        printf(", the newest of step %" PRIu64 " (%s)", job->checkpoints[0].step,
               size_words(job->checkpoints[0].size_bytes, size));
    printf("\n");
}

static int print_generations(const struct report_facts *facts)
{
    CLEANUP(text_table_done) struct text_table table = {0};
    char pause[FORMAT_SIZE];

    if (!facts->generation_count)
        return 0;
    printf("\n");
    text_table_init(&table, "#GENERATION|#FROM STEP|LAYOUT|#PAUSE|#LOST|WHY");
    for (size_t i = 0; i < facts->generation_count; i++) {
        const struct report_generation *generation = &facts->generations[i];
        text_table_cell(&table, "%" PRIu64, generation->generation);
        text_table_cell(&table, "%" PRIu64, generation->first_step);
        if (generation->stages)
            text_table_cell(&table, "%u x %u", generation->stages, generation->replicas);
        else
            text_table_cell(&table, "-");
        text_table_cell(
            &table, "%s",
            generation->pause_ms > 0 ? format_duration(generation->pause_ms / 1e3, pause) : "-");
        text_table_cell(&table, "%" PRIu64, generation->steps_lost);
        text_table_cell(&table, "%s", generation->reason);
    }
    return text_table_print(&table);
}

/* ---- JSON ---- */

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *generation_json(const struct report_generation *generation)
{
    return json_pack(
        "{s:I, s:I, s:i, s:i, s:o, s:I, s:s}", "generation", (json_int_t)generation->generation,
        "first_step", (json_int_t)generation->first_step, "stages", (int)generation->stages,
        "replicas", (int)generation->replicas, "pause_ms", real_or_null(generation->pause_ms),
        "steps_lost", (json_int_t)generation->steps_lost, "reason", generation->reason);
}

static int print_json(const struct cluster_job *job, const struct report_facts *facts,
                      struct error *error)
{
    json_t *tree = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:I, s:I, s:I, s:[]}",
        "job", job->name, "state", cluster_job_state(job), "steps",
        (json_int_t)job->spec->train.steps, "steps_committed", (json_int_t)facts->steps_committed,
        "steps_lost", (json_int_t)facts->steps_lost, "first_step", (json_int_t)facts->first_step,
        "loss_first", real_or_null(facts->loss_first), "loss_last", real_or_null(facts->loss_last),
        "val_loss_first", real_or_null(facts->val_loss_first), "val_loss_last",
        real_or_null(facts->val_loss_last), "seconds", real_or_null(facts->seconds),
        "step_seconds_mean", real_or_null(facts->step_seconds_mean), "tokens_per_second",
        real_or_null(facts->tokens_per_second), "frozen_layers", (int)facts->frozen_layers,
        "frozen_loaded", (json_int_t)facts->frozen_loaded, "frozen_computed",
        (json_int_t)facts->frozen_computed, "checkpoints_kept", (json_int_t)job->checkpoint_count,
        "generations");

    for (size_t i = 0; i < facts->generation_count && tree; i++)
        if (json_array_append_new(json_object_get(tree, "generations"),
                                  generation_json(&facts->generations[i]))) {
            json_decref(tree);
            tree = NULL;
        }
    return output_json(tree, error);
}

/* ---- the command ---- */

struct run {
    struct report_facts facts;
    struct curve curve;
    struct meter meter;
    uint64_t steps; /* committed according to etcd */
};

static void run_done(struct run *run)
{
    report_facts_done(&run->facts);
    curve_done(&run->curve);
}

static int take_step(void *context, const struct history_step *step)
{
    struct run *run = context;

    if (step->step % METER_STEPS == 0)
        meter_progress(&run->meter, step->step, MAX(run->steps, step->step + 1));
    curve_take(&run->curve, step);
    return report_facts_take(&run->facts, step);
}

static int collect(struct collector *collector, const struct cluster *cluster, struct run *run,
                   struct error *error)
{
    int status = collector_metrics(collector, cluster, error);

    if (!status)
        status = collector_events(collector, cluster, error);
    if (!status)
        status = collector_check(collector, error);
    if (status)
        return status;
    status = history_hand_out(&collector->history, UINT64_MAX, take_step, run);
    if (run->meter.said_ns)
        meter_progress(&run->meter, run->steps, run->steps);
    if (!status)
        status = report_facts_finish(&run->facts, &collector->events);
    return status ? error_set(error, status, "no memory for the report") : 0;
}

static int tell(const struct arguments *arguments, const struct cluster_job *job,
                const struct run *run, struct error *error)
{
    const struct report_facts *facts = &run->facts;
    bool drawn = !curve_is_empty(&run->curve);
    const char *svg = arguments_text(arguments, "svg", NULL);
    bool json = arguments_has(arguments, "json");
    int status = 0;

    if (json) {
        status = print_json(job, facts, error);
    } else {
        print_summary(job, facts);
        status = print_generations(facts);
        if (!status && drawn)
            status = print_curve(&run->curve);
    }
    if (!status && svg && !drawn)
        return error_set(error, -ENODATA, "no step is committed yet: there is no curve to draw");
    if (!status && svg)
        status = write_svg(&run->curve, job->name, facts, svg, error);
    if (!status && svg && !json)
        printf("\nThe curve is in %s\n", svg);
    return status == -ENOMEM ? error_set(error, status, "no memory for the report") : status;
}

int run_report(const struct arguments *arguments, struct error *error)
{
    CLEANUP(collector_done) struct collector collector = {0};
    CLEANUP(run_done) struct run run = {0};
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status)
        return status;
    const struct cluster_job *job = cluster_find_job(&cluster, arguments->operands[0], error);
    if (!job)
        return -ENOENT;
    report_facts_init(&run.facts);
    run.meter = meter_begin();
    run.meter.counted = "steps";
    run.steps = job->progress.step;
    if (curve_init(&run.curve))
        return error_set(error, -ENOMEM, "no memory for the curve");
    collector_init(&collector, &client, job->name, 0);
    collector.take = take_step;
    collector.context = &run;
    status = collect(&collector, &cluster, &run, error);
    if (!status)
        status = tell(arguments, job, &run, error);
    if (!status && collector.history.conflict.code) {
        *error = collector.history.conflict;
        status = error->code;
    }
    return status;
}
