/*
 * Linear layers. A row-major matrix (N,O) is the column-major (O,N), so each product is computed
 * transposed: output^T (O,N) = weight^T (O,I) input^T (I,N), and the bias runs along the rows.
 */
#include <type_traits>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/operations.cuh"
#include "kernels/cuda/product/product.cuh"

/* GELU's epilogues need 16-byte aligned rows of the GELU input, which they write or read. */
#define EPILOGUE_ALIGN 8

/* Return whether cuBLASLt computes GELU. Its accuracy is not documented, so in f32 our own accurate
 * GELU is used. */
static bool takes_gelu(struct kernel_device *device, const struct product *p, size_t width)
{
    return device->precision != CUDA_F32 && width % EPILOGUE_ALIGN == 0 &&
           product_is_known(device, p);
}

template <typename T> static constexpr bool is_bf16()
{
    return std::is_same<T, bfloat>::value;
}

template <typename T>
static struct product forward_product(const void *input, const void *weight,
                                      const struct kernel_linear *shape)
{
    struct product p = {};
    p.m = shape->out;
    p.n = shape->rows;
    p.k = shape->in;
    p.left = weight; /* IN_OUT is stored as (O,I) column-major, OUT_IN as (I,O) */
    p.left_transposed = shape->layout == KERNEL_WEIGHT_OUT_IN;
    p.right = input;
    p.bf16_inputs = p.bf16_result = is_bf16<T>();
    return p;
}

template <typename T>
void cuda_linear_forward(struct kernel_device *device, void *output, const void *input,
                         const void *weight, const void *bias, struct kernel_linear shape)
{
    struct product p = forward_product<T>(input, weight, &shape);
    p.result = output;
    p.result_leading = kernel_linear_stride(&shape);
    p.bias = bias;
    p.epilogue = bias ? PRODUCT_BIAS : PRODUCT_PLAIN;
    product_run(device, &p);
}

template <typename T>
void cuda_linear_gelu_forward(struct kernel_device *device, void *output, void *before,
                              const void *input, const void *weight, const void *bias,
                              struct kernel_linear shape)
{
    struct product p = forward_product<T>(input, weight, &shape);
    p.result = output;
    p.before = before;
    p.bias = bias;
    p.epilogue = PRODUCT_GELU;
    if (takes_gelu(device, &p, shape.out)) {
        product_run(device, &p);
        return;
    }
    cuda_linear_forward<T>(device, before, input, weight, bias, shape);
    cuda_gelu_forward<T>(device, output, before, shape.rows * shape.out);
}

/* d_input^T (I,N) = weight (I,O) d_output^T (O,N) */
template <typename T>
static struct product input_product(void *d_input, const void *d_output, const void *weight,
                                    const struct kernel_linear *shape)
{
    struct product p = {};
    p.m = shape->in;
    p.n = shape->rows;
    p.k = shape->out;
    p.left = weight;
    p.left_transposed = shape->layout == KERNEL_WEIGHT_IN_OUT;
    p.right = d_output;
    p.right_leading = kernel_linear_stride(shape);
    p.result = d_input;
    p.bf16_inputs = p.bf16_result = is_bf16<T>();
    return p;
}

/* IN_OUT: d_weight^T (O,I) += d_output^T (O,N) input (N,I); OUT_IN the other way round. */
template <typename T>
static void weight_gradient(struct kernel_device *device, float *d_weight, const void *d_output,
                            const void *input, const struct kernel_linear *shape)
{
    bool in_out = shape->layout == KERNEL_WEIGHT_IN_OUT;
    struct product p = {};
    p.m = in_out ? shape->out : shape->in;
    p.n = in_out ? shape->in : shape->out;
    p.k = shape->rows;
    p.left = in_out ? d_output : input;
    p.right = in_out ? input : d_output;
    p.right_transposed = true;
    *(in_out ? &p.left_leading : &p.right_leading) = kernel_linear_stride(shape);
    p.result = d_weight;
    p.accumulate = true;
    p.bf16_inputs = is_bf16<T>();
    product_run(device, &p);
}

template <typename T, bool ALIGNED> struct bias_terms {
    static constexpr int LANES = lanes_of<T>::count, COUNT = 1;
    const T *d_output;
    size_t stride;

    __device__ void add(float (&sum)[COUNT][LANES], size_t row, size_t column, size_t left) const
    {
        float d[LANES];
        load_pack<T, ALIGNED>(d, d_output + row * stride + column, left, 0.0f);
#pragma unroll
        for (int i = 0; i < LANES; i++)
            sum[0][i] += d[i];
    }
};

template <typename T>
static void bias_gradient(struct kernel_device *device, float *d_bias, const void *d_output,
                          const struct kernel_linear *shape)
{
    size_t stride = kernel_linear_stride(shape);

    if (stride % lanes_of<T>::count == 0) {
        bias_terms<T, true> terms = {(const T *)d_output, stride};
        sum_columns(device, terms, d_bias, nullptr, shape->rows, shape->out, "linear_backward");
    } else {
        bias_terms<T, false> terms = {(const T *)d_output, stride};
        sum_columns(device, terms, d_bias, nullptr, shape->rows, shape->out, "linear_backward");
    }
}

template <typename T>
void cuda_linear_backward(struct kernel_device *device, void *d_input, float *d_weight,
                          float *d_bias, const void *d_output, const void *input,
                          const void *weight, struct kernel_linear shape)
{
    if (d_input != NULL) {
        struct product p = input_product<T>(d_input, d_output, weight, &shape);
        product_run(device, &p);
    }
    if (d_weight != NULL)
        weight_gradient<T>(device, d_weight, d_output, input, &shape);
    if (d_bias != NULL)
        bias_gradient<T>(device, d_bias, d_output, &shape);
}

template <typename T>
void cuda_linear_gelu_backward(struct kernel_device *device, void *d_before, float *d_weight,
                               float *d_bias, const void *d_output, const void *input,
                               const void *before, const void *weight, struct kernel_linear shape)
{
    struct product p = input_product<T>(d_before, d_output, weight, &shape);
    p.epilogue = PRODUCT_GELU_GRADIENT;
    p.before = (void *)before; /* read only */
    bool known = takes_gelu(device, &p, shape.in);

    if (known)
        product_run(device, &p);
    cuda_linear_backward<T>(device, known ? NULL : d_before, d_weight, d_bias, d_output, input,
                            weight, shape);
    if (!known)
        cuda_gelu_backward<T>(device, d_before, d_before, before, shape.rows * shape.in);
}

#define INSTANTIATE(T)                                                                             \
    template void cuda_linear_forward<T>(struct kernel_device *, void *, const void *,             \
                                         const void *, const void *, struct kernel_linear);        \
    template void cuda_linear_gelu_forward<T>(struct kernel_device *, void *, void *,              \
                                              const void *, const void *, const void *,            \
                                              struct kernel_linear);                               \
    template void cuda_linear_backward<T>(struct kernel_device *, void *, float *, float *,        \
                                          const void *, const void *, const void *,                \
                                          struct kernel_linear);                                   \
    template void cuda_linear_gelu_backward<T>(struct kernel_device *, void *, float *, float *,   \
                                               const void *, const void *, const void *,           \
                                               const void *, struct kernel_linear);
INSTANTIATE(float)
INSTANTIATE(bfloat)
