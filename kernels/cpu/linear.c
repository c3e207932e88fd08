/*
 * Linear layers: three matrix products.
 *
 * Invariant: the division of a product is a function of its shape and the number of threads alone.
 * Each thread computes whole columns (or rows) of the result with one call of OpenBLAS.
 */
#include "kernels/cpu/blas.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/vector.h"

#define GRAIN     64 /* columns or rows per share: a multiple of every OpenBLAS register tile */
#define ROW_GRAIN 16

static void rows_share(const void *context, size_t begin, size_t end,
                       struct device_scratch *scratch)
{
    struct blas_product p = *(const struct blas_product *)context;
    (void)scratch;
    p.m = end - begin;
    p.left += begin * (p.left_transposed ? 1 : p.left_stride);
    p.result += begin * p.result_stride;
    blas_multiply(&p);
}

static void columns_share(const void *context, size_t begin, size_t end,
                          struct device_scratch *scratch)
{
    struct blas_product p = *(const struct blas_product *)context;
    (void)scratch;
    p.n = end - begin;
    p.right += begin * (p.right_transposed ? p.right_stride : 1);
    p.result += begin;
    blas_multiply(&p);
}

/* Multiply. A matrix without a given stride is contiguous. */
static void multiply(struct kernel_device *device, struct blas_product p)
{
    if (p.left_stride == 0)
        p.left_stride = p.left_transposed ? p.m : p.k;
    if (p.right_stride == 0)
        p.right_stride = p.right_transposed ? p.k : p.n;
    if (p.result_stride == 0)
        p.result_stride = p.n;
    p.alpha = 1.0f;
    if (p.m > p.n)
        device_for(device, p.m, GRAIN, rows_share, &p);
    else
        device_for(device, p.n, GRAIN, columns_share, &p);
}

struct bias {
    float *output;
    const float *bias;
    float *d_bias;
    const float *d_output;
    size_t rows, width, stride; /* of the output and its gradient */
};

static void fill_share(const void *context, size_t begin, size_t end,
                       struct device_scratch *scratch)
{
    const struct bias *b = context;
    (void)scratch;
    for (size_t row = begin; row < end; row++)
        memcpy(b->output + row * b->stride, b->bias, b->width * sizeof(float));
}

/* Add a column's rows in index order, so the bits do not depend on the thread count. */
static void sum_columns(const struct bias *b, size_t column, size_t left)
{
    vec sum = vec_zero();
    for (size_t row = 0; row < b->rows; row++)
        sum = vec_add(sum, vec_load_part(b->d_output + row * b->stride + column, left, 0.0f));
    vec before = vec_load_part(b->d_bias + column, left, 0.0f);
    vec_store_part(b->d_bias + column, vec_add(before, sum), left);
}

static void sum_share(const void *context, size_t begin, size_t end, struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t column = begin; column < end; column += VEC_LANES)
        sum_columns(context, column, end - column);
}

void OPERATION(linear_forward)(struct kernel_device *device, void *output, const void *input,
                               const void *weight, const void *bias, struct kernel_linear shape)
{
    struct blas_product p = {.m = shape.rows,
                             .n = shape.out,
                             .k = shape.in,
                             .left = input,
                             .right = weight,
                             .right_transposed = shape.layout == KERNEL_WEIGHT_OUT_IN,
                             .beta = bias ? 1.0f : 0.0f,
                             .result = output,
                             .result_stride = kernel_linear_stride(&shape)};
    if (bias) {
        struct bias b = {.output = output,
                         .bias = bias,
                         .width = shape.out,
                         .stride = kernel_linear_stride(&shape)};
        device_for(device, shape.rows, ROW_GRAIN, fill_share, &b);
    }
    multiply(device, p);
}

/* The product is most of the work, so a fused GELU would save nothing.
 */
void OPERATION(linear_gelu_forward)(struct kernel_device *device, void *output, void *before,
                                    const void *input, const void *weight, const void *bias,
                                    struct kernel_linear shape)
{
    assert(kernel_linear_stride(&shape) == shape.out);
    OPERATION(linear_forward)(device, before, input, weight, bias, shape);
    OPERATION(gelu_forward)(device, output, before, shape.rows * shape.out);
}

static void input_gradient(struct kernel_device *device, float *d_input, const float *d_output,
                           const float *weight, const struct kernel_linear *shape)
{
    struct blas_product p = {.m = shape->rows,
                             .n = shape->in,
                             .k = shape->out,
                             .left = d_output,
                             .left_stride = kernel_linear_stride(shape),
                             .right = weight,
                             .right_transposed = shape->layout == KERNEL_WEIGHT_IN_OUT,
                             .result = d_input};
    multiply(device, p);
}

static void weight_gradient(struct kernel_device *device, float *d_weight, const float *d_output,
                            const float *input, const struct kernel_linear *shape)
{
    bool in_out = shape->layout == KERNEL_WEIGHT_IN_OUT;
    struct blas_product p = {.m = in_out ? shape->in : shape->out,
                             .n = in_out ? shape->out : shape->in,
                             .k = shape->rows,
                             .left = in_out ? input : d_output,
                             .right = in_out ? d_output : input,
                             .left_transposed = true,
                             .beta = 1.0f,
                             .result = d_weight};

    *(in_out ? &p.right_stride : &p.left_stride) = kernel_linear_stride(shape);
    multiply(device, p);
}

void OPERATION(linear_backward)(struct kernel_device *device, void *d_input, float *d_weight,
                                float *d_bias, const void *d_output, const void *input,
                                const void *weight, struct kernel_linear shape)
{
    if (d_input)
        input_gradient(device, d_input, d_output, weight, &shape);
    if (d_weight)
        weight_gradient(device, d_weight, d_output, input, &shape);
    if (d_bias) {
        struct bias b = {.d_bias = d_bias,
                         .d_output = d_output,
                         .rows = shape.rows,
                         .width = shape.out,
                         .stride = kernel_linear_stride(&shape)};
        device_for(device, shape.out, GRAIN, sum_share, &b);
    }
}

void OPERATION(linear_gelu_backward)(struct kernel_device *device, void *d_before, float *d_weight,
                                     float *d_bias, const void *d_output, const void *input,
                                     const void *before, const void *weight,
                                     struct kernel_linear shape)
{
    assert(kernel_linear_stride(&shape) == shape.out);
    OPERATION(linear_backward)(device, d_before, d_weight, d_bias, d_output, input, weight, shape);
    OPERATION(gelu_backward)(device, d_before, d_before, before, shape.rows * shape.in);
}
