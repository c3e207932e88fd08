#include "ctl/report/trace_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"

#define THREADS_PER_WORKER 2

struct writer {
    const struct trace_set *set;
    struct trace_range range;
    struct bytes *into;
    bool begun; /* an entry was written: the next one needs a comma */
};

/* ---- places ---- */

static unsigned process_of(size_t node)
{
    return (unsigned)node + 1;
}

static unsigned thread_of(const struct trace_worker *worker, bool aside)
{
    return 1 + (worker->entry.slot * TRACE_RINGS_MAX + worker->entry.age) * THREADS_PER_WORKER +
           aside;
}

/* Return whether the span runs beside steps, as the writing of a share does. */
static bool is_aside(const struct trace_span *span)
{
    return span->kind == TRACE_WRITE;
}

static const char *category_of(unsigned kind)
{
    switch (kind) {
    case TRACE_FORWARD:
    case TRACE_BACKWARD:
    case TRACE_VALIDATION:
    case TRACE_FROZEN:
    case TRACE_WEIGHTS:
    case TRACE_NORM:
    case TRACE_OPTIMIZER:
        return "compute";
    case TRACE_WAIT_ACTIVATIONS:
    case TRACE_WAIT_GRADIENTS:
    case TRACE_WAIT_SENT:
    case TRACE_WAIT_HEAD:
    case TRACE_LOSS:
        return "wait";
    case TRACE_SEND:
    case TRACE_REDUCE:
    case TRACE_COMMIT:
        return "exchange";
    case TRACE_SNAPSHOT:
    case TRACE_VOTE:
    case TRACE_WRITE:
    case TRACE_FINAL_CHECKPOINT:
        return "checkpoint";
    case TRACE_PAUSE:
    case TRACE_LINKS:
    case TRACE_HANDOVER:
    case TRACE_BUILD:
    case TRACE_DEVICE:
    case TRACE_OPEN_DATA:
    case TRACE_READ_STATE:
        return "generation";
    default:
        return "step";
    }
}

/* ---- entries ---- */

static int begin_entry(struct writer *writer)
{
    bool first = !writer->begun;

    writer->begun = true;
    return bytes_append_format(writer->into, "%s", first ? "\n" : ",\n");
}

/* Append and free @tree; NULL: memory was short. */
static int append_tree(struct writer *writer, json_t *tree)
{
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    int status = text ? begin_entry(writer) : -ENOMEM;

    json_decref(tree);
    return status ? status : bytes_append_format(writer->into, "%s", text);
}

static int append_name(struct writer *writer, const char *what, unsigned process, unsigned thread,
                       const char *name)
{
    return append_tree(writer,
                       json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", what, "pid",
                                 (int)process, "tid", (int)thread, "args", "name", name));
}

static int append_rank(struct writer *writer, unsigned process, unsigned thread)
{
    return append_tree(writer, json_pack("{s:s, s:s, s:i, s:i, s:{s:i}}", "ph", "M", "name",
                                         "thread_sort_index", "pid", (int)process, "tid",
                                         (int)thread, "args", "sort_index", (int)thread));
}

/* Name a thread after the last place of its worker. */
static int append_thread(struct writer *writer, const struct trace_worker *worker, bool aside)
{
    const struct trace_span *last = &worker->spans[worker->span_count - 1];
    unsigned process = process_of(worker->node), thread = thread_of(worker, aside);
    char name[160], earlier[48] = "", place[64] = "";

    if (worker->entry.age)
        snprintf(earlier, sizeof(earlier), ", earlier process %u", worker->entry.pid);
    if (last->generation && last->stage != TRACE_NO_STAGE)
        snprintf(place, sizeof(place), ": stage %u, replica %u", last->stage, last->replica);
    snprintf(name, sizeof(name), "slot %u%s%s", worker->entry.slot, earlier,
             aside ? ": checkpoint" : place);
    int status = append_name(writer, "thread_name", process, thread, name);
    return status ? status : append_rank(writer, process, thread);
}

static int append_duration(struct writer *writer, const char *key, uint64_t duration_ns)
{
    return bytes_append_format(writer->into, ",\"%s\":%" PRIu64 ".%03" PRIu64, key,
                               (uint64_t)(duration_ns / NS_PER_US),
                               (uint64_t)(duration_ns % NS_PER_US));
}

