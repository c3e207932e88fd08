/*
 * A CUDA runtime for tests on machines without a GPU. The kernels of kernels/cuda are compiled as
 * C++ against this header: each thread of a block is a coroutine, blocks run one after another, and
 * device memory is host memory.
 *
 * The emulator checks index arithmetic, masks, barriers, shuffles, the layout of the operands of
 * matrix instructions as the PTX ISA describes them, and (under the address sanitizer) every access
 * outside an allocation. A barrier that some threads never reach ends the program with a message.
 * Threads run in another order at every launch, so that a missing barrier shows as another result.
 * The emulator cannot check the GPU compiler's output, memory ordering between blocks, and speed.
 */
#pragma once

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>
#include <tuple>

#include "emulator.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* ---- launches ---- */

typedef struct emulator_stream *cudaStream_t;

/** emulator_launch() - Launch now, or when the capture of @stream is launched; end the program if a
 * device would refuse the launch */
void emulator_launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                     cudaStream_t stream, const std::function<void()> &body);
unsigned char *emulator_shared(void);

/* A kernel with its arguments, copied as a launch copies them. */
template <typename Kernel, typename... Arguments>
std::function<void()> emulator_call(Kernel kernel, Arguments... arguments)
{
    std::tuple<Arguments...> values(arguments...);
    return [kernel, values] { std::apply(kernel, values); };
}

#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                     \
    emulator_launch((const void *)(kernel), dim3(grid), dim3(block), shared_bytes, stream,         \
                    emulator_call([](auto... values) { kernel(values...); }, __VA_ARGS__))
#define DYNAMIC_SHARED(name) unsigned char *name = emulator_shared()

/* ---- communication between threads of a block ---- */

void __syncthreads(void);
int __syncthreads_or(int predicate);
uint64_t emulator_exchange(uint64_t bits, unsigned source_lane);
unsigned __ballot_sync(unsigned mask, bool predicate);

template <typename T> inline T emulator_shuffle(T value, unsigned source_lane)
{
    uint64_t bits = 0;
    static_assert(sizeof(T) <= sizeof(bits), "a shuffle moves up to 8 bytes");
    memcpy(&bits, &value, sizeof(value));
    bits = emulator_exchange(bits, source_lane);
    memcpy(&value, &bits, sizeof(value));
    return value;
}

template <typename T> inline T __shfl_xor_sync(unsigned mask, T value, int distance)
{
    assert(mask == 0xffffffffu);
    return emulator_shuffle(value, (threadIdx.x % 32) ^ (unsigned)distance);
}

template <typename T> inline T __shfl_sync(unsigned mask, T value, int lane)
{
    assert(mask == 0xffffffffu);
    return emulator_shuffle(value, (unsigned)lane);
}

inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

/* Matrix instructions, named as in kernels/cuda/product/mma.cuh. */
void ldmatrix(uint32_t (&words)[4], const void *row);
void ldmatrix_transposed(uint32_t (&words)[4], const void *row);
void mma_words(float (&sum)[4], const uint32_t (&left)[4], uint32_t right0, uint32_t right1);

/* ---- the runtime ---- */

typedef struct emulator_event *cudaEvent_t;

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorNotReady = 600,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorUnknown = 999,
};

enum cudaMemcpyKind {
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault,
};

enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };

struct cudaUUID_t {
    char bytes[16];
};

struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    int major, minor, multiProcessorCount;
};

cudaError_t cudaGetDeviceCount(int *ret_count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *ret_properties, int index);
cudaError_t cudaDriverGetVersion(int *ret_version);
cudaError_t cudaRuntimeGetVersion(int *ret_version);
cudaError_t cudaSetDevice(int index);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaMemGetInfo(size_t *ret_free_bytes, size_t *ret_total_bytes);
cudaError_t cudaMalloc(void **ret_memory, size_t size_bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMallocHost(void **ret_memory, size_t size_bytes);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t size_bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret_stream, unsigned flags, int priority);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *ret_priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *ret_least, int *ret_greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value);

/* ---- graphs ---- */

typedef struct emulator_graph *cudaGraph_t;
typedef struct emulator_graph_exec *cudaGraphExec_t;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret_graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret_exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
