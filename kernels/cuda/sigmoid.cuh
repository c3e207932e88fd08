/* The sigmoid, as in kernels/cpu/vector_math.h. */
#pragma once

#include "kernels/cuda/platform.cuh"

/** sigmoid() - compute the sigmoid of @x and its complement, both without cancellation */
__device__ inline void sigmoid(float x, float *ret_value, float *ret_complement)
{
    float e = expf(-fabsf(x));
    float larger = 1.0f / (1.0f + e), smaller = e * larger;
    *ret_value = x < 0.0f ? smaller : larger;
    *ret_complement = x < 0.0f ? larger : smaller;
}
