#include "streams.h"

#include <assert.h>

#include <deque>
#include <set>

#include "capture.h"

struct emulator_stream {
    std::deque<std::function<void()>> waiting;
    unsigned long posted, done; /* calls */
    int priority;
};

struct emulator_event {
    emulator_stream *stream; /* NULL: not recorded */
    unsigned long position;  /* so many calls of the stream come before it */
    bool looked;             /* queried before it had passed */
};

static std::set<emulator_stream *> streams;
static bool carrying_out = true;

void emulator_carries_out(bool carrying)
{
    carrying_out = carrying;
}

static void carry_out(emulator_stream *stream, unsigned long position)
{
    while (stream->done < position) {
        std::function<void()> call = std::move(stream->waiting.front());
        stream->waiting.pop_front();
        call();
        stream->done++;
    }
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *ret_priority)
{
    *ret_priority = stream->priority;
    return cudaSuccess;
}

cudaStream_t stream_new(int priority)
{
    emulator_stream *stream = new emulator_stream();
    stream->priority = priority;
    streams.insert(stream);
    return stream;
}

void stream_free(cudaStream_t stream)
{
    streams_carry_out(); /* others may wait for it */
    streams.erase(stream);
    delete stream;
}

void stream_takes(cudaStream_t stream, const std::function<void()> &call)
{
    if (!carrying_out || capture_takes(stream, call))
        return;
    stream->waiting.push_back(call);
    stream->posted++;
}

void streams_carry_out(void)
{
    for (emulator_stream *stream : streams)
        carry_out(stream, stream->posted);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (capture_refuses())
        return cudaErrorStreamCaptureUnsupported;
    carry_out(stream, stream->posted);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    emulator_stream *other = event->stream;
    unsigned long position = event->position; /* as it is recorded now */

    if (other != nullptr && other != stream)
        stream_takes(stream, [=] { carry_out(other, position); });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned)
{
    *ret_event = new emulator_event();
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (capture_refuses())
        return cudaErrorStreamCaptureUnsupported;
    *event = {stream, stream->posted, false};
    return cudaSuccess;
}

static bool has_passed(cudaEvent_t event)
{
    return event->stream == nullptr || streams.count(event->stream) == 0 ||
           event->stream->done >= event->position;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (!has_passed(event))
        carry_out(event->stream, event->position);
    return cudaSuccess;
}

/* The first query never reports completion: a host that takes completion for granted is wrong. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (has_passed(event))
        return cudaSuccess;
    if (!event->looked) {
        event->looked = true;
        return cudaErrorNotReady;
    }
    return cudaEventSynchronize(event);
}
