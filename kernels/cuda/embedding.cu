/*
 * Token and position embedding. Backward uses neither atomics nor a sort. The block of a row ends
 * at once unless the row is the first one with its token. Then it walks the later rows and adds
 * those with the same token in index order, exactly as one thread would. Reading the tokens again
 * for each row costs N^2 / 2 comparisons, all from the L2 cache: little compared with a layer, for
 * the N of a micro-batch.
 */
#include "kernels/cuda/operations.cuh"

#define EMBEDDING_THREADS 128

template <typename T, bool ALIGNED>
__global__ void __launch_bounds__(EMBEDDING_THREADS)
    embedding_forward_kernel(T *output, const int32_t *tokens, const T *token_table,
                             const T *position_table, size_t context, size_t width)
{
    constexpr int LANES = lanes_of<T>::count;
    size_t row = blockIdx.x, position = row % context;
    const T *token = token_table + (size_t)tokens[row] * width;

    for (size_t c = threadIdx.x * LANES; c < width; c += EMBEDDING_THREADS * LANES) {
        float a[LANES], b[LANES] = {};
        load_pack<T, ALIGNED>(a, token + c, width - c, 0.0f);
        if (position_table)
            load_pack<T, ALIGNED>(b, position_table + position * width + c, width - c, 0.0f);
        for (int i = 0; i < LANES; i++)
            a[i] += b[i];
        store_pack<T, ALIGNED>(output + row * width + c, a, width - c);
    }
}

/* Return whether an earlier row has the token of @row; the same answer in every thread. */
__device__ inline bool seen_before(const int32_t *tokens, size_t row)
{
    int32_t token = tokens[row];
    for (size_t begin = 0; begin < row; begin += EMBEDDING_THREADS) {
        size_t other = begin + threadIdx.x;
        if (__syncthreads_or(other < row && tokens[other] == token))
            return true;
    }
    return false;
}

/*
 * Grid: (rows, packs of columns / EMBEDDING_THREADS). The rows of a token are found
 * EMBEDDING_THREADS at a time: each thread compares one, and writes its row to the list at the
 * number of matches before it, so that the list is in index order.
 */
template <typename T, bool ALIGNED>
__global__ void __launch_bounds__(EMBEDDING_THREADS)
    token_gradient_kernel(float *d_token_table, const T *d_output, const int32_t *tokens,
                          size_t rows, size_t width)
{
    constexpr int LANES = lanes_of<T>::count, WARPS = EMBEDDING_THREADS / WARP;
    __shared__ uint32_t list[EMBEDDING_THREADS];
    __shared__ unsigned warp_counts[WARPS];
    size_t row = blockIdx.x;
    int32_t token = tokens[row];
    size_t column = ((size_t)blockIdx.y * EMBEDDING_THREADS + threadIdx.x) * LANES;
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    float sum[LANES] = {};

    if (seen_before(tokens, row))
        return;
    float *to = d_token_table + (size_t)token * width + column;
    if (column < width)
        for (int i = 0; i < LANES; i++)
            sum[i] = column + i < width ? to[i] : 0.0f;

    for (size_t begin = row; begin < rows; begin += EMBEDDING_THREADS) {
        size_t other = begin + threadIdx.x;
        bool same = other < rows && tokens[other] == token;
        unsigned votes = __ballot_sync(FULL_WARP, same);
        if (lane == 0)
            warp_counts[warp] = (unsigned)__popc(votes);
        __syncthreads();
        unsigned place = (unsigned)__popc(votes & ((1u << lane) - 1)), matches = 0;
        for (unsigned i = 0; i < WARPS; i++) {
            place += i < warp ? warp_counts[i] : 0;
            matches += warp_counts[i];
        }
        if (same)
            list[place] = (uint32_t)other;
        __syncthreads();
#pragma unroll 4
        for (unsigned i = 0; i < matches && column < width; i++) {
            float d[LANES];
            load_pack<T, ALIGNED>(d, d_output + (size_t)list[i] * width + column, width - column,
                                  0.0f);
            for (int k = 0; k < LANES; k++)
                sum[k] += d[k];
        }
        __syncthreads(); /* the list is free again */
    }
    for (int i = 0; i < LANES; i++)
        if (column + i < width)
            to[i] = sum[i];
}

