/* A ring of spans, as firnd finds it on its disk, and as firnctl reads an answer. The first byte
 * says whether the checksums are repaired, so that damage behind them is read, too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/report/trace_json.h"
#include "elastic/messages/trace_entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SPANS_MAX 64

/* Return the ring that @data describes: head, and spans in the first places. */
static uint8_t *make_ring(const uint8_t *data, size_t size, size_t *ret_size)
{
    bool mends = size && data[0] & 1;
    size_t head_bytes = size < 1 ? 0 : size - 1;
    struct trace_head head;

    head_bytes = MIN(head_bytes, sizeof(head));
    size_t rest = size < 1 ? 0 : size - 1 - head_bytes;
    uint8_t *ring = calloc(1, TRACE_RING_HEAD_BYTES + rest);
    if (!ring)
        abort();
    if (size)
        memcpy(ring, data + 1, head_bytes);
    if (mends) {
        memcpy(&head, ring, sizeof(head));
        int64_t offset_ns = head.live[0].unix_offset_ns;
        uint64_t newest_step = head.live[0].newest_step;
        trace_head_init(&head, head.pid);
        trace_head_update(&head, 0, offset_ns, newest_step);
        memcpy(ring, &head, sizeof(head));
    }
    if (rest)
        memcpy(ring + TRACE_RING_HEAD_BYTES, data + 1 + head_bytes, rest);
    for (size_t at = 0; mends && at + sizeof(struct trace_span) <= rest;
         at += sizeof(struct trace_span)) {
        struct trace_span span;
        memcpy(&span, ring + TRACE_RING_HEAD_BYTES + at, sizeof(span));
        trace_span_seal(&span);
        memcpy(ring + TRACE_RING_HEAD_BYTES + at, &span, sizeof(span));
    }
    *ret_size = TRACE_RING_HEAD_BYTES + rest;
    return ring;
}

static void check_numbers(const struct bytes *answer)
{
    uint64_t last = 0;

    for (size_t at = sizeof(struct trace_head); at < answer->size_bytes;
         at += sizeof(struct trace_span)) {
        struct trace_span span;
        if (!trace_span_decode(answer->data + at, &span) || span.number <= last)
            abort();
        last = span.number;
    }
}

static void check_set(const uint8_t *data, size_t size)
{
    struct trace_set set = {0};
    struct event_list events = {0};
    struct bytes text = {0};
    struct error error = {0};
    bool more;
    static const char list[] =
        "{\"slot\":0,\"age\":0,\"pid\":1,\"newest_step\":1,\"problem\":\"\"}\n";

    if (trace_set_add_node(&set, "a") || trace_set_list(&set, list, sizeof(list) - 1) ||
        trace_set_take(&set, &set.workers[0], data, size, &more, &error))
        abort();
    trace_set_trim(&set, false);
    struct trace_range range = trace_set_range(&set);
    if (range.begin_ns > range.end_ns || trace_json_append("job", &set, &events, &text))
        abort();
    bytes_done(&text);
    trace_set_done(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct trace_query query = {.to_step = UINT64_MAX, .count_max = SPANS_MAX};
    struct trace_entry entry;
    struct error error = {0};
    struct bytes answer = {0};
    size_t ring_bytes;
    uint8_t *ring = make_ring(data, size, &ring_bytes);

    if (trace_ring_select(ring, ring_bytes, &query, &answer, &error) && error.text[0] == '\0')
        abort();
    if (answer.size_bytes > sizeof(struct trace_head) + SPANS_MAX * sizeof(struct trace_span))
        abort();
    check_numbers(&answer);
    check_set(answer.data, answer.size_bytes);
    check_set(data, size);
    if (trace_entry_parse((const char *)data, size, &entry, &error) && error.text[0] == '\0')
        abort();
    bytes_done(&answer);
    free(ring);
    return 0;
}
