/*
 * Layer norm. Forward and the input's gradient: one warp per row reads the row from memory once,
 * then from the L1 cache; the mean is subtracted before squares are added. With a branch the first
 * pass also makes the residual stream, in the type of the activations, and the stored values are
 * normalized: the bits are the same as with a separate addition. The gradients of weight and bias
 * are sums over rows (columns.cuh).
 */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/operations.cuh"

#define ROW_WARPS 4
#define EPSILON   1e-5f

template <typename T, bool ALIGNED, bool BRANCH>
__global__ void __launch_bounds__(ROW_WARPS *WARP)
    layernorm_forward_kernel(T *output, float *mean, float *rstd, T *stream, const T *input,
                             const T *branch, const T *weight, const T *bias, size_t rows,
                             size_t width)
{
    constexpr int LANES = lanes_of<T>::count;
    unsigned lane = threadIdx.x % WARP;
    size_t row = (size_t)blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
    if (row >= rows) /* the whole warp */
        return;
    const T *x = (BRANCH ? stream : input) + row * width; /* each lane reads its own writes */
    float v[LANES], w[LANES], b[LANES], sum = 0.0f, squares = 0.0f;

#pragma unroll 4
    for (size_t c = lane * LANES; c < width; c += WARP * LANES) {
        load_pack<T, ALIGNED>(v, input + row * width + c, width - c, 0.0f);
        if (BRANCH) {
            load_pack<T, ALIGNED>(b, branch + row * width + c, width - c, 0.0f);
            for (int i = 0; i < LANES; i++)
                v[i] = to_float(from_float<T>(v[i] + b[i]));
            store_pack<T, ALIGNED>(stream + row * width + c, v, width - c);
        }
        for (int i = 0; i < LANES; i++)
            sum += v[i];
    }
    float average = warp_sum(sum) / (float)width;
#pragma unroll 4
    for (size_t c = lane * LANES; c < width; c += WARP * LANES) {
        load_pack<T, ALIGNED>(v, x + c, width - c, average);
        for (int i = 0; i < LANES; i++)
            squares += (v[i] - average) * (v[i] - average);
    }
    float scale = 1.0f / sqrtf(warp_sum(squares) / (float)width + EPSILON);
    for (size_t c = lane * LANES; c < width; c += WARP * LANES) {
        load_pack<T, ALIGNED>(v, x + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(w, weight + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(b, bias + c, width - c, 0.0f);
        for (int i = 0; i < LANES; i++)
            v[i] = (v[i] - average) * scale * w[i] + b[i];
        store_pack<T, ALIGNED>(output + row * width + c, v, width - c);
    }
    if (lane == 0) {
        mean[row] = average;
        rstd[row] = scale;
    }
}

/* With g = d_output weight and n = (x - mean) rstd: d_input += rstd (g - mean(g) - n mean(g n)) */
template <typename T, bool ALIGNED>
__global__ void __launch_bounds__(ROW_WARPS *WARP)
    layernorm_input_kernel(T *d_input, const T *d_output, const T *input, const T *weight,
                           const float *mean, const float *rstd, size_t rows, size_t width)
{
    constexpr int LANES = lanes_of<T>::count;
    unsigned lane = threadIdx.x % WARP;
    size_t row = (size_t)blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
    if (row >= rows)
        return;
    const T *x = input + row * width, *d = d_output + row * width;
    float average = mean[row], scale = rstd[row];
    float v[LANES], g[LANES], w[LANES], sum = 0.0f, product = 0.0f;

#pragma unroll 2
    for (size_t c = lane * LANES; c < width; c += WARP * LANES) {
        load_pack<T, ALIGNED>(v, x + c, width - c, average);
        load_pack<T, ALIGNED>(g, d + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(w, weight + c, width - c, 0.0f);
        for (int i = 0; i < LANES; i++) {
            sum += g[i] * w[i];
            product += g[i] * w[i] * ((v[i] - average) * scale);
        }
    }
    sum = warp_sum(sum) / (float)width;
    product = warp_sum(product) / (float)width;
    for (size_t c = lane * LANES; c < width; c += WARP * LANES) {
        float before[LANES];
        load_pack<T, ALIGNED>(before, d_input + row * width + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(v, x + c, width - c, average);
        load_pack<T, ALIGNED>(g, d + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(w, weight + c, width - c, 0.0f);
        for (int i = 0; i < LANES; i++) {
            float normal = (v[i] - average) * scale;
            before[i] += scale * (g[i] * w[i] - sum - normal * product);
        }
        store_pack<T, ALIGNED>(d_input + row * width + c, before, width - c);
    }
}

/* The gradients of weight and bias. */
template <typename T, bool ALIGNED> struct layernorm_terms {
    static constexpr int LANES = lanes_of<T>::count, COUNT = 2;
    const T *d_output, *input;
    const float *mean, *rstd;
    size_t width;

    __device__ void add(float (&sum)[COUNT][LANES], size_t row, size_t column, size_t left) const
    {
        float d[LANES], v[LANES];
        load_pack<T, ALIGNED>(d, d_output + row * width + column, left, 0.0f);
        load_pack<T, ALIGNED>(v, input + row * width + column, left, 0.0f);
#pragma unroll
        for (int i = 0; i < LANES; i++) {
            sum[0][i] += d[i] * ((v[i] - mean[row]) * rstd[row]);
            sum[1][i] += d[i];
        }
    }
};

template <typename T, bool ALIGNED>
static void forward(struct kernel_device *device, T *output, float *mean, float *rstd, T *sum,
                    const T *input, const T *branch, const T *weight, const T *bias, size_t rows,
                    size_t width)
{
    unsigned blocks = blocks_for(rows, ROW_WARPS);

    if (branch)
        LAUNCH((layernorm_forward_kernel<T, ALIGNED, true>), blocks, ROW_WARPS * WARP, 0,
               device_stream(device), output, mean, rstd, sum, input, branch, weight, bias, rows,
               width);
    else
        LAUNCH((layernorm_forward_kernel<T, ALIGNED, false>), blocks, ROW_WARPS * WARP, 0,
               device_stream(device), output, mean, rstd, sum, input, branch, weight, bias, rows,
               width);
    DEVICE_LAUNCHED(device, "layernorm_forward");
}

template <typename T, bool ALIGNED>
static void backward(struct kernel_device *device, T *d_input, float *d_weight, float *d_bias,
                     const T *d_output, const T *input, const T *weight, const float *mean,
                     const float *rstd, size_t rows, size_t width)
{
    layernorm_terms<T, ALIGNED> terms = {d_output, input, mean, rstd, width};

    LAUNCH((layernorm_input_kernel<T, ALIGNED>), blocks_for(rows, ROW_WARPS), ROW_WARPS * WARP, 0,
           device_stream(device), d_input, d_output, input, weight, mean, rstd, rows, width);
    DEVICE_LAUNCHED(device, "layernorm_backward");
    sum_columns(device, terms, d_weight, d_bias, rows, width, "layernorm_backward");
}

template <typename T>
void cuda_layernorm_forward(struct kernel_device *device, void *output, float *mean, float *rstd,
                            void *sum, const void *input, const void *branch, const void *weight,
                            const void *bias, size_t rows, size_t width)
{
    if (rows == 0)
        return;
    if (width % lanes_of<T>::count == 0)
        forward<T, true>(device, (T *)output, mean, rstd, (T *)sum, (const T *)input,
                         (const T *)branch, (const T *)weight, (const T *)bias, rows, width);
    else
        forward<T, false>(device, (T *)output, mean, rstd, (T *)sum, (const T *)input,
                          (const T *)branch, (const T *)weight, (const T *)bias, rows, width);
}

template <typename T>
void cuda_layernorm_backward(struct kernel_device *device, void *d_input, float *d_weight,
                             float *d_bias, const void *d_output, const void *input,
                             const void *weight, const float *mean, const float *rstd, size_t rows,
                             size_t width)
{
    if (rows == 0)
        return;
    if (width % lanes_of<T>::count == 0)
        backward<T, true>(device, (T *)d_input, d_weight, d_bias, (const T *)d_output,
                          (const T *)input, (const T *)weight, mean, rstd, rows, width);
    else
        backward<T, false>(device, (T *)d_input, d_weight, d_bias, (const T *)d_output,
                           (const T *)input, (const T *)weight, mean, rstd, rows, width);
}

#define INSTANTIATE(T)                                                                             \
    template void cuda_layernorm_forward<T>(struct kernel_device *, void *, float *, float *,      \
                                            void *, const void *, const void *, const void *,      \
                                            const void *, size_t, size_t);                         \
    template void cuda_layernorm_backward<T>(struct kernel_device *, void *, float *, float *,     \
                                             const void *, const void *, const void *,             \
                                             const float *, const float *, size_t, size_t);
INSTANTIATE(float)
INSTANTIATE(bfloat)
