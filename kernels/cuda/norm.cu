/*
 * Sums of squares of tensors: one block per chunk of KERNEL_NORM_CHUNK elements computes its f64
 * sum in one order; the host adds the chunks of each tensor in index order. One launch computes the
 * chunks of all tensors, by a table, and their sums are contiguous, so the host waits once and not
 * per tensor.
 */
#include "kernels/cuda/entries.cuh"
#include "kernels/cuda/operations.cuh"

#define NORM_THREADS 256
#define NORM_LANES   4
#define NORM_PACKS   (KERNEL_NORM_CHUNK / (NORM_THREADS * NORM_LANES))
#define CHUNKS_MAX   (CUDA_STAGING_CHUNK_BYTES / sizeof(double)) /* per wait */

struct norm_entry {
    const float *values; /* of its first block */
    size_t count;        /* to the end of the tensor, which its blocks need not reach */
    unsigned first_block;
};

static __global__ void __launch_bounds__(NORM_THREADS)
    norm_kernel(double *partial_sums, const norm_entry *entries, unsigned entry_count)
{
    __shared__ double scratch[NORM_THREADS / WARP];
    const norm_entry entry = entries[entry_of_block(entries, entry_count)];
    const float *values = entry_memory(entry.values);
    size_t count = entry.count;
    size_t first =
        (size_t)(blockIdx.x - entry.first_block) * KERNEL_NORM_CHUNK + threadIdx.x * NORM_LANES;
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

/* The chunks of one launch, until the device has computed their sums and the host has added
 * them. */
struct norms {
    struct kernel_device *device;
    const struct kernel_flat_tensor *tensors;
    double *sums;
    norm_entry entries[ENTRIES_MAX];
    unsigned entry_count;
    size_t waiting;                 /* chunks of the entries */
    size_t next_tensor, next_chunk; /* the first of these */
};

static size_t chunks_of(const struct kernel_flat_tensor *tensor)
{
    return blocks_for(tensor->count, KERNEL_NORM_CHUNK);
}

/* The workspace: sums, then the table. */
static void launch(struct norms *n)
{
    struct kernel_device *device = n->device;
    double *made = (double *)device->workspace;
    norm_entry *table = (norm_entry *)(made + CHUNKS_MAX);

    cuda_upload(device, table, n->entries, n->entry_count * sizeof(n->entries[0]));
    LAUNCH(norm_kernel, (unsigned)n->waiting, NORM_THREADS, 0, device_stream(device), made, table,
           n->entry_count);
    DEVICE_LAUNCHED(device, "norms_squared");
    cuda_download(device, device->partial_sums, made, n->waiting * sizeof(double));
    device_note(device, cudaStreamSynchronize(device_stream(device)), "norms_squared");
}

/* Add the chunks' sums to their tensors' sums in index order. */
static void add_waiting(struct norms *n)
{
    if (n->waiting == 0)
        return;
    launch(n);
    for (size_t i = 0; i < n->waiting; i++, n->next_chunk++) {
        while (n->next_chunk == chunks_of(&n->tensors[n->next_tensor])) {
            n->next_tensor++;
            n->next_chunk = 0;
        }
        n->sums[n->next_tensor] += n->device->partial_sums[i];
    }
    n->waiting = 0;
    n->entry_count = 0;
}

static void ask_for(struct norms *n, const struct kernel_flat_tensor *tensor)
{
    for (size_t chunk = 0, count; chunk < chunks_of(tensor); chunk += count) {
        size_t left = chunks_of(tensor) - chunk, start = chunk * KERNEL_NORM_CHUNK;
        count = left < CHUNKS_MAX - n->waiting ? left : CHUNKS_MAX - n->waiting;
        n->entries[n->entry_count++] = {tensor->values + start, tensor->count - start,
                                        (unsigned)n->waiting};
        n->waiting += count;
        if (n->waiting == CHUNKS_MAX || n->entry_count == ENTRIES_MAX)
            add_waiting(n);
    }
}

void cuda_norms_squared(struct kernel_device *device, const struct kernel_flat_tensor *tensors,
                        size_t tensor_count, double *ret_sums)
{
    struct norms n = {};

    n.device = device;
    n.tensors = tensors;
    n.sums = ret_sums;
    for (size_t i = 0; i < tensor_count; i++)
        ret_sums[i] = 0.0;
    for (size_t i = 0; i < tensor_count; i++)
        ask_for(&n, &tensors[i]);
    add_waiting(&n);
    for (size_t i = 0; device->failure != cudaSuccess && i < tensor_count; i++)
        ret_sums[i] = NAN;
}
