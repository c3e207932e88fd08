/*
 * The base of every CUDA file of the backend: the runtime, a launch, bf16, 16-byte accesses and
 * sums over a warp or a block.
 *
 * Everything except the launch, inline assembly and conversions is plain C++, and cuda_runtime.h
 * can be replaced: tests/emulator has a runtime that runs each thread of a block as a coroutine on
 * the host. So index arithmetic, barriers and shared memory are tested without a GPU.
 *
 * Invariants: each sum has one order, a function of the shape alone. Pointers of tensors are
 * multiples of 16 bytes; rows need not be, so row operations take ALIGNED as a template argument
 * that follows from the width.
 */
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#endif

#ifndef LAUNCH /* the emulator has its own */
#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                     \
    kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#endif

#define WARP      32
#define FULL_WARP 0xffffffffu

/* bf16 as its bits: the upper half of an f32. */
struct bfloat {
    uint16_t bits;
};

template <typename To, typename From> __host__ __device__ inline To bits_as(From from)
{
    static_assert(sizeof(To) == sizeof(From), "a cast of bits keeps their number");
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

__host__ __device__ inline float to_float(float x)
{
    return x;
}

__host__ __device__ inline float to_float(bfloat x)
{
    return bits_as<float>((uint32_t)x.bits << 16);
}

/* Round to nearest, ties to even; NaN stays NaN. */
__host__ __device__ inline bfloat to_bfloat(float x)
{
#ifdef __CUDA_ARCH__
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
    uint32_t bits = bits_as<uint32_t>(x);
    if (x != x)
        return {0x7fff};
    return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
#endif
}

template <typename T> __host__ __device__ inline T from_float(float x);
template <> __host__ __device__ inline float from_float<float>(float x)
{
    return x;
}
template <> __host__ __device__ inline bfloat from_float<bfloat>(float x)
{
    return to_bfloat(x);
}

/* Elements of one 16-byte access. */
template <typename T> struct lanes_of {
    static constexpr int count = 16 / (int)sizeof(T);
};

/**
 * load_pack() - load the elements at @from as f32; past @left elements @fill ALIGNED: @from is a
 * multiple of 16 bytes, then a full pack is one access
 */
template <typename T, bool ALIGNED>
__device__ inline void load_pack(float (&ret)[lanes_of<T>::count], const T *from, size_t left,
                                 float fill)
{
    constexpr int LANES = lanes_of<T>::count;
    if (ALIGNED && left >= LANES) {
        uint4 bits = *(const uint4 *)from;
        T values[LANES];
        memcpy(values, &bits, sizeof(bits));
#pragma unroll
        for (int i = 0; i < LANES; i++)
            ret[i] = to_float(values[i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < LANES; i++)
        ret[i] = (size_t)i < left ? to_float(from[i]) : fill;
}

/** store_pack() - store the first @left elements of @values; as load_pack() */
template <typename T, bool ALIGNED>
__device__ inline void store_pack(T *to, const float (&values)[lanes_of<T>::count], size_t left)
{
    constexpr int LANES = lanes_of<T>::count;
    if (ALIGNED && left >= LANES) {
        T stored[LANES];
        uint4 bits;
#pragma unroll
        for (int i = 0; i < LANES; i++)
            stored[i] = from_float<T>(values[i]);
        memcpy(&bits, stored, sizeof(bits));
        *(uint4 *)to = bits;
        return;
    }
#pragma unroll
    for (int i = 0; i < LANES; i++)
        if ((size_t)i < left)
            to[i] = from_float<T>(values[i]);
}

/**
 * load_four() - load four elements at @from, a multiple of four elements from aligned memory, in
 * one access; past @left elements 0
 */
__device__ inline void load_four(float (&ret)[4], const float *from, size_t left)
{
    load_pack<float, true>(ret, from, left, 0.0f);
}
__device__ inline void load_four(float (&ret)[4], const bfloat *from, size_t left)
{
    bfloat values[4] = {};
    if (left >= 4) {
        uint64_t bits = *(const uint64_t *)from;
        memcpy(values, &bits, sizeof(bits));
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        ret[i] = left >= 4 ? to_float(values[i]) : (size_t)i < left ? to_float(from[i]) : 0.0f;
}

/** store_four() - store the first @left of four elements; as load_four() */
__device__ inline void store_four(float *to, const float (&values)[4], size_t left)
{
    store_pack<float, true>(to, values, left);
}
__device__ inline void store_four(bfloat *to, const bfloat (&values)[4], size_t left)
{
    if (left >= 4) {
        uint64_t bits;
        memcpy(&bits, values, sizeof(bits));
        *(uint64_t *)to = bits;
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        if ((size_t)i < left)
            to[i] = values[i];
}
__device__ inline void store_four(bfloat *to, const float (&values)[4], size_t left)
{
    bfloat rounded[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        rounded[i] = to_bfloat(values[i]);
    store_four(to, rounded, left);
}

/** warp_sum() - sum over a warp, with the same bits in every lane: a butterfly of additions, which
 * commute */
template <typename T> __device__ inline T warp_sum(T x)
{
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        x += __shfl_xor_sync(FULL_WARP, x, distance);
    return x;
}

__device__ inline float warp_highest(float x)
{
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        x = fmaxf(x, __shfl_xor_sync(FULL_WARP, x, distance));
    return x;
}

/**
 * block_sum() - sum one value per thread, with the same bits in every thread: warps, then their
 * sums in order
 * @scratch: shared memory, one element per warp; free again when the call returns
 */
template <int THREADS, typename T> __device__ inline T block_sum(T x, T *scratch)
{
    constexpr int WARPS = THREADS / WARP;
    x = warp_sum(x);
    if (threadIdx.x % WARP == 0)
        scratch[threadIdx.x / WARP] = x;
    __syncthreads();
    T sum = scratch[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++)
        sum += scratch[warp];
    __syncthreads();
    return sum;
}

/** block_highest() - return the highest value of a block; as block_sum() */
template <int THREADS> __device__ inline float block_highest(float x, float *scratch)
{
    constexpr int WARPS = THREADS / WARP;
    x = warp_highest(x);
    if (threadIdx.x % WARP == 0)
        scratch[threadIdx.x / WARP] = x;
    __syncthreads();
    float highest = scratch[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++)
        highest = fmaxf(highest, scratch[warp]);
    __syncthreads();
    return highest;
}

/** blocks_for() - return the number of blocks of @each that cover @count */
__host__ __device__ inline unsigned blocks_for(size_t count, size_t each)
{
    return (unsigned)((count + each - 1) / each);
}
