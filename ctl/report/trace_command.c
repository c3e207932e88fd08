/* firnctl trace: write the spans of a job's workers in its last steps, for a trace viewer. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/plural.h"
#include "ctl/cluster/trace_collector.h"
#include "ctl/command/commands.h"
#include "ctl/report/trace_json.h"
#include "ctl/view/output.h"

#define STEPS_DEFAULT 20
#define STEPS_MAX     ((uint64_t)1 << 53)

/* The requested steps. */
struct wanted {
    bool newest; /* the newest `count`; else `from` to `to` */
    uint64_t count, from, to;
};

static const char *read_number(const char *text, uint64_t *ret_number)
{
    char *end;

    errno = 0;
    *ret_number = strtoull(text, &end, 10);
    return end == text || text[0] < '0' || text[0] > '9' || errno || *ret_number > STEPS_MAX ? NULL
                                                                                             : end;
}

static int read_steps(const struct arguments *arguments, struct wanted *ret_wanted,
                      struct error *error)
{
    const char *text = arguments_text(arguments, "steps", NULL);
    struct wanted wanted = {.newest = true, .count = STEPS_DEFAULT};

    if (text) {
        const char *end = read_number(text, &wanted.count);
        wanted.newest = end && !end[0];
        if (end && !strncmp(end, "..", 2)) {
            wanted.from = wanted.count;
            end = read_number(end + 2, &wanted.to);
        }
        if (!end || end[0] || (wanted.newest && !wanted.count) ||
            (!wanted.newest && wanted.from > wanted.to)) {
            error_set(error, -EINVAL,
                      "--steps: \"%s\" is neither a number of steps, such as 20, nor a range, such "
                      "as 100..120",
                      text);
            return COMMAND_USAGE;
        }
    }
    *ret_wanted = wanted;
    return 0;
}

/* Resolve the newest steps, which include a step in progress and the spans behind the last step. */
static void resolve(struct wanted *wanted, uint64_t newest_step)
{
    if (!wanted->newest)
        return;
    wanted->from = newest_step >= wanted->count ? newest_step - wanted->count + 1 : 1;
    wanted->to = STEPS_MAX;
}

/* ---- missing spans ---- */

static void name_missing(struct trace_collector *collector, const struct plan *plan)
{
    for (unsigned i = 0; plan && i < plan->layout.worker_count; i++) {
        const char *node = plan->layout.workers[i].node;
        if (!cluster_find_node(collector->cluster, node, NULL))
            name_list_add(collector->silent_names, node);
    }
    if (collector->silent_names[0])
        fprintf(stderr, "firnctl: no answer from %s: the spans of their workers are missing\n",
                collector->silent_names);
    for (size_t i = 0; i < collector->set.worker_count; i++) {
        const struct trace_worker *worker = &collector->set.workers[i];
        if (worker->entry.problem[0])
            fprintf(stderr, "firnctl: a trace of slot %u on node %s is left out: %s\n",
                    worker->entry.slot, collector->set.nodes[worker->node], worker->entry.problem);
    }
}

static int check_any(const struct trace_collector *collector, const struct wanted *wanted,
                     struct error *error)
{
    uint64_t newest = trace_set_newest_step(&collector->set);

    if (collector->set.span_count)
        return 0;
    if (!collector->set.worker_count)
        return error_set(error, -ENOENT,
                         "no node that answers has a trace of job %s: no worker of it has run "
                         "there%s",
                         collector->job,
                         collector->silent_names[0] ? "; start the nodes that do not answer" : "");
    return error_set(error, -ENODATA,
                     "no span of steps %" PRIu64 " to %" PRIu64 " of job %s is left: the newest "
                     "step is %" PRIu64 ", and a worker keeps its last %u spans; try --steps %u",
                     wanted->from, wanted->newest ? newest : wanted->to, collector->job, newest,
                     TRACE_RING_SPANS, STEPS_DEFAULT);
}

/* ---- the output ---- */

static size_t workers_with_spans(const struct trace_set *set)
{
    size_t count = 0;

    for (size_t i = 0; i < set->worker_count; i++)
        count += set->workers[i].span_count > 0;
    return count;
}

static void print_summary(const struct trace_set *set, const char *path)
{
    struct trace_range range = trace_set_range(set);
    size_t workers = workers_with_spans(set);

    printf("%zu spans of %zu worker%s, steps %" PRIu64 " to %" PRIu64
           ", are in %s; ui.perfetto.dev opens it\n",
           set->span_count, workers, plural(workers), range.first_step, range.last_step, path);
}

static int write_trace(const struct trace_collector *collector, const char *path,
                       struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    int status = trace_json_append(collector->job, &collector->set, &collector->events, &text);

    if (status)
        return error_set(error, status, "no memory for the trace; ask for fewer --steps");
    if (!path) {
        fwrite(text.data, 1, text.size_bytes, stdout);
        return 0;
    }
    status = output_file(path, text.data, text.size_bytes, error);
    if (!status)
        print_summary(&collector->set, path);
    return status;
}

/* ---- the command ---- */

static int collect(struct trace_collector *collector, const struct cluster_job *job,
                   struct wanted *wanted, struct error *error)
{
    int status = trace_collector_list(collector, error);

    if (status)
        return status;
    resolve(wanted, trace_set_newest_step(&collector->set));
    status = trace_collector_spans(collector, wanted->from, wanted->to, error);
    if (status)
        return status;
    trace_set_trim(&collector->set, wanted->from <= 1);
    name_missing(collector, cluster_job_over(job) ? NULL : job->plan);
    status = check_any(collector, wanted, error);
    return status ? status
                  : trace_collector_events(collector, trace_set_range(&collector->set).begin_ns,
                                           error);
}

static int check_output(const char *path, const char *job, struct error *error)
{
    if (path || !isatty(STDOUT_FILENO))
        return 0;
    error_set(error, -EINVAL,
              "a trace is a long JSON text for ui.perfetto.dev, not for a terminal: add --output "
              "%s.json",
              job);
    return COMMAND_USAGE;
}

int run_trace(const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    CLEANUP(trace_collector_done)
    struct trace_collector collector = {
        .client = &client, .cluster = &cluster, .job = arguments->operands[0]};
    const char *path = arguments_text(arguments, "output", NULL);
    struct wanted wanted;
    int status = read_steps(arguments, &wanted, error);

    if (!status)
        status = check_output(path, collector.job, error);
    if (!status)
        status = cluster_open(arguments, &client, &cluster, error);
    if (status)
        return status;
    const struct cluster_job *job = cluster_find_job(&cluster, collector.job, error);
    if (!job)
        return -ENOENT;
    status = collect(&collector, job, &wanted, error);
    return status ? status : write_trace(&collector, path, error);
}
