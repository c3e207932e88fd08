#include "elastic/messages/trace_span.h"

#include <stddef.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"

static_assert(sizeof(struct trace_span) == 64, "a span is one cache line");
static_assert(offsetof(struct trace_span, crc32c) == 60, "the checksum covers all that is before");

static uint32_t checksum(const struct trace_span *span)
{
    return hash_crc32c(0, span, offsetof(struct trace_span, crc32c));
}

void trace_span_seal(struct trace_span *span)
{
    span->crc32c = checksum(span);
}

bool trace_span_decode(const void *data, struct trace_span *ret_span)
{
    struct trace_span span;
    uint64_t end_ns;

    memcpy(&span, data, sizeof(span));
    if (!span.number || span.crc32c != checksum(&span) ||
        __builtin_add_overflow(span.begin_ns, span.duration_ns, &end_ns) ||
        end_ns > (uint64_t)INT64_MAX)
        return false;
    *ret_span = span;
    return true;
}

const char *trace_span_word(unsigned kind)
{
    static const char *const words[] = {
        [TRACE_STEP] = "step",
        [TRACE_DATA] = "read samples",
        [TRACE_FORWARD] = "forward",
        [TRACE_BACKWARD] = "backward",
        [TRACE_VALIDATION] = "validation",
        [TRACE_LOSS] = "read loss",
        [TRACE_WAIT_ACTIVATIONS] = "wait for activations",
        [TRACE_WAIT_GRADIENTS] = "wait for gradients",
        [TRACE_SEND] = "send",
        [TRACE_WAIT_SENT] = "wait until sent",
        [TRACE_REDUCE] = "reduce",
        [TRACE_NORM] = "norm and digests",
        [TRACE_COMMIT] = "commit",
        [TRACE_OPTIMIZER] = "optimizer",
        [TRACE_METRICS] = "metrics",
        [TRACE_SNAPSHOT] = "snapshot",
        [TRACE_VOTE] = "vote on checkpoint",
        [TRACE_WRITE] = "write checkpoint",
        [TRACE_FINAL_CHECKPOINT] = "final checkpoint",
        [TRACE_PAUSE] = "switch of generations",
        [TRACE_DEVICE] = "open device",
        [TRACE_OPEN_DATA] = "open data",
        [TRACE_READ_STATE] = "read state",
        [TRACE_LINKS] = "open links",
        [TRACE_HANDOVER] = "receive state",
        [TRACE_BUILD] = "build engine",
        [TRACE_FROZEN] = "frozen units",
        [TRACE_WEIGHTS] = "weight gradients",
        [TRACE_WAIT_HEAD] = "wait for the head of a lane",
    };

    return kind < ARRAY_COUNT(words) && words[kind] ? words[kind] : "other";
}
