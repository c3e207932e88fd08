/*
 * The sums of squares of tensors: a block a chunk of KERNEL_NORM_CHUNK elements makes
 * its f64 sum in one order; the host adds the chunks of each tensor in index order. The sums of all
 * tensors' chunks lie one behind the other, so that the host waits once and not for each tensor.
 */
#include "kernels/cuda/operations.cuh"

#define NORM_THREADS 256
#define NORM_LANES   4
#define NORM_PACKS   (KERNEL_NORM_CHUNK / (NORM_THREADS * NORM_LANES))
#define CHUNKS_MAX   (CUDA_STAGING_CHUNK_BYTES / sizeof(double)) /* of one wait */

static __global__ void __launch_bounds__(NORM_THREADS)
    norm_kernel(double *partial_sums, const float *values, size_t count)
{
    __shared__ double scratch[NORM_THREADS / WARP];
    size_t first = (size_t)blockIdx.x * KERNEL_NORM_CHUNK + threadIdx.x * NORM_LANES;
    float x[NORM_PACKS][NORM_LANES];
    double sum = 0.0;

#pragma unroll
    for (int pack = 0; pack < NORM_PACKS; pack++) {
        size_t index = first + (size_t)pack * NORM_THREADS * NORM_LANES;
        load_pack<float, true>(x[pack], values + index, index < count ? count - index : 0, 0.0f);
    }
#pragma unroll
    for (int pack = 0; pack < NORM_PACKS; pack++)
#pragma unroll
        for (int i = 0; i < NORM_LANES; i++)
            sum += (double)x[pack][i] * (double)x[pack][i];
    sum = block_sum<NORM_THREADS>(sum, scratch);
    if (threadIdx.x == 0)
        partial_sums[blockIdx.x] = sum;
}

/* Chunks whose sums the device makes one behind the other, until the host has fetched and added
 * them. */
struct norms {
    struct kernel_device *device;
    const struct kernel_norm_tensor *tensors;
    double *sums;
    size_t waiting;                 /* chunks that are made and not added yet */
    size_t next_tensor, next_chunk; /* the first of these */
};

static size_t chunks_of(const struct kernel_norm_tensor *tensor)
{
    return blocks_for(tensor->count, KERNEL_NORM_CHUNK);
}

/* The one wait: brings the chunks' sums and adds them to their tensors' in index order. */
static void add_waiting(struct norms *n)
{
    struct kernel_device *device = n->device;

    cuda_download(device, device->partial_sums, device->workspace, n->waiting * sizeof(double));
    device_note(device, cudaStreamSynchronize(device_stream(device)), "norms_squared");
    for (size_t i = 0; i < n->waiting; i++, n->next_chunk++) {
        while (n->next_chunk == chunks_of(&n->tensors[n->next_tensor])) {
            n->next_tensor++;
            n->next_chunk = 0;
        }
        n->sums[n->next_tensor] += device->partial_sums[i];
    }
    n->waiting = 0;
}

static void make_chunks(struct norms *n, const struct kernel_norm_tensor *tensor)
{
    double *made = (double *)n->device->workspace;

    for (size_t chunk = 0, count; chunk < chunks_of(tensor); chunk += count) {
        size_t left = chunks_of(tensor) - chunk, start = chunk * KERNEL_NORM_CHUNK;
        count = left < CHUNKS_MAX - n->waiting ? left : CHUNKS_MAX - n->waiting;
        LAUNCH(norm_kernel, (unsigned)count, NORM_THREADS, 0, device_stream(n->device),
               made + n->waiting, tensor->values + start, tensor->count - start);
        DEVICE_LAUNCHED(n->device, "norms_squared");
        n->waiting += count;
        if (n->waiting == CHUNKS_MAX)
            add_waiting(n);
    }
}

void cuda_norms_squared(struct kernel_device *device, const struct kernel_norm_tensor *tensors,
                        size_t tensor_count, double *ret_sums)
{
    struct norms n = {device, tensors, ret_sums, 0, 0, 0};

    for (size_t i = 0; i < tensor_count; i++)
        ret_sums[i] = 0.0;
    for (size_t i = 0; i < tensor_count; i++)
        make_chunks(&n, &tensors[i]);
    if (n.waiting > 0)
        add_waiting(&n);
    for (size_t i = 0; device->failure != cudaSuccess && i < tensor_count; i++)
        ret_sums[i] = NAN;
}