static int append_arguments(struct writer *writer, const struct trace_span *span)
{
    int status =
        bytes_append_format(writer->into, ",\"args\":{\"step\":%" PRIu64 ",\"generation\":%" PRIu64,
                            span->step, span->generation);

    if (!status && span->generation && span->stage != TRACE_NO_STAGE)
        status = bytes_append_format(writer->into, ",\"stage\":%u,\"replica\":%u", span->stage,
                                     span->replica);
    if (!status && span->lane != TRACE_NO_LANE)
        status = bytes_append_format(writer->into, ",\"lane\":%u,\"micro_batch\":%" PRIu32,
                                     span->lane, span->micro_batch);
    if (!status && span->kind == TRACE_STEP)
        status =
            bytes_append_format(writer->into, ",\"committed\":%s", span->broken ? "false" : "true");
    return status ? status : bytes_append_format(writer->into, "}}");
}

static int append_span(struct writer *writer, const struct trace_worker *worker,
                       const struct trace_span *span)
{
    char number[24] = "";
    int status = begin_entry(writer);

    if (span->kind == TRACE_STEP)
        snprintf(number, sizeof(number), " %" PRIu64, span->step);
    if (!status)
        status = bytes_append_format(
            writer->into, "{\"ph\":\"X\",\"name\":\"%s%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u",
            trace_span_word(span->kind), number, category_of(span->kind), process_of(worker->node),
            thread_of(worker, is_aside(span)));
    if (!status)
        status = append_duration(writer, "ts", span->begin_ns - writer->range.begin_ns);
    if (!status)
        status = append_duration(writer, "dur", span->duration_ns);
    return status ? status : append_arguments(writer, span);
}

static int append_worker(struct writer *writer, const struct trace_worker *worker)
{
    bool named[THREADS_PER_WORKER] = {false};
    int status = 0;

    for (size_t i = 0; !status && i < worker->span_count; i++) {
        bool aside = is_aside(&worker->spans[i]);
        if (!named[aside])
            status = append_thread(writer, worker, aside);
        named[aside] = true;
        if (!status)
            status = append_span(writer, worker, &worker->spans[i]);
    }
    return status;
}

static int append_event(struct writer *writer, const struct event *event)
{
    size_t node = 0;

    while (node < writer->set->node_count && strcmp(writer->set->nodes[node], event->node) != 0)
        node++;
    if (event->unix_ns < writer->range.begin_ns || event->unix_ns > writer->range.end_ns ||
        node == writer->set->node_count)
        return 0;
    double at_us = (double)(event->unix_ns - writer->range.begin_ns) / NS_PER_US;
    return append_tree(writer,
                       json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:{s:s, s:I}}", "ph", "i",
                                 "s", "p", "name", event->kind, "cat", "event", "pid",
                                 (int)process_of(node), "tid", 0, "ts", at_us, "args", "text",
                                 event->text, "generation", (json_int_t)event->generation));
}

static int append_nodes(struct writer *writer)
{
    int status = 0;

    for (size_t i = 0; !status && i < writer->set->node_count; i++) {
        status = append_name(writer, "process_name", process_of(i), 0, writer->set->nodes[i]);
        if (!status)
            status = append_name(writer, "thread_name", process_of(i), 0, "events");
    }
    return status;
}

static int append_facts(struct writer *writer, const char *job)
{
    AUTO_JSON json_t *name = json_string(job);
    AUTO_FREE char *text = name ? json_text(name) : NULL;

    if (!text)
        return -ENOMEM;
    return bytes_append_format(
        writer->into,
        "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"job\":%s,\"first_step\":%" PRIu64
        ",\"last_step\":%" PRIu64 ",\"origin_unix_ns\":\"%" PRIu64 "\"},\"traceEvents\":[",
        text, writer->range.first_step, writer->range.last_step, writer->range.begin_ns);
}

int trace_json_append(const char *job, const struct trace_set *set, const struct event_list *events,
                      struct bytes *into)
{
    struct writer writer = {.set = set, .range = trace_set_range(set), .into = into};
    int status = append_facts(&writer, job);

    if (!status)
        status = append_nodes(&writer);
    for (size_t i = 0; !status && i < set->worker_count; i++)
        status = append_worker(&writer, &set->workers[i]);
    for (size_t i = 0; !status && i < events->count; i++)
        status = append_event(&writer, &events->events[i]);
    return status ? status : bytes_append_format(into, "\n]}\n");
}
