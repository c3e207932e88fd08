/*
 * The file in which one worker keeps the spans of its last steps, and firnd's queries on it.
 *
 *     head     TRACE_RING_HEAD_BYTES, a struct trace_head at its beginning
 *     spans    TRACE_RING_SPANS places; the span with number n is in place (n - 1) %
 * TRACE_RING_SPANS
 *
 * The worker maps the file and overwrites the oldest span with the newest, so that the spans of its
 * last seconds survive its SIGKILL (worker/trace/recorder.h). All other processes only read: every
 * span carries a checksum, so a reader needs no lock and trusts only the constants of this header.
 *
 * A node keeps TRACE_RINGS_MAX rings of each slot and job: those of the present worker and of
 * earlier ones on that slot. A person asks for the spans of a dead worker when the next one is
 * already running.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"
#include "elastic/messages/trace_span.h"

#define TRACE_RING_VERSION    1
#define TRACE_RING_SPANS      32768u /* several hundred steps of a small job */
#define TRACE_RING_HEAD_BYTES 4096u
#define TRACE_RING_BYTES      (TRACE_RING_HEAD_BYTES + TRACE_RING_SPANS * sizeof(struct trace_span))
#define TRACE_RINGS_MAX       3u /* of one slot and job, 6 MiB */
#define TRACE_RING_NAME_SIZE  32u

/* The part of the head that changes. There are two, written in turn: one is whole at any moment.
 */
struct trace_live {
    int64_t unix_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC, as last compared */
    uint64_t newest_step;   /* that this worker has applied; 0: none */
    uint32_t unused;        /* 0 */
    uint32_t crc32c;        /* of all before it */
};

struct trace_head {
    char magic[8];
    uint32_t version, span_count; /* in the byte order of the node */
    uint32_t pid;                 /* of the worker */
    uint32_t crc32c;              /* of all before it */
    struct trace_live live[2];
};

/** trace_ring_name() - name the ring of the worker @age places before the present one of @slot: 0
 * is the present one */
void trace_ring_name(unsigned slot, unsigned age, char ret_name[TRACE_RING_NAME_SIZE]);

/** trace_head_init() - initialize the head of a new ring */
void trace_head_init(struct trace_head *head, unsigned pid);
/** trace_head_update() - update the head; @turn: one more than at the last update */
void trace_head_update(struct trace_head *head, unsigned turn, int64_t unix_offset_ns,
                       uint64_t newest_step);

struct trace_facts {
    unsigned pid;
    int64_t unix_offset_ns;
    uint64_t newest_step;
};

/**
 * trace_head_decode() - read the head of a ring from bytes that may be anything
 *
 * Return: 0; -EPROTO: from another version of firn; -EBADMSG: damaged, or no ring. @error has the
 * cause
 */
int trace_head_decode(const void *data, size_t size_bytes, struct trace_facts *ret_facts,
                      struct error *error) CHECK_RESULT;

struct trace_query {
    uint64_t from_step, to_step; /* inclusive; spans of step 0 always match */
    uint64_t after;              /* spans with greater numbers */
    unsigned count_max;
};

/**
 * trace_ring_select() - append the matching spans of a ring to @into, as stored, in ascending order
 * of their numbers: first its struct trace_head, then up to @query->count_max spans
 * @ring: the file's content, read at once or in parts while the worker continues
 *
 * Return: 0; errors of trace_head_decode(); -ENOMEM
 */
int trace_ring_select(const uint8_t *ring, size_t size_bytes, const struct trace_query *query,
                      struct bytes *into, struct error *error) CHECK_RESULT;
