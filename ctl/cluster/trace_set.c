#include "ctl/cluster/trace_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void trace_set_done(struct trace_set *set)
{
    for (size_t i = 0; i < set->worker_count; i++)
        free(set->workers[i].spans);
    free(set->workers);
    free(set->nodes);
    *set = (struct trace_set){0};
}

int trace_set_add_node(struct trace_set *set, const char *name)
{
    char(*nodes)[NAME_SIZE] = reallocarray(set->nodes, set->node_count + 1, sizeof(*nodes));

    if (!nodes)
        return -ENOMEM;
    set->nodes = nodes;
    snprintf(nodes[set->node_count++], NAME_SIZE, "%s", name);
    return 0;
}

static int add_worker(struct trace_set *set, const struct trace_entry *entry)
{
    struct trace_worker *workers =
        reallocarray(set->workers, set->worker_count + 1, sizeof(*workers));

    if (!workers)
        return -ENOMEM;
    set->workers = workers;
    workers[set->worker_count++] =
        (struct trace_worker){.node = set->node_count - 1, .entry = *entry};
    return 0;
}

int trace_set_list(struct trace_set *set, const char *text, size_t size_bytes)
{
    const char *end;
    int status = 0;

    for (size_t at = 0;
         status != -ENOMEM && at < size_bytes && (end = memchr(text + at, '\n', size_bytes - at));
         at = (size_t)(end - text) + 1) {
        struct trace_entry entry;
        status = trace_entry_parse(text + at, (size_t)(end - (text + at)), &entry, NULL);
        if (!status)
            status = add_worker(set, &entry);
    }
    return status == -ENOMEM ? status : 0;
}

/* Turn the node's monotonic time into the time of day. */
static bool set_date(struct trace_span *span, int64_t unix_offset_ns)
{
    int64_t begin_ns, end_ns;

    if (__builtin_add_overflow((int64_t)span->begin_ns, unix_offset_ns, &begin_ns) ||
        begin_ns < 0 || __builtin_add_overflow(begin_ns, (int64_t)span->duration_ns, &end_ns))
        return false;
    span->begin_ns = (uint64_t)begin_ns;
    return true;
}

static int append(struct trace_set *set, struct trace_worker *worker, const struct trace_span *span,
                  struct error *error)
{
    if (set->span_count == TRACE_SET_SPANS_MAX)
        return error_set(error, -EFBIG, "the trace has more than %zu spans; ask for fewer --steps",
                         TRACE_SET_SPANS_MAX);
    if (worker->span_count == worker->span_capacity) {
        size_t capacity = MAX(2 * worker->span_capacity, (size_t)256);
        struct trace_span *spans = reallocarray(worker->spans, capacity, sizeof(*spans));
        if (!spans)
            return error_set(error, -ENOMEM, "no memory for the trace");
        worker->spans = spans;
        worker->span_capacity = capacity;
    }
    worker->spans[worker->span_count++] = *span;
    set->span_count++;
    return 0;
}

int trace_set_take(struct trace_set *set, struct trace_worker *worker, const uint8_t *data,
                   size_t size_bytes, bool *ret_more, struct error *error)
{
    struct error problem = {0};
    struct trace_facts facts;
    struct trace_span span;

    *ret_more = false;
    if (trace_head_decode(data, size_bytes, &facts, &problem)) {
        snprintf(worker->entry.problem, sizeof(worker->entry.problem), "%.*s",
                 TRACE_PROBLEM_SIZE - 1, problem.text);
        return 0;
    }
    for (size_t at = sizeof(struct trace_head); size_bytes - at >= sizeof(span);
         at += sizeof(span)) {
        if (!trace_span_decode(data + at, &span) || span.number <= worker->last_number)
            continue;
        worker->last_number = span.number;
        *ret_more = true;
        int status = set_date(&span, facts.unix_offset_ns) ? append(set, worker, &span, error) : 0;
        if (status)
            return status;
    }
    return 0;
}

uint64_t trace_set_newest_step(const struct trace_set *set)
{
    uint64_t newest = 0;

    for (size_t i = 0; i < set->worker_count; i++)
        newest = MAX(newest, set->workers[i].entry.newest_step);
    return newest;
}

/* Find the time of the steps, and of the spans that led to them. */
static void find_steps(const struct trace_set *set, uint64_t *ret_begin_ns, uint64_t *ret_end_ns)
{
    uint64_t begin_ns = UINT64_MAX, end_ns = 0;

    for (size_t i = 0; i < set->worker_count; i++)
        for (size_t k = 0; k < set->workers[i].span_count; k++) {
            const struct trace_span *span = &set->workers[i].spans[k];
            if (!span->step)
                continue;
            begin_ns = MIN(begin_ns, span->begin_ns);
            end_ns = MAX(end_ns, span->begin_ns + span->duration_ns);
        }
    *ret_begin_ns = begin_ns;
    *ret_end_ns = end_ns;
}

void trace_set_trim(struct trace_set *set, bool from_start)
{
    uint64_t begin_ns, end_ns;

    find_steps(set, &begin_ns, &end_ns);
    for (size_t i = 0; i < set->worker_count; i++) {
        struct trace_worker *worker = &set->workers[i];
        size_t kept = 0;
        for (size_t k = 0; k < worker->span_count; k++) {
            const struct trace_span *span = &worker->spans[k];
            bool early = !from_start && span->begin_ns + span->duration_ns < begin_ns;
            if (span->step || (!early && span->begin_ns <= end_ns))
                worker->spans[kept++] = *span;
        }
        set->span_count -= worker->span_count - kept;
        worker->span_count = kept;
    }
}

static void widen(struct trace_range *range, const struct trace_span *span, bool first)
{
    uint64_t end_ns = span->begin_ns + span->duration_ns;

    range->begin_ns = first ? span->begin_ns : MIN(range->begin_ns, span->begin_ns);
    range->end_ns = MAX(range->end_ns, end_ns);
    if (span->kind != TRACE_STEP || span->broken)
        return;
    range->first_step = range->has_steps ? MIN(range->first_step, span->step) : span->step;
    range->last_step = MAX(range->last_step, span->step);
    range->has_steps = true;
}

struct trace_range trace_set_range(const struct trace_set *set)
{
    struct trace_range range = {0};
    bool first = true;

    for (size_t i = 0; i < set->worker_count; i++)
        for (size_t k = 0; k < set->workers[i].span_count; k++) {
            widen(&range, &set->workers[i].spans[k], first);
            first = false;
        }
    return range;
}
