/*
 * Digests of tensors: each of a few hundred blocks adds up its words, and the host adds the sums of
 * a tensor. These are sums of integers modulo 2^64, so no order is needed. The sums of all tensors
 * are contiguous, so the host waits once and not per tensor.
 */
#include "kernels/cuda/operations.cuh"

#define DIGEST_THREADS 256
#define DIGEST_BLOCKS  512 /* per tensor: enough to keep every device busy */
#define DIGEST_WORDS   4   /* per access */
#define TENSORS_MAX                                                                                \
    (CUDA_STAGING_CHUNK_BYTES / (DIGEST_BLOCKS * sizeof(uint64_t))) /* per wait */

static __device__ inline uint64_t weighed(uint32_t word, size_t index)
{
    return (uint64_t)word * (uint32_t)(2 * index + 1);
}

static __global__ void __launch_bounds__(DIGEST_THREADS)
    digest_kernel(uint64_t *sums, const uint32_t *words, size_t count)
{
    __shared__ uint64_t scratch[DIGEST_THREADS / WARP];
    size_t stride = (size_t)gridDim.x * DIGEST_THREADS * DIGEST_WORDS;
    size_t first = ((size_t)blockIdx.x * DIGEST_THREADS + threadIdx.x) * DIGEST_WORDS;
    uint64_t sum = 0;

    for (size_t index = first; index < count; index += stride) {
        if (count - index >= DIGEST_WORDS) {
            uint4 four = *(const uint4 *)(words + index);
            sum += weighed(four.x, index) + weighed(four.y, index + 1) +
                   weighed(four.z, index + 2) + weighed(four.w, index + 3);
        } else {
            for (size_t i = index; i < count; i++)
                sum += weighed(words[i], i);
        }
    }
    sum = block_sum<DIGEST_THREADS>(sum, scratch);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

static unsigned blocks_of(const struct kernel_flat_tensor *tensor)
{
    size_t blocks = blocks_for(tensor->count, DIGEST_THREADS * DIGEST_WORDS);
    return (unsigned)(blocks < DIGEST_BLOCKS ? blocks : DIGEST_BLOCKS);
}

/* Compute several digests with one wait. */
static void digest_some(struct kernel_device *device, const struct kernel_flat_tensor *tensors,
                        size_t tensor_count, uint64_t *ret_digests)
{
    uint64_t *made = (uint64_t *)device->workspace;
    const uint64_t *sums = (const uint64_t *)device->partial_sums;
    size_t waiting = 0;

    for (size_t i = 0; i < tensor_count; i++) {
        if (tensors[i].count == 0)
            continue;
        LAUNCH(digest_kernel, blocks_of(&tensors[i]), DIGEST_THREADS, 0, device_stream(device),
               made + waiting, (const uint32_t *)tensors[i].values, tensors[i].count);
        DEVICE_LAUNCHED(device, "digests");
        waiting += blocks_of(&tensors[i]);
    }
    cuda_download(device, device->partial_sums, device->workspace, waiting * sizeof(uint64_t));
    device_note(device, cudaStreamSynchronize(device_stream(device)), "digests");
    for (size_t i = 0; i < tensor_count; i++) {
        ret_digests[i] = 0;
        for (unsigned block = 0; block < blocks_of(&tensors[i]); block++)
            ret_digests[i] += *sums++;
    }
}

void cuda_digests(struct kernel_device *device, const struct kernel_flat_tensor *tensors,
                  size_t tensor_count, uint64_t *ret_digests)
{
    for (size_t done = 0, count; done < tensor_count; done += count) {
        count = tensor_count - done < TENSORS_MAX ? tensor_count - done : TENSORS_MAX;
        digest_some(device, tensors + done, count, ret_digests + done);
    }
}