/* Grid: (context, packs of columns / EMBEDDING_THREADS). */
template <typename T, bool ALIGNED>
__global__ void __launch_bounds__(EMBEDDING_THREADS)
    position_gradient_kernel(float *d_position_table, const T *d_output, size_t batch,
                             size_t context, size_t width)
{
    constexpr int LANES = lanes_of<T>::count;
    size_t position = blockIdx.x;
    size_t column = ((size_t)blockIdx.y * EMBEDDING_THREADS + threadIdx.x) * LANES;
    if (column >= width)
        return;
    float *to = d_position_table + position * width + column, sum[LANES];
    for (int i = 0; i < LANES; i++)
        sum[i] = column + i < width ? to[i] : 0.0f;
#pragma unroll 4
    for (size_t b = 0; b < batch; b++) {
        float d[LANES];
        load_pack<T, ALIGNED>(d, d_output + (b * context + position) * width + column,
                              width - column, 0.0f);
        for (int i = 0; i < LANES; i++)
            sum[i] += d[i];
    }
    for (int i = 0; i < LANES; i++)
        if (column + i < width)
            to[i] = sum[i];
}

template <typename T, bool ALIGNED>
static void backward(struct kernel_device *device, float *d_token_table, float *d_position_table,
                     const T *d_output, const int32_t *tokens, size_t batch, size_t context,
                     size_t width)
{
    unsigned column_blocks = blocks_for(width, EMBEDDING_THREADS * lanes_of<T>::count);
    dim3 token_grid((unsigned)(batch * context), column_blocks);
    dim3 position_grid((unsigned)context, column_blocks);

    LAUNCH((token_gradient_kernel<T, ALIGNED>), token_grid, EMBEDDING_THREADS, 0,
           device_stream(device), d_token_table, d_output, tokens, batch * context, width);
    DEVICE_LAUNCHED(device, "embedding_backward");
    if (!d_position_table)
        return;
    LAUNCH((position_gradient_kernel<T, ALIGNED>), position_grid, EMBEDDING_THREADS, 0,
           device_stream(device), d_position_table, d_output, batch, context, width);
    DEVICE_LAUNCHED(device, "embedding_backward");
}

template <typename T>
void cuda_embedding_forward(struct kernel_device *device, void *output, const int32_t *tokens,
                            const void *token_table, const void *position_table, size_t batch,
                            size_t context, size_t width)
{
    unsigned rows = (unsigned)(batch * context);

    if (rows == 0)
        return;
    if (width % lanes_of<T>::count == 0)
        LAUNCH((embedding_forward_kernel<T, true>), rows, EMBEDDING_THREADS, 0,
               device_stream(device), (T *)output, tokens, (const T *)token_table,
               (const T *)position_table, context, width);
    else
        LAUNCH((embedding_forward_kernel<T, false>), rows, EMBEDDING_THREADS, 0,
               device_stream(device), (T *)output, tokens, (const T *)token_table,
               (const T *)position_table, context, width);
    DEVICE_LAUNCHED(device, "embedding_forward");
}

template <typename T>
void cuda_embedding_backward(struct kernel_device *device, float *d_token_table,
                             float *d_position_table, const void *d_output, const int32_t *tokens,
                             size_t batch, size_t context, size_t width)
{
    if (batch * context == 0)
        return;
    if (width % lanes_of<T>::count == 0)
        backward<T, true>(device, d_token_table, d_position_table, (const T *)d_output, tokens,
                          batch, context, width);
    else
        backward<T, false>(device, d_token_table, d_position_table, (const T *)d_output, tokens,
                           batch, context, width);
}

#define INSTANTIATE(T)                                                                             \
    template void cuda_embedding_forward<T>(struct kernel_device *, void *, const int32_t *,       \
                                            const void *, const void *, size_t, size_t, size_t);   \
    template void cuda_embedding_backward<T>(struct kernel_device *, float *, float *,             \
                                             const void *, const int32_t *, size_t, size_t,        \
                                             size_t);
INSTANTIATE(float)
INSTANTIATE(bfloat)
