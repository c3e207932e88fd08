/*
 * Matrix products by cuBLASLt, exact.
 *
 * Problem: cuBLASLt has many algorithms for a product; some divide the inner dimension and add the
 * parts in the result as they come, and which one is best it tells by a heuristic.
 *
 * Design: where the inner dimension is divided, which gradients of small weights need to keep a
 * device busy, the parts go to the workspace in f32 and a second kernel adds them
 * (CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE); no other scheme is allowed. The workspace has a fixed
 * size; alignments are declared, not looked up from addresses. Then the heuristic's first answer is
 * a function of shape, device and library version. It is asked once for each shape and kept with
 * its configuration, which describe() tells. Shapes for which cuBLASLt knows nothing are computed
 * by a plain kernel, again by shape alone; where only GELU is unknown, GELU goes by itself.
 */
#pragma once

#include "kernels/cuda/device.cuh"

enum product_epilogue {
    PRODUCT_PLAIN,
    PRODUCT_BIAS,
    PRODUCT_GELU,         /* of product and bias */
    PRODUCT_GELU_GRADIENT /* the product times GELU's derivative where it was applied */
};

/* result (m,n) = left (m,k) right (k,n) [+ result], column-major as in BLAS; a transposed side is
   stored as (k,m) or (n,k). */
struct product {
    size_t m, n, k;
    /* Elements from one stored column to the next; 0: the stored number of rows. */
    size_t left_leading, right_leading, result_leading;
    bool left_transposed, right_transposed;
    bool bf16_inputs, bf16_result; /* else f32 */
    bool accumulate;
    enum product_epilogue epilogue;
    const void *left, *right;
    void *result;
    const void *bias; /* (m), of the result's type; PRODUCT_BIAS and PRODUCT_GELU */
    void *before;     /* what GELU is applied to, as the result lies: PRODUCT_GELU writes it,
                         PRODUCT_GELU_GRADIENT reads it */
};

void product_run(struct kernel_device *device, const struct product *product);

/** product_is_known() - whether cuBLASLt has an algorithm for it, with its epilogue; the answer is
 * kept as any choice is. GELU is asked for only where it has: product_plain() makes none. */
bool product_is_known(struct kernel_device *device, const struct product *product);

/** product_describe() - the algorithm of each shape so far, one line each; cut off at @size */
void product_describe(const struct kernel_device *device, char *ret_text, size_t size);

/** product_plain() - the kernel for shapes that cuBLASLt does not know; leading dimensions are set
 */
void product_plain(struct kernel_device *device, const struct product *product);
