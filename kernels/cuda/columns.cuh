/*
 * Sums over the rows of a matrix, column by column, added to f32 gradients: biases and the
 * parameters of norms. There are two steps, without atomics. First each block adds COLUMN_ROWS rows
 * (more if there would be more than COLUMN_PARTS_MAX parts, or more than fit the workspace) of
 * COLUMN_THREADS packs of columns in index order. Then each column's parts are added in index
 * order, and the sum is added to the gradient. The order follows from the shape.
 *
 * A Terms gives the summands of a row and a pack of columns: TERMS sums at once.
 */
#pragma once

#include "kernels/cuda/device.cuh"

#define COLUMN_THREADS   32
#define COLUMN_WARPS     4
#define COLUMN_ROWS      64
#define COLUMN_PARTS_MAX 256

struct column_parts {
    size_t rows_each;
    unsigned count;
};

/* @part_bytes: bytes of a part in the workspace; at most the whole workspace */
inline struct column_parts column_parts_of(size_t rows, size_t part_bytes)
{
    size_t room = CUDA_WORKSPACE_BYTES / part_bytes;
    size_t parts = room < COLUMN_PARTS_MAX ? room : COLUMN_PARTS_MAX;
    size_t each = (rows + parts - 1) / parts;
    each = each < COLUMN_ROWS ? COLUMN_ROWS : each;
    return {each, blocks_for(rows, each)};
}

/* partials: (parts, TERMS, width); grid (column packs / COLUMN_THREADS, parts). The warps of a
   block take every COLUMN_WARPS-th row; their sums are added in the warps' order. */
template <typename Terms>
__global__ void __launch_bounds__(COLUMN_THREADS *COLUMN_WARPS)
    column_partials_kernel(Terms terms, float *partials, size_t rows, size_t width,
                           size_t rows_each)
{
    constexpr int LANES = Terms::LANES, COUNT = Terms::COUNT;
    __shared__ float sums[COLUMN_WARPS][COUNT][COLUMN_THREADS][LANES];
    unsigned lane = threadIdx.x % COLUMN_THREADS, warp = threadIdx.x / COLUMN_THREADS;
    size_t column = ((size_t)blockIdx.x * COLUMN_THREADS + lane) * LANES;
    size_t begin = (size_t)blockIdx.y * rows_each;
    size_t end = begin + rows_each < rows ? begin + rows_each : rows;
    float sum[COUNT][LANES] = {};

    if (column < width) {
#pragma unroll 4
        for (size_t row = begin + warp; row < end; row += COLUMN_WARPS)
            terms.add(sum, row, column, width - column);
    }
#pragma unroll
    for (int term = 0; term < COUNT; term++)
#pragma unroll
        for (int i = 0; i < LANES; i++)
            sums[warp][term][lane][i] = sum[term][i];
    __syncthreads();
    if (warp != 0)
        return;
    for (int term = 0; term < COUNT; term++)
        for (int i = 0; i < LANES; i++) {
            float total = sums[0][term][lane][i];
            for (int other = 1; other < COLUMN_WARPS; other++)
                total += sums[other][term][lane][i];
            if (column + i < width)
                partials[((size_t)blockIdx.y * COUNT + term) * width + column + i] = total;
        }
}

/* d_a, d_b (width): accumulated; d_b NULL with one term */
template <int COUNT>
__global__ void column_finish_kernel(float *d_a, float *d_b, const float *partials, size_t width,
                                     unsigned parts)
{
    size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width)
        return;
    float a = 0.0f, b = 0.0f;
#pragma unroll 16 /* loads in flight: a few blocks run this, one sum after the other */
    for (unsigned part = 0; part < parts; part++) {
        a += partials[(size_t)part * COUNT * width + column];
        if (COUNT > 1)
            b += partials[((size_t)part * COUNT + 1) * width + column];
    }
    d_a[column] += a;
    if (COUNT > 1)
        d_b[column] += b;
}

#define COLUMN_FINISH_THREADS 128

template <typename Terms>
void sum_columns(struct kernel_device *device, Terms terms, float *d_a, float *d_b, size_t rows,
                 size_t width, const char *call)
{
    size_t part_bytes = Terms::COUNT * width * sizeof(float);
    float *partials = (float *)device->workspace;

    if (rows == 0)
        return;
    if (part_bytes > CUDA_WORKSPACE_BYTES) {
        device_fail(device, call, "rows too wide for the workspace");
        return;
    }
    struct column_parts parts = column_parts_of(rows, part_bytes);
    dim3 grid(blocks_for(width, COLUMN_THREADS * Terms::LANES), parts.count);

    LAUNCH(column_partials_kernel<Terms>, grid, COLUMN_THREADS * COLUMN_WARPS, 0,
           device_stream(device), terms, partials, rows, width, parts.rows_each);
    DEVICE_LAUNCHED(device, call);
    LAUNCH(column_finish_kernel<Terms::COUNT>, blocks_for(width, COLUMN_FINISH_THREADS),
           COLUMN_FINISH_THREADS, 0, device_stream(device), d_a, d_b, partials, width, parts.count);
    DEVICE_LAUNCHED(device, call);
}
