#include "lib/elastic/trace_sample.h"

#include <stdlib.h>

uint8_t *trace_sample_new(uint64_t newest_step)
{
    uint8_t *ring = calloc(1, TRACE_RING_BYTES);

    if (!ring)
        abort();
    trace_head_init((struct trace_head *)ring, 77);
    trace_head_update((struct trace_head *)ring, 0, TRACE_SAMPLE_OFFSET_NS, 0);
    trace_head_update((struct trace_head *)ring, 1, TRACE_SAMPLE_OFFSET_NS, newest_step);
    return ring;
}

struct trace_span *trace_sample_add(uint8_t *ring, uint64_t number, enum trace_kind kind,
                                    uint64_t step)
{
    struct trace_span *spans = (struct trace_span *)(ring + TRACE_RING_HEAD_BYTES);
    struct trace_span *span = &spans[(number - 1) % TRACE_RING_SPANS];

    *span = (struct trace_span){.number = number,
                                .begin_ns = number * 1000,
                                .duration_ns = 1000,
                                .step = step,
                                .generation = step > 0,
                                .lane = TRACE_NO_LANE,
                                .kind = (uint16_t)kind};
    trace_span_seal(span);
    return span;
}
