/*
 * Streams of the emulator: as late as a GPU may be. Work on a stream is carried out only when the
 * host waits for it, or queries an event twice. Work that no event orders runs in the order of the
 * waits. So a host that reads without waiting finds the old bytes, and so does a stream that does
 * not wait for another stream.
 *
 * A device carries out its work without any waiter. Here work without a waiter is carried out when
 * memory is freed or the stream ends, which wait for the device on a real GPU, too.
 */
#pragma once

#include <functional>

#include "cuda_runtime.h"

cudaStream_t stream_new(int priority);
/** stream_free() - Carry out the remaining work and free the stream */
void stream_free(cudaStream_t stream);

/** stream_takes() - @call, now in its place on @stream, or in the capture that the stream is in */
void stream_takes(cudaStream_t stream, const std::function<void()> &call);

/** streams_carry_out() - everything on every stream, as calls do that wait for the device */
void streams_carry_out(void);
