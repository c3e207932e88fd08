/*
 * RMS norm. One warp per row, as in layernorm.cu: it reads the row from memory once, then from the
 * L1 cache. With a branch the first pass also makes the residual stream, in the type of the
 * activations, and normalizes the stored values: the bits are the same as with a separate addition.
 */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/operations.cuh"

#define ROW_WARPS 4

template <typename T, bool ALIGNED, bool BRANCH>
__global__ void __launch_bounds__(ROW_WARPS *WARP)
    rmsnorm_forward_kernel(T *output, float *rstd, T *sum, const T *input, const T *branch,
                           const T *weight, float epsilon, size_t rows, size_t width)
{
    constexpr int LANES = lanes_of<T>::count;
    unsigned lane = threadIdx.x % WARP;
    size_t row = (size_t)blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
    if (row >= rows) /* the whole warp */
        return;
    const T *x = input + row * width, *stream = BRANCH ? sum + row * width : x;
    float v[LANES], w[LANES], squares = 0.0f;

#pragma unroll 4
    for (size_t c = lane * LANES; c < width; c += WARP * LANES) {
        load_pack<T, ALIGNED>(v, x + c, width - c, 0.0f);
        if (BRANCH) {
            load_pack<T, ALIGNED>(w, branch + row * width + c, width - c, 0.0f);
            for (int i = 0; i < LANES; i++)
                v[i] = to_float(from_float<T>(v[i] + w[i]));
            store_pack<T, ALIGNED>(sum + row * width + c, v, width - c);
        }
        for (int i = 0; i < LANES; i++)
            squares += v[i] * v[i];
    }
    float scale = 1.0f / sqrtf(warp_sum(squares) / (float)width + epsilon);
#pragma unroll 2
    for (size_t c = lane * LANES; c < width; c += WARP * LANES) { /* lane reads its own writes */
        load_pack<T, ALIGNED>(v, stream + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(w, weight + c, width - c, 0.0f);
        for (int i = 0; i < LANES; i++)
            v[i] = v[i] * scale * w[i];
        store_pack<T, ALIGNED>(output + row * width + c, v, width - c);
    }
    if (lane == 0)
        rstd[row] = scale;
}

/* With g = d_output weight and n = x rstd: d_input += rstd (g - n mean(g n)) */
template <typename T, bool ALIGNED>
__global__ void __launch_bounds__(ROW_WARPS *WARP)
    rmsnorm_input_kernel(T *d_input, const T *d_output, const T *input, const T *weight,
                         const float *rstd, size_t rows, size_t width)
{
    constexpr int LANES = lanes_of<T>::count;
    unsigned lane = threadIdx.x % WARP;
    size_t row = (size_t)blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
    if (row >= rows)
        return;
    const T *x = input + row * width, *d = d_output + row * width;
    float v[LANES], g[LANES], w[LANES], scale = rstd[row], product = 0.0f;

#pragma unroll 2
    for (size_t c = lane * LANES; c < width; c += WARP * LANES) {
        load_pack<T, ALIGNED>(v, x + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(g, d + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(w, weight + c, width - c, 0.0f);
        for (int i = 0; i < LANES; i++)
            product += g[i] * w[i] * (v[i] * scale);
    }
    product = warp_sum(product) / (float)width;
    for (size_t c = lane * LANES; c < width; c += WARP * LANES) {
        float before[LANES];
        load_pack<T, ALIGNED>(before, d_input + row * width + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(v, x + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(g, d + c, width - c, 0.0f);
        load_pack<T, ALIGNED>(w, weight + c, width - c, 0.0f);
        for (int i = 0; i < LANES; i++)
            before[i] += scale * (g[i] * w[i] - v[i] * scale * product);
        store_pack<T, ALIGNED>(d_input + row * width + c, before, width - c);
    }
}

/* The gradient of the weight. */
template <typename T, bool ALIGNED> struct rmsnorm_terms {
    static constexpr int LANES = lanes_of<T>::count, COUNT = 1;
    const T *d_output, *input;
    const float *rstd;
    size_t width;

    __device__ void add(float (&sum)[COUNT][LANES], size_t row, size_t column, size_t left) const
    {
        float d[LANES], v[LANES];
        load_pack<T, ALIGNED>(d, d_output + row * width + column, left, 0.0f);
        load_pack<T, ALIGNED>(v, input + row * width + column, left, 0.0f);
#pragma unroll
        for (int i = 0; i < LANES; i++)
            sum[0][i] += d[i] * (v[i] * rstd[row]);
    }
};

template <typename T, bool ALIGNED>
static void forward(struct kernel_device *device, T *output, float *rstd, T *sum, const T *input,
                    const T *branch, const T *weight, float epsilon, size_t rows, size_t width)
{
    unsigned blocks = blocks_for(rows, ROW_WARPS);

    if (branch)
        LAUNCH((rmsnorm_forward_kernel<T, ALIGNED, true>), blocks, ROW_WARPS * WARP, 0,
               device_stream(device), output, rstd, sum, input, branch, weight, epsilon, rows,
               width);
    else
        LAUNCH((rmsnorm_forward_kernel<T, ALIGNED, false>), blocks, ROW_WARPS * WARP, 0,
               device_stream(device), output, rstd, sum, input, branch, weight, epsilon, rows,
               width);
    DEVICE_LAUNCHED(device, "rmsnorm_forward");
}

template <typename T, bool ALIGNED>
static void backward(struct kernel_device *device, T *d_input, float *d_weight, const T *d_output,
                     const T *input, const T *weight, const float *rstd, size_t rows, size_t width)
{
    rmsnorm_terms<T, ALIGNED> terms = {d_output, input, rstd, width};

    LAUNCH((rmsnorm_input_kernel<T, ALIGNED>), blocks_for(rows, ROW_WARPS), ROW_WARPS * WARP, 0,
           device_stream(device), d_input, d_output, input, weight, rstd, rows, width);
    DEVICE_LAUNCHED(device, "rmsnorm_backward");
    sum_columns(device, terms, d_weight, (float *)NULL, rows, width, "rmsnorm_backward");
}

template <typename T>
void cuda_rmsnorm_forward(struct kernel_device *device, void *output, float *rstd, void *sum,
                          const void *input, const void *branch, const void *weight, float epsilon,
                          size_t rows, size_t width)
{
    if (rows == 0)
        return;
    if (width % lanes_of<T>::count == 0)
        forward<T, true>(device, (T *)output, rstd, (T *)sum, (const T *)input, (const T *)branch,
                         (const T *)weight, epsilon, rows, width);
    else
        forward<T, false>(device, (T *)output, rstd, (T *)sum, (const T *)input, (const T *)branch,
                          (const T *)weight, epsilon, rows, width);
}

template <typename T>
void cuda_rmsnorm_backward(struct kernel_device *device, void *d_input, float *d_weight,
                           const void *d_output, const void *input, const void *weight,
                           const float *rstd, size_t rows, size_t width)
{
    if (rows == 0)
        return;
    if (width % lanes_of<T>::count == 0)
        backward<T, true>(device, (T *)d_input, d_weight, (const T *)d_output, (const T *)input,
                          (const T *)weight, rstd, rows, width);
    else
        backward<T, false>(device, (T *)d_input, d_weight, (const T *)d_output, (const T *)input,
                           (const T *)weight, rstd, rows, width);
}

#define INSTANTIATE(T)                                                                             \
    template void cuda_rmsnorm_forward<T>(struct kernel_device *, void *, float *, void *,         \
                                          const void *, const void *, const void *, float, size_t, \
                                          size_t);                                                 \
    template void cuda_rmsnorm_backward<T>(struct kernel_device *, void *, float *, const void *,  \
                                           const void *, const void *, const float *, size_t,      \
                                           size_t);
INSTANTIATE(float)
INSTANTIATE(bfloat)
