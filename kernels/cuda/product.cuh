/*
 * Matrix products by cuBLASLt, exact.
 *
 * Problem: cuBLASLt has many algorithms for a product; some divide the inner dimension and add the
 * parts by atomics, and which one is best it tells by a heuristic.
 *
 * Design: no reduction scheme is allowed but none at all; the workspace has a fixed size;
 * alignments are declared, not looked up from addresses. Then the heuristic's first answer is a
 * function of shape, device and library version. It is asked once for each shape and kept with its
 * configuration, which describe() tells. Shapes for which cuBLASLt knows nothing are computed by a
 * plain kernel, again by shape alone.
 */
#pragma once

#include "kernels/cuda/device.cuh"

enum product_epilogue { PRODUCT_PLAIN, PRODUCT_BIAS, PRODUCT_GELU };

/* result (m,n) = left (m,k) right (k,n) [+ result], column-major as in BLAS; a transposed side is
   stored as (k,m) or (n,k). Leading dimensions are the stored numbers of rows. */
struct product {
    size_t m, n, k;
    bool left_transposed, right_transposed;
    bool bf16_inputs, bf16_result; /* else f32 */
    bool accumulate;
    enum product_epilogue epilogue;
    const void *left, *right;
    void *result;
    const void *bias; /* (m), of the result's type; PRODUCT_BIAS and PRODUCT_GELU */
    void *before;     /* PRODUCT_GELU: (m,n), what GELU was applied to */
};

void product_run(struct kernel_device *device, const struct product *product);

/** product_describe() - the algorithm of each shape so far, one line each; cut off at @size */
void product_describe(const struct kernel_device *device, char *ret_text, size_t size);

/** product_plain() - the kernel for shapes that cuBLASLt does not know */
void product_plain(struct kernel_device *device, const struct product *product);
