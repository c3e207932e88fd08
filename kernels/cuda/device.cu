#include "kernels/cuda/device.cuh"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention/attention_choice.cuh"

#define SUPPORTED_MAJOR_MIN 8 /* Ampere: the first with bf16 matrix instructions */

/* Streams that share a connection to the device wait for each other's work. A stream that waits for
 * another worker would then block a stream that this worker waits for. The default is 8, fewer than
 * our streams and NCCL's together. The driver reads it when the process first uses a device. */
#define CONNECTIONS "32"

void device_note(struct kernel_device *device, cudaError_t result, const char *call)
{
    if (result == cudaSuccess || device->failure != cudaSuccess)
        return;
    device->failure = result;
    device->failed_call = call;
}

void device_fail(struct kernel_device *device, const char *call, const char *text)
{
    if (device->failure != cudaSuccess)
        return;
    device->failure = cudaErrorUnknown;
    device->failed_call = call;
    snprintf(device->failure_text, sizeof(device->failure_text), "%s", text);
}

/* ---- opening ---- */

static int open_failed(struct error *error, unsigned index, cudaError_t result, const char *what)
{
    int code = result == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
    return error_set(error, code, "GPU %u: %s: %s", index, what, cudaGetErrorString(result));
}

bool cuda_device_supported(const cudaDeviceProp *properties)
{
    return properties->major >= SUPPORTED_MAJOR_MIN;
}

static int find_device(struct kernel_device *device, unsigned index, struct error *error)
{
    int count = 0;
    cudaDeviceProp properties;

    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", CONNECTIONS, 0);
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result == cudaErrorInsufficientDriver || result == cudaErrorNoDevice || count == 0)
        return error_set(error, -ENODEV, "no GPU: CPU slots only (%s)", cudaGetErrorString(result));
    if (result != cudaSuccess)
        return open_failed(error, index, result, "counting the devices");
    if (index >= (unsigned)count)
        return error_set(error, -ENODEV, "GPU %u: this machine has %d, numbered from 0", index,
                         count);
    result = cudaGetDeviceProperties(&properties, (int)index);
    if (result != cudaSuccess)
        return open_failed(error, index, result, "reading its properties");
    if (!cuda_device_supported(&properties))
        return error_set(
            error, -ENOTSUP, "GPU %u: %s has compute capability %d.%d; %d.0 is the least supported",
            index, properties.name, properties.major, properties.minor, SUPPORTED_MAJOR_MIN);
    device->index = (int)index;
    snprintf(device->name, sizeof(device->name), "%s", properties.name);
    memcpy(device->uuid, &properties.uuid, sizeof(device->uuid));
    result = cudaSetDevice((int)index);
    return result == cudaSuccess ? 0 : open_failed(error, index, result, "taking it into use");
}

static cudaError_t make_staging(struct cuda_staging *staging)
{
    for (unsigned i = 0; i < CUDA_STAGING_CHUNKS; i++) {
        cudaError_t result = cudaMallocHost((void **)&staging->chunks[i], CUDA_STAGING_CHUNK_BYTES);
        if (result == cudaSuccess)
            result = cudaEventCreateWithFlags(&staging->read[i], cudaEventDisableTiming);
        if (result != cudaSuccess)
            return result;
    }
    return cudaSuccess;
}

/* Traffic between GPUs has priority: a peer waits for it, and its few blocks start as soon as
 * blocks of a product end. With equal priority they would start after all blocks of that
 * product. */
static cudaError_t make_queues(cudaStream_t queues[KERNEL_QUEUES])
{
    int least = 0, greatest = 0;
    cudaError_t result = cudaDeviceGetStreamPriorityRange(&least, &greatest);

    for (unsigned i = 0; i < KERNEL_QUEUES && result == cudaSuccess; i++)
        result = cudaStreamCreateWithPriority(&queues[i], cudaStreamNonBlocking,
                                              i < KERNEL_QUEUE_ROUTES ? least : greatest);
    return result;
}

static cudaError_t make_resources(struct kernel_device *device)
{
    cudaError_t result = make_queues(device->queues);

    if (result == cudaSuccess)
        result = cudaMalloc(&device->product_workspace, CUDA_PRODUCT_WORKSPACE_BYTES);
    if (result == cudaSuccess)
        result = cudaMalloc(&device->workspace, CUDA_WORKSPACE_BYTES);
    if (result == cudaSuccess)
        result = cudaMallocHost((void **)&device->partial_sums, CUDA_STAGING_CHUNK_BYTES);
    return result == cudaSuccess ? make_staging(&device->staging) : result;
}

