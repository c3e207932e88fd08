/*
 * Tiles of attention in shared memory. A block of four warps owns 64 rows (queries in forward and
 * for d_query, keys for d_key and d_value), each warp 16 of them, and processes the other side in
 * tiles. Rows past the context are zeros and are masked.
 *
 * Rows of a tile are padded by 16 bytes: the eight rows that ldmatrix reads at once then lie in
 * different banks.
 */
#pragma once

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/product/mma.cuh"

#define TILE_ROWS    64
#define TILE_WARPS   4
#define TILE_THREADS (TILE_WARPS * WARP)
#define TILE_PADDING 8

template <int DEPTH> struct tile_stride {
    static constexpr int value = DEPTH + TILE_PADDING;
};

template <int DEPTH> __host__ __device__ constexpr size_t tile_elements(int rows)
{
    return (size_t)rows * tile_stride<DEPTH>::value;
}

/**
 * tile_load() - load rows [first_row, first_row + ROWS) of a head into shared memory, zeros past
 * @row_count
 * @from: row 0 of the head; @stride: elements between its rows, a multiple of 8
 *
 * All threads of the block must call it; a barrier must follow before any thread reads.
 */
template <int DEPTH, int ROWS>
__device__ inline void tile_load(bfloat *tile, const bfloat *from, size_t stride,
                                 unsigned first_row, unsigned row_count)
{
    constexpr int PACKS = DEPTH / 8, EACH = ROWS * PACKS / TILE_THREADS;
    static_assert(ROWS * PACKS % TILE_THREADS == 0, "threads share a tile evenly");
    uint4 packs[EACH];

#pragma unroll
    for (int i = 0; i < EACH; i++) {
        unsigned index = threadIdx.x + i * TILE_THREADS, row = index / PACKS;
        packs[i] = uint4{0, 0, 0, 0};
        if (first_row + row < row_count)
            packs[i] =
                *(const uint4 *)(from + (size_t)(first_row + row) * stride + index % PACKS * 8);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        unsigned index = threadIdx.x + i * TILE_THREADS;
        *(uint4 *)(tile + index / PACKS * tile_stride<DEPTH>::value + index % PACKS * 8) = packs[i];
    }
}

/* Row (0 or 1: lane / 4 or that + 8) and column of element @element of an accumulator. */
__device__ inline unsigned sum_row(unsigned element)
{
    return threadIdx.x % WARP / 4 + element / 2 * 8;
}
__device__ inline unsigned sum_column(unsigned element)
{
    return threadIdx.x % 4 * 2 + element % 2;
}

/** tile_product() - compute sums (16 x COLUMNS) = 16 rows of @rows times all COLUMNS rows of
 * @columns */
template <int DEPTH, int COLUMNS>
__device__ inline void tile_product(mma_sum (&sums)[COLUMNS / 8], const bfloat *rows,
                                    const bfloat *columns)
{
    constexpr unsigned STRIDE = tile_stride<DEPTH>::value;
#pragma unroll
    for (int i = 0; i < COLUMNS / 8; i++)
        sums[i] = mma_sum{};
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        mma_left left = mma_load_left(rows + k, STRIDE);
#pragma unroll
        for (int n = 0; n < COLUMNS; n += 16)
            mma_add(sums[n / 8], sums[n / 8 + 1], left,
                    mma_load_right(columns + n * STRIDE + k, STRIDE));
    }
}

/** tile_accumulate() - add: sums (16 x DEPTH) += weights (16 x COUNT) times COUNT rows of @rows */
template <int DEPTH, int COUNT>
__device__ inline void tile_accumulate(mma_sum (&sums)[DEPTH / 8],
                                       const mma_sum (&weights)[COUNT / 8], const bfloat *rows)
{
    constexpr unsigned STRIDE = tile_stride<DEPTH>::value;
#pragma unroll
    for (int k = 0; k < COUNT; k += 16) {
        mma_left left = mma_left_of(weights[k / 8], weights[k / 8 + 1]);
#pragma unroll
        for (int n = 0; n < DEPTH; n += 16)
            mma_add(sums[n / 8], sums[n / 8 + 1], left,
                    mma_load_right_rows(rows + k * STRIDE + n, STRIDE));
    }
}

/** tile_store() - store 16 x DEPTH sums times one factor per row, to rows below @row_count of a
 * head */
template <int DEPTH>
__device__ inline void tile_store(bfloat *to, size_t stride, const mma_sum (&sums)[DEPTH / 8],
                                  const float (&factors)[2], unsigned first_row, unsigned row_count)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        unsigned row = first_row + sum_row(half * 2);
        if (row >= row_count)
            continue;
#pragma unroll
        for (int n = 0; n < DEPTH / 8; n++) {
            uint32_t pair = mma_pack(sums[n].at[half * 2] * factors[half],
                                     sums[n].at[half * 2 + 1] * factors[half]);
            *(uint32_t *)(to + (size_t)row * stride + n * 8 + sum_column(0)) = pair;
        }
    }
}

/* Sum over the four lanes that share a row of an accumulator. */
__device__ inline float quad_sum(float x)
{
    x += __shfl_xor_sync(FULL_WARP, x, 1);
    return x + __shfl_xor_sync(FULL_WARP, x, 2);
}
__device__ inline float quad_highest(float x)
{
    x = fmaxf(x, __shfl_xor_sync(FULL_WARP, x, 1));
    return fmaxf(x, __shfl_xor_sync(FULL_WARP, x, 2));
}
