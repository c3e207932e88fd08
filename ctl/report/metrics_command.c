/* firnctl metrics: print one line for each committed step, merged from all nodes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "ctl/cluster/collector.h"
#include "ctl/command/commands.h"
#include "ctl/view/format.h"

#define PERIOD_NS  (500 * NS_PER_MS)
#define GAP_ROUNDS 4    /* rounds for which a missing step is waited for */
#define STEPS_KEPT 8192 /* printed steps with which late copies are compared */

struct printer {
    bool exact, json, headed;
    uint64_t next; /* the first step not printed yet */
    uint64_t gap;  /* the first step that no node had; 0: none */
    unsigned gap_rounds;
};

static void print_heading(struct printer *printer)
{
    if (!printer->headed && !printer->exact && !printer->json)
        printf("%8s %10s %10s %10s %6s %5s %7s %9s\n", "STEP", "LOSS", "VAL", "NORM", "FROZEN",
               "GEN", "LAYOUT", "TIME");
    printer->headed = true;
}

static void print_step(const struct printer *printer, const struct history_step *step)
{
    char exact[HISTORY_EXACT_SIZE], loss[FORMAT_SIZE], val[FORMAT_SIZE], layout[FORMAT_SIZE];
    char took[FORMAT_SIZE];

    if (printer->exact) {
        puts(printer->json ? history_exact_json(step, exact) : history_exact(step, exact));
    } else if (printer->json) {
        puts(step->line);
    } else {
        snprintf(layout, sizeof(layout), "%ux%u", step->stages, step->replicas);
        printf("%8" PRIu64 " %10s %10s %10.4g %6u %5" PRIu64 " %7s %9s\n", step->step,
               format_loss(step->loss, loss), format_loss(step->val_loss, val), step->grad_norm,
               step->frozen_layers, step->generation, layout,
               format_duration(step->step_ms / 1e3, took));
        if (step->final_evaluated)
            printf("%8s %10s %10s\n", "final", "", format_loss(step->final_loss, val));
    }
}

/* Print a step, once every node has passed it. */
static int take_step(void *context, const struct history_step *step)
{
    struct printer *printer = context;

    if (step->step < printer->next)
        return 0;
    if (step->step > printer->next && printer->next > 0 && !printer->gap)
        printer->gap = printer->next;
    print_heading(printer);
    print_step(printer, step);
    printer->next = step->step + 1;
    return ferror(stdout) ? -errno : 0;
}

/* Print steps in order; a gap may only mean that the node with the step answered too early. */
static int print_new(struct printer *printer, struct history *history, bool patient)
{
    int status = 0;

    print_heading(printer);
    for (size_t i = history_find(history, printer->next); i < history->count && !status; i++) {
        if (patient && history->steps[i].step != printer->next && printer->next > 0 &&
            printer->gap_rounds++ < GAP_ROUNDS)
            break;
        printer->gap_rounds = 0;
        status = take_step(printer, &history->steps[i]);
    }
    if (!status && fflush(stdout))
        status = -errno;
    if (!status && printer->next > STEPS_KEPT)
        status = history_hand_out(history, printer->next - STEPS_KEPT, take_step, printer);
    return status;
}

/* @ret_over: whether the job is over; @ret_committed: steps committed according to etcd */
static int round_of(struct collector *collector, bool *ret_over, uint64_t *ret_committed,
                    struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    int status = cluster_load(collector->client, &cluster, error);

    if (status)
        return status;
    const struct cluster_job *job = cluster_find_job(&cluster, collector->job, error);
    if (!job)
        return -ENOENT;
    *ret_over = cluster_job_over(job);
    *ret_committed = job->progress.step;
    status = collector_metrics(collector, &cluster, error);
    return status ? status : collector_check(collector, error);
}

static int follow(struct collector *collector, struct printer *printer, uint64_t *ret_committed,
                  struct error *error)
{
    bool over = false;
    int status = round_of(collector, &over, ret_committed, error);

    while (!status && !over) {
        status = print_new(printer, &collector->history, true);
        if (status)
            break;
        cluster_client_pause(collector->client, PERIOD_NS);
        status = round_of(collector, &over, ret_committed, error);
    }
    return status ? status : print_new(printer, &collector->history, false);
}

/* Report conditions that make the printed metrics incomplete. */
static int judge(const struct collector *collector, const struct printer *printer, uint64_t from,
                 uint64_t committed, struct error *error)
{
    uint64_t gap = printer->gap;

    if (collector->history.conflict.code) {
        *error = collector->history.conflict;
        return error->code;
    }
    if (collector->silent)
        fprintf(stderr, "firnctl: no answer from %s: away or busy\n", collector->silent_names);
    if (!gap && printer->next <= committed && from <= committed) /* the end, or all of it */
        gap = MAX(printer->next, (uint64_t)1);
    if (!gap)
        return 0;
    error_set(error, -ENODATA,
              "step %" PRIu64 " is on no node that answers, and the job has committed %" PRIu64
              "; start the node that has it, or look in its data_dir for jobs/%s/metrics.jsonl; "
              "--from STEP prints what there is",
              gap, MAX(committed + 1, printer->next) - 1, collector->job);
    if (printer->exact)
        return -ENODATA;
    fprintf(stderr, "firnctl: %s\n", error->text);
    error_clear(error);
    return 0;
}

int run_metrics(const struct arguments *arguments, struct error *error)
{
    CLEANUP(collector_done) struct collector collector = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    uint64_t from = arguments_number(arguments, "from", 1);
    struct printer printer = {.exact = arguments_has(arguments, "exact"),
                              .json = arguments_has(arguments, "json"),
                              .next = from};
    uint64_t committed = 0;
    bool over;
    int status = cluster_client_open(arguments, &client, error);

    if (status)
        return status;
    collector_init(&collector, &client, arguments->operands[0], from);
    collector.take = take_step;
    collector.context = &printer;
    if (arguments_has(arguments, "follow")) {
        status = follow(&collector, &printer, &committed, error);
    } else {
        status = round_of(&collector, &over, &committed, error);
        if (!status)
            status = print_new(&printer, &collector.history, false);
    }
    return status ? status : judge(&collector, &printer, from, committed, error);
}