int cuda_device_open(const struct kernel_options *options, enum cuda_precision precision,
                     struct kernel_device **ret_device, struct error *error)
{
    struct kernel_device *device = (struct kernel_device *)calloc(1, sizeof(*device));
    if (device == NULL)
        return error_set(error, -ENOMEM, "no memory for a GPU device");

    device->precision = precision;
    device->records = cuda_recordings_wanted();
    int status = find_device(device, options->index, error);
    if (status == 0) {
        cudaError_t result = make_resources(device);
        if (result != cudaSuccess)
            status = open_failed(error, options->index, result, "its streams and workspaces");
    }
    if (status == 0 && cublasLtCreate(&device->products) != CUBLAS_STATUS_SUCCESS)
        status = error_set(error, -EIO, "GPU %u: cuBLASLt cannot be initialized", options->index);
    if (status == 0 && product_cache_new(&device->cache) < 0)
        status = error_set(error, -ENOMEM, "no memory for a GPU device");
    if (status == 0)
        status = attention_choices_new(device, &device->attention, error);
    if (status < 0) {
        cuda_device_close(device);
        return status;
    }
    *ret_device = device;
    return 0;
}

/* Close the device. After a failed open any member may be missing. Errors of a release are
 * ignored. */
void cuda_device_close(struct kernel_device *device)
{
    if (device == NULL)
        return;
    for (unsigned i = 0; i < KERNEL_QUEUES; i++)
        if (device->queues[i] != NULL)
            (void)cudaStreamSynchronize(device->queues[i]);
    attention_choices_free(device->attention);
    for (unsigned i = 0; i < KERNEL_QUEUES; i++)
        if (device->queues[i] != NULL)
            (void)cudaStreamDestroy(device->queues[i]);
    for (unsigned i = 0; i < CUDA_STAGING_CHUNKS; i++) {
        if (device->staging.read[i] != NULL)
            (void)cudaEventDestroy(device->staging.read[i]);
        (void)cudaFreeHost(device->staging.chunks[i]);
    }
    (void)cudaFreeHost(device->partial_sums);
    (void)cudaFree(device->product_workspace);
    (void)cudaFree(device->workspace);
    if (device->products != NULL)
        (void)cublasLtDestroy(device->products);
    product_cache_free(device->cache);
    free(device);
}

/* ---- memory ---- */

int cuda_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    void *memory = NULL;
    size_t wanted_bytes = size_bytes == 0 ? 1 : size_bytes;

    if (cudaMalloc(&memory, wanted_bytes) != cudaSuccess) {
        (void)cudaGetLastError(); /* a failed allocation is reported here and is not sticky */
        return -ENOMEM;
    }
    cuda_zero(device, memory, wanted_bytes);
    /* Other queues may write the memory next, without waiting for the compute queue. */
    device_note(device, cudaStreamSynchronize(device_stream(device)), "clearing new memory");
    *ret_memory = memory;
    return 0;
}

void cuda_release(struct kernel_device *device, void *memory)
{
    device_note(device, cudaFree(memory), "releasing memory");
}

