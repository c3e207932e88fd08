/* Rings as workers write them, in memory. */
#pragma once

#include <stdint.h>

#include "elastic/messages/trace_ring.h"

#define TRACE_SAMPLE_OFFSET_NS 1000000000000000000 /* from monotonic time to that of day */

/** trace_sample_new() - make a ring of a worker with process 77 that has applied @newest_step:
 * spans numbered from 1 on. The caller frees it */
uint8_t *trace_sample_new(uint64_t newest_step);

/** trace_sample_add() - store span @number, of @step: it begins at @number microseconds and takes
 * one. Return the span in the ring */
struct trace_span *trace_sample_add(uint8_t *ring, uint64_t number, enum trace_kind kind,
                                    uint64_t step);
