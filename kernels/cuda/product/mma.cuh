/*
 * Products of 16 x 16 by 16 x 8 bf16 blocks with f32 sums on a warp (PTX ISA, mma.m16n8k16), and
 * loading their operands from shared memory (ldmatrix).
 *
 * Of an accumulator (16 x 8), a lane has rows lane / 4 (elements 0, 1) and lane / 4 + 8 (2, 3),
 * columns 2 (lane % 4) and the next. Two accumulators side by side, rounded to bf16, are the left
 * operand (16 x 16) of the next product, so no data has to move between lanes.
 */
#pragma once

#include "kernels/cuda/platform.cuh"

struct mma_left {
    uint32_t words[4];
};

struct mma_right { /* two operands, 16 x 8 each, side by side */
    uint32_t words[4];
};

struct mma_sum {
    float at[4];
};

#ifdef __CUDACC__
__device__ inline void ldmatrix(uint32_t (&words)[4], const void *row)
{
    unsigned address = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}

__device__ inline void ldmatrix_transposed(uint32_t (&words)[4], const void *row)
{
    unsigned address = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}

__device__ inline void mma_words(float (&sum)[4], const uint32_t (&left)[4], uint32_t right0,
                                 uint32_t right1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}
#endif

/* Stored rows of the left operand are rows: lanes 0-15 name rows of its left half, 16-31 of its
 * right. */
__device__ inline unsigned mma_left_row(unsigned lane)
{
    return lane % 16;
}
__device__ inline unsigned mma_left_column(unsigned lane)
{
    return lane / 16 * 8;
}

/**
 * mma_load_left() - load rows [0, 16) x columns [0, 16) of a bf16 tile in shared memory
 * @stride: elements between rows; rows begin at multiples of 16 bytes
 */
__device__ inline mma_left mma_load_left(const bfloat *tile, unsigned stride)
{
    unsigned lane = threadIdx.x % WARP;
    mma_left left;
    ldmatrix(left.words, tile + mma_left_row(lane) * stride + mma_left_column(lane));
    return left;
}

/**
 * mma_load_right() - load right operands for columns 0-7 and 8-15, from a tile whose stored rows
 * are the operand's columns: 16 rows x 16 columns of the tile
 */
__device__ inline mma_right mma_load_right(const bfloat *tile, unsigned stride)
{
    unsigned lane = threadIdx.x % WARP;
    mma_right right;
    ldmatrix(right.words, tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
    return right;
}

/** mma_load_right_rows() - load the same from a tile whose stored rows are the operand's rows */
__device__ inline mma_right mma_load_right_rows(const bfloat *tile, unsigned stride)
{
    unsigned lane = threadIdx.x % WARP;
    mma_right right;
    ldmatrix_transposed(right.words, tile + lane % 16 * stride + lane / 16 * 8);
    return right;
}

/** mma_add() - add: two accumulators side by side += left right */
__device__ inline void mma_add(mma_sum &first, mma_sum &second, const mma_left &left,
                               const mma_right &right)
{
    mma_words(first.at, left.words, right.words[0], right.words[1]);
    mma_words(second.at, left.words, right.words[2], right.words[3]);
}

__device__ inline uint32_t mma_pack(float low, float high)
{
    return (uint32_t)to_bfloat(low).bits | (uint32_t)to_bfloat(high).bits << 16;
}

/** mma_left_of() - convert two accumulators side by side to a left operand */
__device__ inline mma_left mma_left_of(const mma_sum &first, const mma_sum &second)
{
    return {{mma_pack(first.at[0], first.at[1]), mma_pack(first.at[2], first.at[3]),
             mma_pack(second.at[0], second.at[1]), mma_pack(second.at[2], second.at[3])}};
}