int cuda_host_allocate(struct kernel_device *device, size_t size_bytes, void **ret_memory)
{
    void *memory = NULL;
    (void)device;

    if (cudaMallocHost(&memory, size_bytes == 0 ? 1 : size_bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return -ENOMEM;
    }
    memset(memory, 0, size_bytes);
    *ret_memory = memory;
    return 0;
}

void cuda_host_release(struct kernel_device *device, void *memory)
{
    device_note(device, cudaFreeHost(memory), "releasing pinned memory");
}

void cuda_memory(struct kernel_device *device, size_t *ret_free_bytes, size_t *ret_total_bytes)
{
    size_t free_bytes, total_bytes;
    cudaError_t result = cudaMemGetInfo(&free_bytes, &total_bytes);

    device_note(device, result, "asking for free memory");
    if (result != cudaSuccess)
        return;
    *ret_free_bytes = free_bytes;
    *ret_total_bytes = total_bytes;
}

void cuda_upload(struct kernel_device *device, void *to_device, const void *from_host,
                 size_t size_bytes)
{
    struct cuda_staging *staging = &device->staging;

    for (size_t done = 0; done < size_bytes;) {
        size_t left = size_bytes - done;
        size_t piece = left < CUDA_STAGING_CHUNK_BYTES ? left : CUDA_STAGING_CHUNK_BYTES;
        unsigned chunk = staging->next++ % CUDA_STAGING_CHUNKS;

        device_note(device, cudaEventSynchronize(staging->read[chunk]), "upload");
        memcpy(staging->chunks[chunk], (const char *)from_host + done, piece);
        device_note(device,
                    cudaMemcpyAsync((char *)to_device + done, staging->chunks[chunk], piece,
                                    cudaMemcpyHostToDevice, device_stream(device)),
                    "upload");
        device_note(device, cudaEventRecord(staging->read[chunk], device_stream(device)), "upload");
        done += piece;
    }
}

void cuda_download(struct kernel_device *device, void *to_host, const void *from_device,
                   size_t size_bytes)
{
    if (device->failure != cudaSuccess) /* the copied values are not valid */
        return;
    device_note(device,
                cudaMemcpyAsync(to_host, from_device, size_bytes, cudaMemcpyDeviceToHost,
                                device_stream(device)),
                "download");
}

void cuda_copy(struct kernel_device *device, void *to, const void *from, size_t size_bytes)
{
    device_note(
        device,
        cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToDevice, device_stream(device)),
        "copy");
}

void cuda_zero(struct kernel_device *device, void *memory, size_t size_bytes)
{
    device_note(device, cudaMemsetAsync(memory, 0, size_bytes, device_stream(device)), "zero");
}

int cuda_synchronize(struct kernel_device *device, struct error *error)
{
    for (unsigned i = 0; i < KERNEL_QUEUES; i++)
        device_note(device, cudaStreamSynchronize(device->queues[i]), "waiting for the device");
    if (device->failure == cudaSuccess)
        return 0;
    return error_set(
        error, -EIO, "GPU %d (%s) failed: %s: %s", device->index, device->name, device->failed_call,
        device->failure_text[0] ? device->failure_text : cudaGetErrorString(device->failure));
}

/* ---- queues and events ---- */

int cuda_event_new(struct kernel_device *device, struct kernel_event **ret_event)
{
    struct kernel_event *event = (struct kernel_event *)calloc(1, sizeof(*event));
    (void)device;

    if (event == NULL)
        return -ENOMEM;
    if (cudaEventCreateWithFlags(&event->event, cudaEventDisableTiming) != cudaSuccess) {
        (void)cudaGetLastError(); /* reported here, not a failure of the next launch */
        free(event);
        return -ENOMEM;
    }
    *ret_event = event;
    return 0;
}

void cuda_event_free(struct kernel_device *device, struct kernel_event *event)
{
    if (event == NULL)
        return;
    device_note(device, cudaEventDestroy(event->event), "freeing an event");
    free(event);
}

void cuda_event_record(struct kernel_device *device, struct kernel_event *event,
                       enum kernel_queue queue)
{
    device_note(device, cudaEventRecord(event->event, device->queues[queue]), "an event");
}

void cuda_queue_wait(struct kernel_device *device, enum kernel_queue queue,
                     struct kernel_event *event)
{
    device_note(device, cudaStreamWaitEvent(device->queues[queue], event->event, 0),
                "waiting for an event");
}

bool cuda_event_passed(struct kernel_device *device, struct kernel_event *event)
{
    cudaError_t result = cudaEventQuery(event->event);

    if (result == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* not a failure of the next launch */
        return false;
    }
    device_note(device, result, "an event");
    return true;
}

void cuda_event_wait(struct kernel_device *device, struct kernel_event *event)
{
    device_note(device, cudaEventSynchronize(event->event), "waiting for an event");
}

void *cuda_queue_stream(struct kernel_device *device, enum kernel_queue queue)
{
    return device->queues[queue];
}

bool cuda_uuid(struct kernel_device *device, uint8_t ret_uuid[KERNEL_UUID_SIZE])
{
    static const uint8_t none[KERNEL_UUID_SIZE] = {};

    memcpy(ret_uuid, device->uuid, KERNEL_UUID_SIZE);
    return memcmp(ret_uuid, none, sizeof(none)) != 0;
}

void cuda_transfer(struct kernel_device *device, enum kernel_queue queue, void *to,
                   const void *from, size_t size_bytes)
{
    device_note(device,
                cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, device->queues[queue]),
                "a transfer");
}
