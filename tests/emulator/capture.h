/*
 * A capture records the work of a stream instead of queueing it for execution (streams.h).
 *
 * Like a GPU's, a capture takes the launches on its stream and refuses calls that wait, allocate,
 * or copy between host and device: such a call fails, and the capture with it.
 */
#pragma once

#include <functional>

#include "cuda_runtime.h"

/** capture_takes() - @call belongs to the capture that @stream is in; false: to the stream */
bool capture_takes(cudaStream_t stream, const std::function<void()> &call);
/** capture_refuses() - Invalidate the capture in progress, for a call that no capture allows.
 * Return true: a capture was in progress, the call fails with cudaErrorStreamCaptureUnsupported */
bool capture_refuses(void);
