/*
 * RMS norm of each head of queries and keys, inside the rows of q|k|v. One warp per head: it reads
 * the head once from memory and once from the L1 cache. Warps of values copy.
 */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/operations.cuh"

#define HEAD_WARPS 4

/* The layout of heads: rows of heads + 2 * kv_heads heads of depth columns. */
struct head_rows {
    size_t rows, heads, kv_heads, depth;

    __host__ __device__ size_t stride() const
    {
        return (heads + 2 * kv_heads) * depth;
    }
    __host__ __device__ size_t norms() const
    {
        return heads + kv_heads;
    }
};

template <typename T, bool ALIGNED>
__global__ void __launch_bounds__(HEAD_WARPS *WARP)
    headnorm_forward_kernel(T *output, float *rstd, const T *qkv, const T *q_weight,
                            const T *k_weight, float epsilon, struct head_rows h)
{
    constexpr int LANES = lanes_of<T>::count;
    size_t lane = threadIdx.x % WARP, all = h.heads + 2 * h.kv_heads;
    size_t index = (size_t)blockIdx.x * HEAD_WARPS + threadIdx.x / WARP;
    if (index >= h.rows * all) /* the whole warp */
        return;
    size_t row = index / all, head = index % all;
    const T *x = qkv + index * h.depth, *weight = head < h.heads ? q_weight : k_weight;
    T *y = output + index * h.depth;
    float v[LANES], w[LANES], squares = 0.0f;

    if (head >= h.norms()) {
        for (size_t c = lane * LANES; c < h.depth; c += WARP * LANES) {
            load_pack<T, ALIGNED>(v, x + c, h.depth - c, 0.0f);
            store_pack<T, ALIGNED>(y + c, v, h.depth - c);
        }
        return;
    }
    for (size_t c = lane * LANES; c < h.depth; c += WARP * LANES) {
        load_pack<T, ALIGNED>(v, x + c, h.depth - c, 0.0f);
        for (int i = 0; i < LANES; i++)
            squares += v[i] * v[i];
    }
    float scale = 1.0f / sqrtf(warp_sum(squares) / (float)h.depth + epsilon);
    for (size_t c = lane * LANES; c < h.depth; c += WARP * LANES) {
        load_pack<T, ALIGNED>(v, x + c, h.depth - c, 0.0f);
        load_pack<T, ALIGNED>(w, weight + c, h.depth - c, 0.0f);
        for (int i = 0; i < LANES; i++)
            v[i] = v[i] * scale * w[i];
        store_pack<T, ALIGNED>(y + c, v, h.depth - c);
    }
    if (lane == 0)
        rstd[row * h.norms() + head] = scale;
}

/* With g = d_output weight and n = x rstd: d_input = rstd (g - n mean(g n)), in place */
template <typename T, bool ALIGNED>
__global__ void __launch_bounds__(HEAD_WARPS *WARP)
    headnorm_input_kernel(T *d_qkv, const T *qkv, const T *q_weight, const T *k_weight,
                          const float *rstd, struct head_rows h)
{
    constexpr int LANES = lanes_of<T>::count;
    size_t lane = threadIdx.x % WARP;
    size_t index = (size_t)blockIdx.x * HEAD_WARPS + threadIdx.x / WARP;
    if (index >= h.rows * h.norms())
        return;
    size_t row = index / h.norms(), head = index % h.norms();
    size_t at = row * h.stride() + head * h.depth;
    const T *x = qkv + at, *weight = head < h.heads ? q_weight : k_weight;
    T *d = d_qkv + at;
    float v[LANES], g[LANES], w[LANES], scale = rstd[index], product = 0.0f;

    for (size_t c = lane * LANES; c < h.depth; c += WARP * LANES) {
        load_pack<T, ALIGNED>(v, x + c, h.depth - c, 0.0f);
        load_pack<T, ALIGNED>(g, d + c, h.depth - c, 0.0f);
        load_pack<T, ALIGNED>(w, weight + c, h.depth - c, 0.0f);
        for (int i = 0; i < LANES; i++)
            product += g[i] * w[i] * (v[i] * scale);
    }
    product = warp_sum(product) / (float)h.depth;
    for (size_t c = lane * LANES; c < h.depth;
         c += WARP * LANES) { /* each lane reads its own writes */
        load_pack<T, ALIGNED>(v, x + c, h.depth - c, 0.0f);
        load_pack<T, ALIGNED>(g, d + c, h.depth - c, 0.0f);
        load_pack<T, ALIGNED>(w, weight + c, h.depth - c, 0.0f);
        for (int i = 0; i < LANES; i++)
            g[i] = scale * (g[i] * w[i] - v[i] * scale * product);
        store_pack<T, ALIGNED>(d + c, g, h.depth - c);
    }
}

