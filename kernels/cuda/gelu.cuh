/* GELU, tanh form, and its derivative; the same formulas as kernels/cpu/gelu.c. */
#pragma once

#include "kernels/cuda/platform.cuh"

#define GELU_LINEAR 0x1.988454p+0f /* 2 sqrt(2 / pi) */
#define GELU_CUBIC  0x1.2444f2p-4f /* 0.044715 of it */

/* The sigmoid of @x and its complement, neither by cancellation. */
__device__ inline void gelu_sigmoid(float x, float *ret_value, float *ret_complement)
{
    float e = expf(-fabsf(x));
    float larger = 1.0f / (1.0f + e), smaller = e * larger;
    *ret_value = x < 0.0f ? smaller : larger;
    *ret_complement = x < 0.0f ? larger : smaller;
}

__device__ inline float gelu(float x)
{
    float value, complement;
    gelu_sigmoid(x * (GELU_CUBIC * x * x + GELU_LINEAR), &value, &complement);
    return x * value;
}

__device__ inline float gelu_derivative(float x)
{
    float value, complement, square = x * x;
    gelu_sigmoid(x * (GELU_CUBIC * square + GELU_LINEAR), &value, &complement);
    return value * complement * (x * (3.0f * GELU_CUBIC * square + GELU_LINEAR)) + value;
}
