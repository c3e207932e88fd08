/*
 * Matrix products by OpenBLAS, always on the calling thread.
 *
 * Problem: OpenBLAS divides a product among threads of its own. The number of these threads depends
 * on state of the calling thread (OpenMP keeps one count per thread, and a new thread begins with
 * all cores) and on concurrent callers. The bits of a product can depend on the division.
 *
 * Design: the team of the device divides the work (device.h), and every call resets its thread's
 * count to one. The sum over the inner dimension is never divided.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* result (m,n) = alpha left (m,k) right (k,n) + beta result, all row-major f32; a transposed side
   is stored as (k,m) or (n,k). Strides are between stored rows. */
struct blas_product {
    size_t m, n, k;
    const float *left, *right;
    size_t left_stride, right_stride, result_stride;
    bool left_transposed, right_transposed;
    float alpha, beta; /* with beta 0 the result is not read and may have any content, even NaN */
    float *result;
};

/** blas_multiply() - multiply; dimensions and strides at most INT_MAX */
void blas_multiply(const struct blas_product *product);
