/* Devices and memory of the emulator. */
#include <stdio.h>
#include <stdlib.h>

#include <map>

#include "capture.h"
#include "cuda_runtime.h"
#include "device_memory.h"
#include "streams.h"

#define PINNED_ALIGNMENT 4096
#define HOST_MOST        ((size_t)1 << 40)
#define POISON           0xa5
#define POISONED_MOST    65536 /* bytes, from the beginning */

static int device_count = 1;
static bool failing;
static unsigned allocations;
static std::map<char *, size_t> pinned; /* where it begins, how many bytes */

void emulator_devices(int count)
{
    device_count = count;
}

unsigned emulator_allocations(void)
{
    return allocations;
}

void emulator_fail(bool fail)
{
    failing = fail;
}

int emulator_stream_priority(void *stream)
{
    int priority = 0;

    (void)cudaStreamGetPriority((cudaStream_t)stream, &priority);
    return priority;
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
    ret_properties->multiProcessorCount = 132;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *ret_version)
{
    *ret_version = 13000;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *ret_version)
{
    *ret_version = 13000;
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
    return error == cudaSuccess                 ? "no error"
           : error == cudaErrorNoDevice         ? "no CUDA-capable device is detected"
           : error == cudaErrorMemoryAllocation ? "out of memory"
                                                : "an emulated failure";
}

cudaError_t cudaMemGetInfo(size_t *ret_free_bytes, size_t *ret_total_bytes)
{
    *ret_free_bytes = device_memory_free(ret_total_bytes);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **ret_memory, size_t size_bytes)
{
    if (capture_refuses())
        return cudaErrorStreamCaptureUnsupported;
    void *memory = device_memory_take(size_bytes);
    allocations++;
    if (memory == nullptr)
        return cudaErrorMemoryAllocation;
    device_access access(memory, size_bytes);
    memset(memory, POISON, size_bytes < POISONED_MOST ? size_bytes : POISONED_MOST);
    *ret_memory = memory;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    streams_carry_out();
    device_memory_give(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **ret_memory, size_t size_bytes)
{
    if (size_bytes > HOST_MOST || posix_memalign(ret_memory, PINNED_ALIGNMENT, size_bytes) != 0)
        return cudaErrorMemoryAllocation;
    memset(*ret_memory, POISON, size_bytes < POISONED_MOST ? size_bytes : POISONED_MOST);
    allocations++;
    pinned[(char *)*ret_memory] = size_bytes;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    streams_carry_out();
    pinned.erase((char *)memory);
    free(memory);
    return cudaSuccess;
}

static bool is_pinned(const void *memory, size_t size_bytes)
{
    auto after = pinned.upper_bound((char *)(uintptr_t)memory);
    if (after == pinned.begin())
        return false;
    --after;
    return (const char *)memory + size_bytes <= after->first + after->second;
}

/* Each pointer is on the side that the kind names; with cudaMemcpyDefault the host's is pinned. */
static void check_sides(const void *to, const void *from, size_t size_bytes, cudaMemcpyKind kind)
{
    if (EMULATOR_JUMPS_ARE_SLOW) /* device memory is the heap: unknown */
        return;
    bool to_device = device_memory_has(to), from_device = device_memory_has(from);
    if (kind == cudaMemcpyDefault)
        assert((to_device || is_pinned(to, size_bytes)) &&
               (from_device || is_pinned(from, size_bytes)));
    else
        assert(to_device == (kind != cudaMemcpyDeviceToHost) &&
               from_device == (kind != cudaMemcpyHostToDevice));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    assert(stream != nullptr); /* the default stream orders all others */
    if (size_bytes == 0)
        return cudaSuccess;
    check_sides(to, from, size_bytes, kind);
    if (kind != cudaMemcpyDeviceToDevice && capture_refuses())
        return cudaErrorStreamCaptureUnsupported;
    auto move = [=] {
        device_access target(to, size_bytes), source(from, size_bytes);
        memmove(to, from, size_bytes);
    };
    stream_takes(stream, move);
    if (kind == cudaMemcpyDeviceToHost && !is_pinned(to, size_bytes))
        return cudaStreamSynchronize(stream); /* the driver goes through memory of its own */
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size_bytes, cudaStream_t stream)
{
    assert(stream != nullptr);
    auto set = [=] {
        device_access access(memory, size_bytes);
        if (size_bytes > 0)
            memset(memory, value, size_bytes);
    };
    stream_takes(stream, set);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
    *ret_least = 0;
    *ret_greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret_stream, unsigned, int priority)
{
    *ret_stream = stream_new(priority);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    stream_free(stream);
    return cudaSuccess;
}
