/*
 * The sum of squares of a tensor (DESIGN 3.6): a block a chunk of KERNEL_NORM_CHUNK elements makes
 * its f64 sum in one order; the host adds the chunks in index order.
 */
#include "kernels/cuda/operations.cuh"

#define NORM_THREADS 256
#define NORM_LANES   4
#define NORM_PACKS   (KERNEL_NORM_CHUNK / (NORM_THREADS * NORM_LANES))
#define CHUNKS_MAX   (CUDA_STAGING_CHUNK_BYTES / sizeof(double)) /* of one launch */

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

double cuda_norm_squared(struct kernel_device *device, const float *values, size_t count)
{
    const size_t each = CHUNKS_MAX * KERNEL_NORM_CHUNK;
    double *on_device = (double *)device->workspace, sum = 0.0;

    for (size_t start = 0; start < count; start += each) {
        size_t left = count - start < each ? count - start : each;
        unsigned chunks = blocks_for(left, KERNEL_NORM_CHUNK);

        LAUNCH(norm_kernel, chunks, NORM_THREADS, 0, device_stream(device), on_device,
               values + start, left);
        DEVICE_LAUNCHED(device, "norm_squared");
        cuda_download(device, device->partial_sums, on_device, chunks * sizeof(double));
        device_note(device, cudaStreamSynchronize(device_stream(device)), "norm_squared");
        if (device->failure != cudaSuccess)
            return NAN;
        for (unsigned chunk = 0; chunk < chunks; chunk++)
            sum += device->partial_sums[chunk];
    }
    return sum;
}
