#include "elastic/messages/trace_ring.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define MAGIC "FIRNTRAC"

static_assert(sizeof(struct trace_head) <= TRACE_RING_HEAD_BYTES, "the head has its place");

void trace_ring_name(unsigned slot, unsigned age, char ret_name[TRACE_RING_NAME_SIZE])
{
    if (age)
        snprintf(ret_name, TRACE_RING_NAME_SIZE, "trace-%u.%u.ring", slot, age);
    else
        snprintf(ret_name, TRACE_RING_NAME_SIZE, "trace-%u.ring", slot);
}

static uint32_t head_checksum(const struct trace_head *head)
{
    return hash_crc32c(0, head, offsetof(struct trace_head, crc32c));
}

static uint32_t live_checksum(const struct trace_live *live)
{
    return hash_crc32c(0, live, offsetof(struct trace_live, crc32c));
}

void trace_head_init(struct trace_head *head, unsigned pid)
{
    memset(head, 0, sizeof(*head));
    memcpy(head->magic, MAGIC, sizeof(head->magic));
    head->version = TRACE_RING_VERSION;
    head->span_count = TRACE_RING_SPANS;
    head->pid = pid;
    head->crc32c = head_checksum(head);
}

void trace_head_update(struct trace_head *head, unsigned turn, int64_t unix_offset_ns,
                       uint64_t newest_step)
{
    struct trace_live live = {.unix_offset_ns = unix_offset_ns, .newest_step = newest_step};

    live.crc32c = live_checksum(&live);
    head->live[turn % ARRAY_COUNT(head->live)] = live;
}

static const struct trace_live *find_live(const struct trace_head *head)
{
    const struct trace_live *found = NULL;

    for (size_t i = 0; i < ARRAY_COUNT(head->live); i++)
        if (head->live[i].crc32c == live_checksum(&head->live[i]) &&
            (!found || head->live[i].newest_step > found->newest_step))
            found = &head->live[i];
    return found;
}

int trace_head_decode(const void *data, size_t size_bytes, struct trace_facts *ret_facts,
                      struct error *error)
{
    struct trace_head head;

    if (size_bytes < sizeof(head))
        return error_set(error, -EBADMSG, "%zu bytes are too few for a trace", size_bytes);
    memcpy(&head, data, sizeof(head));
    if (memcmp(head.magic, MAGIC, sizeof(head.magic)) != 0)
        return error_set(error, -EBADMSG, "the head of the trace is damaged");
    if (head.version != TRACE_RING_VERSION || head.span_count != TRACE_RING_SPANS)
        return error_set(error, -EPROTO,
                         "the trace has format %u with %u spans; this firn reads format %u with %u",
                         head.version, head.span_count, TRACE_RING_VERSION, TRACE_RING_SPANS);
    const struct trace_live *live = find_live(&head);
    if (head.crc32c != head_checksum(&head) || !live)
        return error_set(error, -EBADMSG, "the head of the trace is damaged");
    *ret_facts = (struct trace_facts){
        .pid = head.pid, .unix_offset_ns = live->unix_offset_ns, .newest_step = live->newest_step};
    return 0;
}

/* Return the number of places; a ring that the worker has just begun may still be short. */
static unsigned places(size_t size_bytes)
{
    size_t count = size_bytes < TRACE_RING_HEAD_BYTES
                       ? 0
                       : (size_bytes - TRACE_RING_HEAD_BYTES) / sizeof(struct trace_span);

    return (unsigned)MIN(count, (size_t)TRACE_RING_SPANS);
}

static bool read_place(const uint8_t *ring, unsigned place, struct trace_span *ret_span)
{
    return trace_span_decode(ring + TRACE_RING_HEAD_BYTES +
                                 (size_t)place * sizeof(struct trace_span),
                             ret_span) &&
           (ret_span->number - 1) % TRACE_RING_SPANS == place;
}

static uint64_t newest_number(const uint8_t *ring, unsigned count)
{
    struct trace_span span;
    uint64_t newest = 0;

    for (unsigned place = 0; place < count; place++)
        if (read_place(ring, place, &span))
            newest = MAX(newest, span.number);
    return newest;
}

static bool matches(const struct trace_span *span, const struct trace_query *query)
{
    return span->number > query->after &&
           (!span->step || (span->step >= query->from_step && span->step <= query->to_step));
}

int trace_ring_select(const uint8_t *ring, size_t size_bytes, const struct trace_query *query,
                      struct bytes *into, struct error *error)
{
    struct trace_facts facts;
    struct trace_span span;
    unsigned count = places(size_bytes), found = 0;
    int status = trace_head_decode(ring, size_bytes, &facts, error);

    if (status)
        return status;
    status = bytes_append(into, ring, sizeof(struct trace_head));
    uint64_t newest = newest_number(ring, count);
    for (unsigned i = 0; !status && i < TRACE_RING_SPANS && found < query->count_max; i++) {
        unsigned place = (unsigned)((newest + i) % TRACE_RING_SPANS); /* the oldest first */
        /* A span of an earlier turn of the ring may lie behind a damaged one. */
        if (place >= count || !read_place(ring, place, &span) ||
            newest - span.number >= TRACE_RING_SPANS || !matches(&span, query))
            continue;
        status = bytes_append(into, &span, sizeof(span));
        found++;
    }
    return status ? error_set(error, status, "no memory for a trace") : 0;
}
