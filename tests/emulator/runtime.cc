/* Memory, streams and events of the emulator: every call has finished when it returns. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda_runtime.h"

#define ALIGNMENT 256 /* what cudaMalloc() promises */
#define POISON    0xa5

static int device_count = 1;
static bool failing;

void emulator_devices(int count)
{
    device_count = count;
}

void emulator_fail(bool fail)
{
    failing = fail;
}

cudaError_t cudaGetDeviceCount(int *ret_count)
{
    *ret_count = device_count;
    return device_count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *ret_properties, int index)
{
    snprintf(ret_properties->name, sizeof(ret_properties->name), "emulator %d", index);
    memset(&ret_properties->uuid, 0, sizeof(ret_properties->uuid)); /* no GPU: nothing for NCCL */
    ret_properties->major = 9;
    ret_properties->minor = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return failing ? cudaErrorUnknown : cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess                ? "no error"
           : error == cudaErrorNoDevice        ? "no CUDA-capable device is detected"
           : error == cudaErrorMemoryAllocation ? "out of memory"
                                                : "an emulated failure";
}

cudaError_t cudaMalloc(void **ret_memory, size_t size_bytes)
{
    if (size_bytes > (size_t)1 << 40 || posix_memalign(ret_memory, ALIGNMENT, size_bytes) != 0)
        return cudaErrorMemoryAllocation;
    memset(*ret_memory, POISON, size_bytes < 65536 ? size_bytes : 65536);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **ret_memory, size_t size_bytes)
{
    return cudaMalloc(ret_memory, size_bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size_bytes, cudaMemcpyKind,
                            cudaStream_t stream)
{
    assert(stream != nullptr); /* the default stream orders all others */
    if (size_bytes > 0)
        memmove(to, from, size_bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size_bytes, cudaStream_t stream)
{
    assert(stream != nullptr);
    if (size_bytes > 0)
        memset(memory, value, size_bytes);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret_stream, unsigned)
{
    *ret_stream = (cudaStream_t)malloc(1);
    return *ret_stream ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned)
{
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned)
{
    *ret_event = (cudaEvent_t)malloc(1);
    return *ret_event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t)
{
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}
