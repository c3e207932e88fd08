#include "capture.h"

#include <assert.h>

#include <memory>
#include <vector>

#include "streams.h"

struct emulator_graph {
    std::vector<std::function<void()>> calls;
};

struct emulator_graph_exec {
    std::vector<std::function<void()>> calls;
};

static cudaStream_t capturing; /* one at a time */
static emulator_graph *captured;
static bool invalid, failing;
static unsigned replays;

void emulator_captures_fail(bool fail)
{
    failing = fail;
}

unsigned emulator_replays(void)
{
    return replays;
}

bool capture_takes(cudaStream_t stream, const std::function<void()> &call)
{
    if (stream != capturing || stream == nullptr)
        return false;
    captured->calls.push_back(call);
    return true;
}

void emulator_take_call(void *stream, void (*call)(void *context), void *context,
                        void (*drop)(void *context))
{
    std::shared_ptr<void> kept(context, drop);
    stream_takes((cudaStream_t)stream, [call, kept] { call(kept.get()); });
}

bool capture_refuses(void)
{
    invalid = capturing != nullptr;
    return invalid;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    assert(stream != nullptr && capturing == nullptr);
    capturing = stream;
    captured = new emulator_graph();
    invalid = failing;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret_graph)
{
    assert(stream == capturing);
    capturing = nullptr;
    if (!invalid) {
        *ret_graph = captured;
        return cudaSuccess;
    }
    delete captured;
    *ret_graph = nullptr;
    return cudaErrorStreamCaptureInvalidated;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret_exec, cudaGraph_t graph, unsigned long long)
{
    *ret_exec = new emulator_graph_exec{graph->calls};
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    replays++;
    for (const std::function<void()> &call : exec->calls)
        stream_takes(stream, call);
    return cudaSuccess;
}
