/*
 * The fused classifier: one block per row. The first pass reads the vocabulary in chunks of one
 * pack per thread and keeps each thread's highest logit and the sum of exponentials relative to it;
 * the threads' results are joined in a fixed order. The second pass goes back from the end, with
 * the row still in the L2 cache, and writes the gradient over the logits. A row of probabilities
 * never exists.
 *
 * Blocks are as large as possible: two fit a multiprocessor. With a vocabulary of 50,257 the active
 * rows of an H100 are then 26 MB of bf16, of its cache's 50 MB.
 *
 * A NaN among the logits makes the sum, and so the loss, NaN. A row with a negative target does not
 * count: its logits are not read, and its gradient is written as zeros.
 */
#include "kernels/cuda/operations.cuh"

#define ROW_THREADS 1024

/* Update the running highest element and the sum relative to it by a whole pack, so that an element
 * costs one exponential. */
template <int COUNT>
__device__ inline void take(const float (&x)[COUNT], float *highest, float *sum)
{
    float before = *highest, after = before;

#pragma unroll
    for (int i = 0; i < COUNT; i++)
        after = fmaxf(after, x[i]);
    if (after != before)
        *sum *= expf(before - after);
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        *sum += expf(x[i] - after);
    *highest = after;
}

/* Write zeros as the gradient of a row that does not count. */
template <typename T, bool ALIGNED> __device__ inline void clear_row(T *x, size_t vocab)
{
    constexpr int LANES = lanes_of<T>::count;
    const float zeros[LANES] = {};

    for (size_t c = threadIdx.x * LANES; c < vocab; c += ROW_THREADS * LANES)
        store_pack<T, ALIGNED>(x + c, zeros, vocab - c);
}

template <typename T, bool ALIGNED, bool GRADIENT>
__global__ void __launch_bounds__(ROW_THREADS)
    cross_entropy_kernel(float *losses, T *logits, const int32_t *targets, float scale,
                         size_t vocab, size_t stride)
{
    constexpr int LANES = lanes_of<T>::count;
    __shared__ float scratch[ROW_THREADS / WARP];
    size_t row = blockIdx.x, target = (size_t)targets[row];
    T *x = logits + row * stride;
    float v[LANES], highest = -INFINITY, sum = 0.0f;

    if (targets[row] < 0) { /* the same for all threads of the block */
        if (threadIdx.x == 0)
            losses[row] = 0.0f;
        if (GRADIENT)
            clear_row<T, ALIGNED>(x, vocab);
        return;
    }
    float target_logit = to_float(x[target]);

#pragma unroll 2
    for (size_t c = threadIdx.x * LANES; c < vocab; c += ROW_THREADS * LANES) {
        load_pack<T, ALIGNED>(v, x + c, vocab - c, -INFINITY);
        take(v, &highest, &sum);
    }
    float top = block_highest<ROW_THREADS>(highest, scratch);
    /* A thread without elements has the sum 0 relative to -infinity. */
    sum = highest == -INFINITY && sum == 0.0f ? 0.0f : sum * expf(highest - top);
    sum = block_sum<ROW_THREADS>(sum, scratch);
    if (threadIdx.x == 0)
        losses[row] = logf(sum) + (top - target_logit);
    if (!GRADIENT)
        return;
    float factor = scale / sum;
    for (size_t step = blocks_for(vocab, ROW_THREADS * LANES); step-- > 0;) {
        size_t c = (step * ROW_THREADS + threadIdx.x) * LANES;
        if (c >= vocab)
            continue;
        load_pack<T, ALIGNED>(v, x + c, vocab - c, -INFINITY);
#pragma unroll
        for (int i = 0; i < LANES; i++) {
            v[i] = expf(v[i] - top) * factor;
            if (c + i == target)
                v[i] -= scale;
        }
        store_pack<T, ALIGNED>(x + c, v, vocab - c);
    }
}

template <typename T, bool GRADIENT>
static void launch(struct kernel_device *device, float *losses, T *logits, const int32_t *targets,
                   float scale, size_t rows, size_t vocab, size_t stride)
{
    if (rows == 0)
        return;
    if (stride % lanes_of<T>::count == 0)
        LAUNCH((cross_entropy_kernel<T, true, GRADIENT>), (unsigned)rows, ROW_THREADS, 0,
               device_stream(device), losses, logits, targets, scale, vocab, stride);
    else
        LAUNCH((cross_entropy_kernel<T, false, GRADIENT>), (unsigned)rows, ROW_THREADS, 0,
               device_stream(device), losses, logits, targets, scale, vocab, stride);
    DEVICE_LAUNCHED(device, "cross_entropy");
}

template <typename T>
void cuda_cross_entropy_forward(struct kernel_device *device, float *losses, const void *logits,
                                const int32_t *targets, size_t rows, size_t vocab, size_t stride)
{
    launch<T, false>(device, losses, (T *)logits, targets, 0.0f, rows, vocab,
                     stride); /* only reads */
}

template <typename T>
void cuda_cross_entropy_fused(struct kernel_device *device, float *losses, void *logits,
                              const int32_t *targets, float scale, size_t rows, size_t vocab,
                              size_t stride)
{
    launch<T, true>(device, losses, (T *)logits, targets, scale, rows, vocab, stride);
}

#define INSTANTIATE(T)                                                                             \
    template void cuda_cross_entropy_forward<T>(struct kernel_device *, float *, const void *,     \
                                                const int32_t *, size_t, size_t, size_t);          \
    template void cuda_cross_entropy_fused<T>(struct kernel_device *, float *, void *,             \
                                              const int32_t *, float, size_t, size_t, size_t);
INSTANTIATE(float)
INSTANTIATE(bfloat)
