/*
 * Matrix products by cuBLASLt, exact.
 *
 * Problem: cuBLASLt has many algorithms for a product; some divide the inner dimension and add the
 * parts to the result in any order. A heuristic proposes the best one.
 *
 * Design: if the inner dimension is divided, which keeps a device busy for gradients of small
 * weights, the parts go to the workspace in f32 and a second kernel adds them
 * (CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE). No other scheme is allowed. The workspace has a fixed
 * size; alignments are declared, not taken from addresses. So the heuristic's first answer is a
 * function of shape, device and library version. It is requested once per shape and kept with its
 * configuration, which describe() prints. A plain kernel computes the shapes for which cuBLASLt has
 * no algorithm, again by shape alone. If only the GELU epilogue is missing, GELU is a separate
 * kernel.
 */
#pragma once

#include "kernels/cuda/device.cuh"

enum product_epilogue {
    PRODUCT_PLAIN,
    PRODUCT_BIAS,
    PRODUCT_GELU,         /* of product and bias */
    PRODUCT_GELU_GRADIENT /* the product times GELU's derivative at GELU's input */
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
    void *before;     /* GELU's input, laid out as the result: PRODUCT_GELU writes it,
                         PRODUCT_GELU_GRADIENT reads it */
};

void product_run(struct kernel_device *device, const struct product *product);

/** product_is_known() - return whether cuBLASLt has an algorithm for the product with its epilogue;
 * the answer is kept like any choice. Use GELU epilogues only on true: product_plain() has none. */
bool product_is_known(struct kernel_device *device, const struct product *product);

/** product_describe() - write the algorithm of each shape so far, one line each; cut off at @size
 */
void product_describe(const struct kernel_device *device, char *ret_text, size_t size);

/** product_plain() - compute a shape for which cuBLASLt has no algorithm; leading dimensions are
 * set
 */
void product_plain(struct kernel_device *device, const struct product *product);
