/* GELU, tanh form, and its derivative; the same formulas as kernels/cpu/gelu.c. */
#pragma once

#include "kernels/cuda/sigmoid.cuh"

#define GELU_LINEAR 0x1.988454p+0f /* 2 sqrt(2 / pi) */
#define GELU_CUBIC  0x1.2444f2p-4f /* LINEAR times 0.044715 */

__device__ inline float gelu(float x)
{
    float value, complement;
    sigmoid(x * (GELU_CUBIC * x * x + GELU_LINEAR), &value, &complement);
    return x * value;
}

__device__ inline float gelu_derivative(float x)
{
    float value, complement, square = x * x;
    sigmoid(x * (GELU_CUBIC * square + GELU_LINEAR), &value, &complement);
    return value * complement * (x * (3.0f * GELU_CUBIC * square + GELU_LINEAR)) + value;
}
