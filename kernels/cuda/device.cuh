/*
 * A GPU as a kernel_device: its queues, its fixed workspace, its sticky failure.
 *
 * Problem: operations return nothing, a launch may fail, and an asynchronous failure is reported
 * later. Design: device_note() keeps the first failure with the name of the call that returned it;
 * later calls are still issued (the driver refuses them), and synchronize() reports the failure. A
 * sticky failure ends the worker; nothing here tries to recover a context.
 *
 * Memory: all temporary memory of operations is in one workspace of fixed size, made by open(). It
 * is used in stream order by one operation at a time, only on the compute queue.
 */
#pragma once

#include <cublasLt.h>

#include "kernels/cuda/platform.cuh"
#include "kernels/kernel.h"

enum cuda_precision { CUDA_BF16, CUDA_TF32, CUDA_F32 };

#define CUDA_PRODUCT_WORKSPACE_BYTES                                                               \
    ((size_t)32 << 20)                              /* for cuBLASLt; Hopper wants 32 MiB */
#define CUDA_WORKSPACE_BYTES     ((size_t)64 << 20) /* partial sums etc. of our kernels */
#define CUDA_STAGING_CHUNKS      4
#define CUDA_STAGING_CHUNK_BYTES ((size_t)4 << 20)

struct product_cache;     /* product.cuh: the algorithm of each shape of a product */
struct attention_choices; /* attention_choice.cuh */

/* Host memory on its way to the device: upload() copies into a chunk and returns. */
struct cuda_staging {
    char *chunks[CUDA_STAGING_CHUNKS];     /* pinned */
    cudaEvent_t read[CUDA_STAGING_CHUNKS]; /* the device has read the chunk */
    unsigned next;
};

struct kernel_event {
    cudaEvent_t event;
};

struct kernel_device {
    int index;
    enum cuda_precision precision;
    char name[256];
    uint8_t uuid[KERNEL_UUID_SIZE];
    cudaStream_t queues[KERNEL_QUEUES];
    cublasLtHandle_t products;
    struct product_cache *cache;
    struct attention_choices *attention;
    void *product_workspace;
    void *workspace;
    struct cuda_staging staging;
    bool records;         /* calls may be recorded */
    double *partial_sums; /* pinned: results of norms on the host */
    cudaError_t failure;  /* the first one; cudaSuccess while all is well */
    const char *failed_call;
    char failure_text[256]; /* "" unless device_fail() has set it */
};

static inline cudaStream_t device_stream(const struct kernel_device *device)
{
    return device->queues[KERNEL_QUEUE_COMPUTE];
}

/** device_note() - keep the first failure; @call is a literal */
void device_note(struct kernel_device *device, cudaError_t result, const char *call);
/** device_fail() - keep a failure outside the runtime: an unsupported shape, cuBLASLt */
void device_fail(struct kernel_device *device, const char *call, const char *text);

/* Use after a launch. */
#define DEVICE_LAUNCHED(device, call) device_note((device), cudaGetLastError(), (call))

/** cuda_device_supported() - return whether the kernels are compiled for such a device */
bool cuda_device_supported(const cudaDeviceProp *properties);
int cuda_device_open(const struct kernel_options *options, enum cuda_precision precision,
                     struct kernel_device **ret_device, struct error *error);
void cuda_device_close(struct kernel_device *device);
int cuda_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory);
void cuda_release(struct kernel_device *device, void *memory);
int cuda_host_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory);
void cuda_host_release(struct kernel_device *device, void *memory);
void cuda_memory(struct kernel_device *device, size_t *ret_free_bytes, size_t *ret_total_bytes);
void cuda_upload(struct kernel_device *device, void *to_device, const void *from_host,
                 size_t size_bytes);
void cuda_download(struct kernel_device *device, void *to_host, const void *from_device,
                   size_t size_bytes);
void cuda_copy(struct kernel_device *device, void *to, const void *from, size_t size_bytes);
void cuda_zero(struct kernel_device *device, void *memory, size_t size_bytes);
int cuda_synchronize(struct kernel_device *device, struct error *error);

int cuda_event_new(struct kernel_device *device, struct kernel_event **ret_event);
void cuda_event_free(struct kernel_device *device, struct kernel_event *event);
void cuda_event_record(struct kernel_device *device, struct kernel_event *event,
                       enum kernel_queue queue);
void cuda_queue_wait(struct kernel_device *device, enum kernel_queue queue,
                     struct kernel_event *event);
bool cuda_event_passed(struct kernel_device *device, struct kernel_event *event);
void *cuda_queue_stream(struct kernel_device *device, enum kernel_queue queue);
bool cuda_uuid(struct kernel_device *device, uint8_t ret_uuid[KERNEL_UUID_SIZE]);
void cuda_event_wait(struct kernel_device *device, struct kernel_event *event);
void cuda_transfer(struct kernel_device *device, enum kernel_queue queue, void *to,
                   const void *from, size_t size_bytes);

/* recording.cu */
/** cuda_recordings_wanted() - return false with FIRN_CUDA_GRAPHS=off in the environment */
bool cuda_recordings_wanted(void);
int cuda_record_begin(struct kernel_device *device, struct error *error);
int cuda_record_end(struct kernel_device *device, struct kernel_recording **ret_recording,
                    struct error *error);
void cuda_replay(struct kernel_device *device, const struct kernel_recording *recording);
void cuda_recording_free(struct kernel_device *device, struct kernel_recording *recording);

/* linear.cu */
int product_cache_new(struct product_cache **ret_cache);
void product_cache_free(struct product_cache *cache);
