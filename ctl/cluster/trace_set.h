/*
 * The spans of a job's workers, as nodes have sent them (elastic/messages/trace_ring.h), with times
 * of day: workers of different nodes line up as well as the clocks of their nodes.
 *
 * Answers are checked: damaged spans are skipped, and a worker whose spans cannot be read gets a
 * `problem` with the reason.
 */
#pragma once

#include "base/name.h"
#include "elastic/messages/trace_entry.h"
#include "elastic/messages/trace_ring.h"

#define TRACE_SET_SPANS_MAX ((size_t)1 << 20) /* 64 MiB, and four times that as JSON */

struct trace_worker {
    size_t node; /* index */
    struct trace_entry entry;
    struct trace_span *spans; /* begin_ns: since 1970 */
    size_t span_count, span_capacity;
    uint64_t last_number; /* of the spans that the node has sent */
};

struct trace_set {
    char (*nodes)[NAME_SIZE];
    size_t node_count;
    struct trace_worker *workers; /* by node, slot and age */
    size_t worker_count;
    size_t span_count; /* of all workers */
};

void trace_set_done(struct trace_set *set);

/** trace_set_add_node() - begin a node, to which workers listed from now on belong. Return: 0 or
 * -ENOMEM */
int trace_set_add_node(struct trace_set *set, const char *name) CHECK_RESULT;
/** trace_set_list() - add the workers of a node's list, JSON Lines; skip malformed lines. Return: 0
 * or -ENOMEM */
int trace_set_list(struct trace_set *set, const char *text, size_t size_bytes) CHECK_RESULT;

/**
 * trace_set_take() - add an answer of trace_ring_select() to the spans of @worker
 * @ret_more: the answer had spans, so there may be more
 *
 * A malformed answer sets the problem of @worker and is not an error.
 *
 * Return: 0; -ENOMEM; -EFBIG: more than TRACE_SET_SPANS_MAX spans in all
 */
int trace_set_take(struct trace_set *set, struct trace_worker *worker, const uint8_t *data,
                   size_t size_bytes, bool *ret_more, struct error *error) CHECK_RESULT;

/** trace_set_newest_step() - return the newest step that a worker has applied; 0: none */
uint64_t trace_set_newest_step(const struct trace_set *set);

/** trace_set_trim() - drop the spans of no step that lie behind the last step, or, unless
 * @from_start, before the first one: they belong to workers that started later or long ago */
void trace_set_trim(struct trace_set *set, bool from_start);

struct trace_range {
    uint64_t begin_ns, end_ns;      /* since 1970 */
    uint64_t first_step, last_step; /* of complete steps */
    bool has_steps;
};

/** trace_set_range() - return the times and steps that all spans together cover; zeros: no spans */
struct trace_range trace_set_range(const struct trace_set *set);