/* The gradient of one weight: its "rows" are heads first to first + count of every row. */
template <typename T, bool ALIGNED> struct headnorm_terms {
    static constexpr int LANES = lanes_of<T>::count, COUNT = 1;
    const T *d_output, *qkv;
    const float *rstd;
    struct head_rows h;
    size_t first, count;

    __device__ void add(float (&sum)[COUNT][LANES], size_t index, size_t column, size_t left) const
    {
        size_t row = index / count, head = first + index % count;
        size_t at = row * h.stride() + head * h.depth + column;
        float d[LANES], v[LANES], scale = rstd[row * h.norms() + head];
        load_pack<T, ALIGNED>(d, d_output + at, left, 0.0f);
        load_pack<T, ALIGNED>(v, qkv + at, left, 0.0f);
#pragma unroll
        for (int i = 0; i < LANES; i++)
            sum[0][i] += d[i] * (v[i] * scale);
    }
};

static struct head_rows head_rows_of(const struct kernel_attention &shape)
{
    return {shape.batch * shape.context, shape.heads, shape.kv_heads, shape.width / shape.heads};
}

template <typename T, bool ALIGNED>
static void forward(struct kernel_device *device, T *output, float *rstd, const T *qkv,
                    const T *q_weight, const T *k_weight, float epsilon, struct head_rows h)
{
    LAUNCH((headnorm_forward_kernel<T, ALIGNED>),
           blocks_for(h.rows * (h.heads + 2 * h.kv_heads), HEAD_WARPS), HEAD_WARPS * WARP, 0,
           device_stream(device), output, rstd, qkv, q_weight, k_weight, epsilon, h);
    DEVICE_LAUNCHED(device, "headnorm_forward");
}

/* Compute the weights' gradients first: the input's gradient overwrites the output's. */
template <typename T, bool ALIGNED>
static void backward(struct kernel_device *device, T *d_qkv, float *d_q_weight, float *d_k_weight,
                     const T *qkv, const T *q_weight, const T *k_weight, const float *rstd,
                     struct head_rows h)
{
    headnorm_terms<T, ALIGNED> queries = {d_qkv, qkv, rstd, h, 0, h.heads};
    headnorm_terms<T, ALIGNED> keys = {d_qkv, qkv, rstd, h, h.heads, h.kv_heads};

    sum_columns(device, queries, d_q_weight, (float *)NULL, h.rows * h.heads, h.depth,
                "headnorm_backward");
    sum_columns(device, keys, d_k_weight, (float *)NULL, h.rows * h.kv_heads, h.depth,
                "headnorm_backward");
    LAUNCH((headnorm_input_kernel<T, ALIGNED>), blocks_for(h.rows * h.norms(), HEAD_WARPS),
           HEAD_WARPS * WARP, 0, device_stream(device), d_qkv, qkv, q_weight, k_weight, rstd, h);
    DEVICE_LAUNCHED(device, "headnorm_backward");
}

template <typename T>
void cuda_headnorm_forward(struct kernel_device *device, void *output, float *rstd, const void *qkv,
                           const void *q_weight, const void *k_weight, float epsilon,
                           struct kernel_attention shape)
{
    struct head_rows h = head_rows_of(shape);

    if (h.rows == 0)
        return;
    if (h.depth % lanes_of<T>::count == 0)
        forward<T, true>(device, (T *)output, rstd, (const T *)qkv, (const T *)q_weight,
                         (const T *)k_weight, epsilon, h);
    else
        forward<T, false>(device, (T *)output, rstd, (const T *)qkv, (const T *)q_weight,
                          (const T *)k_weight, epsilon, h);
}

template <typename T>
void cuda_headnorm_backward(struct kernel_device *device, void *d_qkv, float *d_q_weight,
                            float *d_k_weight, const void *qkv, const void *q_weight,
                            const void *k_weight, const float *rstd, struct kernel_attention shape)
{
    struct head_rows h = head_rows_of(shape);

    if (h.rows == 0)
        return;
    if (h.depth % lanes_of<T>::count == 0)
        backward<T, true>(device, (T *)d_qkv, d_q_weight, d_k_weight, (const T *)qkv,
                          (const T *)q_weight, (const T *)k_weight, rstd, h);
    else
        backward<T, false>(device, (T *)d_qkv, d_q_weight, d_k_weight, (const T *)qkv,
                           (const T *)q_weight, (const T *)k_weight, rstd, h);
}

#define INSTANTIATE(T)                                                                             \
    template void cuda_headnorm_forward<T>(struct kernel_device *, void *, float *, const void *,  \
                                           const void *, const void *, float,                      \
                                           struct kernel_attention);                               \
    template void cuda_headnorm_backward<T>(struct kernel_device *, void *, float *, float *,      \
                                            const void *, const void *, const void *,              \
                                            const float *, struct kernel_attention);
INSTANTIATE(float)
INSTANTIATE(bfloat)
