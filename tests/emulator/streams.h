/*
 * Streams of the emulator: as late as a GPU may be. What is put on a stream is carried out when
 * somebody waits for it, or looks at an event twice, and no sooner; what an event does not order
 * runs in the order in which it is waited for. So the host finds the old bytes where it reads
 * before it has waited, and a stream where it does not wait for another one.
 *
 * A device runs what is put on it without anybody's waiting; here what nobody waits for is carried
 * out when memory is given back or the stream ends, which wait for the device on a real one, too.
 */
#pragma once

#include <functional>

#include "cuda_runtime.h"

cudaStream_t stream_new(void);
/** stream_free() - carries out what is left */
void stream_free(cudaStream_t stream);

/** stream_takes() - @call, now in its place on @stream, or in the capture that the stream is in */
void stream_takes(cudaStream_t stream, const std::function<void()> &call);

/** streams_carry_out() - everything on every stream, as calls do that wait for the device */
void streams_carry_out(void);
