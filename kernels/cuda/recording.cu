/*
 * Recordings as CUDA graphs: the compute queue captures its launches, and a launch of the graph's
 * instance repeats all of them. There is one capture at a time, with only kernels, copies inside
 * the device and memsets.
 *
 * The capture mode is thread-local, so the thread that aborts communicators is not affected. A
 * failed capture has executed nothing and is not a failure of the device.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/device.cuh"

struct kernel_recording {
    cudaGraphExec_t graph;
};

bool cuda_recordings_wanted(void)
{
    const char *graphs = getenv("FIRN_CUDA_GRAPHS");
    return graphs == NULL || strcmp(graphs, "off") != 0;
}

static int refused(struct error *error, const char *call, cudaError_t result)
{
    (void)cudaGetLastError(); /* not a failure of the next launch */
    return error_set(error, -EIO, "%s: %s", call, cudaGetErrorString(result));
}

int cuda_record_begin(struct kernel_device *device, struct error *error)
{
    if (!device->records)
        return -ENOTSUP;
    if (device->failure != cudaSuccess)
        return error_set(error, -EIO, "the device has failed");
    cudaError_t result =
        cudaStreamBeginCapture(device_stream(device), cudaStreamCaptureModeThreadLocal);
    return result == cudaSuccess ? 0 : refused(error, "cudaStreamBeginCapture", result);
}

/* Instantiate @graph, and free it in any case. */
static int instantiate(cudaGraph_t graph, struct kernel_recording **ret_recording,
                       struct error *error)
{
    struct kernel_recording *recording = (struct kernel_recording *)calloc(1, sizeof(*recording));
    cudaError_t result = recording == NULL ? cudaErrorMemoryAllocation
                                           : cudaGraphInstantiate(&recording->graph, graph, 0);

    (void)cudaGraphDestroy(graph);
    if (result != cudaSuccess) {
        free(recording);
        return refused(error, "cudaGraphInstantiate", result);
    }
    *ret_recording = recording;
    return 0;
}

int cuda_record_end(struct kernel_device *device, struct kernel_recording **ret_recording,
                    struct error *error)
{
    cudaGraph_t graph = NULL;
    cudaError_t result = cudaStreamEndCapture(device_stream(device), &graph);

    if (result == cudaSuccess && device->failure != cudaSuccess) {
        (void)cudaGraphDestroy(graph);
        result = device->failure;
    }
    device->failure = cudaSuccess;
    device->failure_text[0] = '\0';
    return result == cudaSuccess ? instantiate(graph, ret_recording, error)
                                 : refused(error, "cudaStreamEndCapture", result);
}

void cuda_replay(struct kernel_device *device, const struct kernel_recording *recording)
{
    device_note(device, cudaGraphLaunch(recording->graph, device_stream(device)), "a replay");
}

void cuda_recording_free(struct kernel_device *device, struct kernel_recording *recording)
{
    if (recording == NULL)
        return;
    device_note(device, cudaGraphExecDestroy(recording->graph), "freeing a recording");
    free(recording);
}
