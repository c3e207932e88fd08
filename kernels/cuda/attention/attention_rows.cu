/*
 * Attention for any type and any head of up to 256 columns, in f32 arithmetic: one warp per row.
 * The rows of the other side are processed 32 at a time: each lane computes the score of one row,
 * then adds all 32 to its own columns, in index order. Plain rather than fast: this is the path for
 * f32 and for unusual heads.
 */
#include "kernels/cuda/attention/attention.cuh"

#define ROWS_WARPS 4

/* The row of one of @heads heads that this warp owns; false for a warp past the end. */
struct owned_row {
    unsigned batch, head, row;
};

__device__ inline bool own_row(const attention_view &view, unsigned heads, owned_row *ret)
{
    size_t index = (size_t)blockIdx.x * ROWS_WARPS + threadIdx.x / WARP;
    ret->row = (unsigned)(index % view.context);
    ret->head = (unsigned)(index / view.context % heads);
    ret->batch = (unsigned)(index / view.context / heads);
    return ret->batch < view.batch;
}

/* Return the product of two rows of a head, computed by one lane. */
template <typename T, typename U>
__device__ inline float row_product(const T *a, const U *b, unsigned depth)
{
    float sum = 0.0f;
#pragma unroll 4
    for (unsigned c = 0; c < depth; c++)
        sum += to_float(a[c]) * to_float(b[c]);
    return sum;
}

/* COLUMNS: columns per lane; depth <= 32 COLUMNS */
template <typename T, int COLUMNS>
static __global__ void __launch_bounds__(ROWS_WARPS *WARP)
    rows_forward_kernel(T *output, float *log_sum, const T *qkv, attention_view view)
{
    unsigned lane = threadIdx.x % WARP;
    owned_row own;
    if (!own_row(view, view.heads, &own))
        return;
    const T *query = qkv + attention_qkv_index(view, ATTENTION_QUERY, own.batch, own.head, own.row);
    const T *keys = qkv + attention_qkv_index(view, ATTENTION_KEY, own.batch, own.head, 0);
    const T *values = qkv + attention_qkv_index(view, ATTENTION_VALUE, own.batch, own.head, 0);
    size_t stride = view.stride;
    float highest = -INFINITY, total = 0.0f, sum[COLUMNS] = {};

    for (unsigned begin = 0; begin <= own.row; begin += WARP) {
        unsigned key = begin + lane;
        float score = key <= own.row
                          ? row_product(query, keys + key * stride, view.depth) * view.scale
                          : -INFINITY;
        float after = fmaxf(highest, warp_highest(score)); /* key `begin` always exists */
        float shrink = expf(highest - after), weight = expf(score - after);
        total = total * shrink + warp_sum(weight);
        highest = after;
        for (int i = 0; i < COLUMNS; i++)
            sum[i] *= shrink;
        for (unsigned other = 0; other < WARP && begin + other <= own.row; other++) {
            float w = __shfl_sync(FULL_WARP, weight, (int)other);
            const T *value = values + (begin + other) * stride;
            for (int i = 0; i < COLUMNS; i++)
                if (lane + i * WARP < view.depth)
                    sum[i] += w * to_float(value[lane + i * WARP]);
        }
    }
    T *to = output + attention_output_index(view, own.batch, own.head, own.row);
    for (int i = 0; i < COLUMNS; i++)
        if (lane + i * WARP < view.depth)
            to[lane + i * WARP] = from_float<T>(sum[i] / total);
    if (lane == 0)
        log_sum[attention_row_index(view, own.batch, own.head, own.row)] = highest + logf(total);
}

/* Compute d_query of one row over its keys. */
template <typename T, int COLUMNS>
static __global__ void __launch_bounds__(ROWS_WARPS *WARP)
    rows_query_kernel(T *d_qkv, const T *d_output, const float *delta, const float *log_sum,
                      const T *qkv, attention_view view)
{
    unsigned lane = threadIdx.x % WARP;
    owned_row own;
    if (!own_row(view, view.heads, &own))
        return;
    size_t place = attention_qkv_index(view, ATTENTION_QUERY, own.batch, own.head, own.row);
    const T *keys = qkv + attention_qkv_index(view, ATTENTION_KEY, own.batch, own.head, 0);
    const T *values = qkv + attention_qkv_index(view, ATTENTION_VALUE, own.batch, own.head, 0);
    const T *d = d_output + attention_output_index(view, own.batch, own.head, own.row);
    size_t stride = view.stride;
    size_t statistics = attention_row_index(view, own.batch, own.head, own.row);
    float log_total = log_sum[statistics], mean = delta[statistics], sum[COLUMNS] = {};

    for (unsigned begin = 0; begin <= own.row; begin += WARP) {
        unsigned key = begin + lane;
        float d_score = 0.0f;
        if (key <= own.row) {
            float score = row_product(qkv + place, keys + key * stride, view.depth) * view.scale;
            float d_weight = row_product(d, values + key * stride, view.depth);
            d_score = expf(score - log_total) * (d_weight - mean) * view.scale;
        }
        for (unsigned other = 0; other < WARP && begin + other <= own.row; other++) {
            float w = __shfl_sync(FULL_WARP, d_score, (int)other);
            const T *from = keys + (begin + other) * stride;
            for (int i = 0; i < COLUMNS; i++)
                if (lane + i * WARP < view.depth)
                    sum[i] += w * to_float(from[lane + i * WARP]);
        }
    }
    for (int i = 0; i < COLUMNS; i++)
        if (lane + i * WARP < view.depth)
            d_qkv[place + lane + i * WARP] = from_float<T>(sum[i]);
}

/* Compute d_key and d_value of one row over the queries that see it, head by head of its group. */
template <typename T, int COLUMNS>
static __global__ void __launch_bounds__(ROWS_WARPS *WARP)
    rows_key_kernel(T *d_qkv, const T *d_output, const float *delta, const float *log_sum,
                    const T *qkv, attention_view view)
{
    unsigned lane = threadIdx.x % WARP;
    owned_row own;
    if (!own_row(view, view.kv_heads, &own))
        return;
    unsigned first_head = own.head * view.group;
    size_t key_place = attention_qkv_index(view, ATTENTION_KEY, own.batch, first_head, own.row);
    size_t value_place = attention_qkv_index(view, ATTENTION_VALUE, own.batch, first_head, own.row);
    size_t stride = view.stride;
    float d_key[COLUMNS] = {}, d_value[COLUMNS] = {};

    for (unsigned head = first_head; head < first_head + view.group; head++) {
        const T *queries = qkv + attention_qkv_index(view, ATTENTION_QUERY, own.batch, head, 0);
        const T *d = d_output + attention_output_index(view, own.batch, head, 0);
        size_t statistics = attention_row_index(view, own.batch, head, 0);

        for (unsigned begin = own.row; begin < view.context; begin += WARP) {
            unsigned query = begin + lane;
            float weight = 0.0f, d_score = 0.0f;
            if (query < view.context) {
                float score =
                    row_product(queries + query * stride, qkv + key_place, view.depth) * view.scale;
                float d_weight =
                    row_product(d + (size_t)query * view.width, qkv + value_place, view.depth);
                weight = expf(score - log_sum[statistics + query]);
                d_score = weight * (d_weight - delta[statistics + query]) * view.scale;
            }
            for (unsigned other = 0; other < WARP && begin + other < view.context; other++) {
                float w = __shfl_sync(FULL_WARP, weight, (int)other);
                float s = __shfl_sync(FULL_WARP, d_score, (int)other);
                const T *from = queries + (begin + other) * stride;
                const T *d_from = d + (size_t)(begin + other) * view.width;
                for (int i = 0; i < COLUMNS; i++)
                    if (lane + i * WARP < view.depth) {
                        d_key[i] += s * to_float(from[lane + i * WARP]);
                        d_value[i] += w * to_float(d_from[lane + i * WARP]);
                    }
            }
        }
    }
    for (int i = 0; i < COLUMNS; i++)
        if (lane + i * WARP < view.depth) {
            d_qkv[key_place + lane + i * WARP] = from_float<T>(d_key[i]);
            d_qkv[value_place + lane + i * WARP] = from_float<T>(d_value[i]);
        }
}

static unsigned row_blocks(const attention_view &view, unsigned heads)
{
    return blocks_for((size_t)view.batch * heads * view.context, ROWS_WARPS);
}

template <typename T, int COLUMNS>
static void forward(struct kernel_device *device, T *output, float *log_sum, const T *qkv,
                    const attention_view &view)
{
    LAUNCH((rows_forward_kernel<T, COLUMNS>), row_blocks(view, view.heads), ROWS_WARPS * WARP, 0,
           device_stream(device), output, log_sum, qkv, view);
}

template <typename T, int COLUMNS>
static void backward(struct kernel_device *device, T *d_qkv, const T *d_output, const float *delta,
                     const float *log_sum, const T *qkv, const attention_view &view)
{
    LAUNCH((rows_query_kernel<T, COLUMNS>), row_blocks(view, view.heads), ROWS_WARPS * WARP, 0,
           device_stream(device), d_qkv, d_output, delta, log_sum, qkv, view);
    DEVICE_LAUNCHED(device, "attention_backward");
    LAUNCH((rows_key_kernel<T, COLUMNS>), row_blocks(view, view.kv_heads), ROWS_WARPS * WARP, 0,
           device_stream(device), d_qkv, d_output, delta, log_sum, qkv, view);
}

template <typename T>
void attention_rows_forward(struct kernel_device *device, T *output, float *log_sum, const T *qkv,
                            const attention_view &view)
{
    if (view.depth <= 64)
        forward<T, 2>(device, output, log_sum, qkv, view);
    else
        forward<T, ATTENTION_ROWS_DEPTH_MAX / WARP>(device, output, log_sum, qkv, view);
}

template <typename T>
void attention_rows_backward(struct kernel_device *device, T *d_qkv, const T *d_output,
                             const float *delta, const float *log_sum, const T *qkv,
                             const attention_view &view)
{
    if (view.depth <= 64)
        backward<T, 2>(device, d_qkv, d_output, delta, log_sum, qkv, view);
    else
        backward<T, ATTENTION_ROWS_DEPTH_MAX / WARP>(device, d_qkv, d_output, delta, log_sum, qkv,
                                                     view);
}

#define INSTANTIATE(T)                                                                             \
    template void attention_rows_forward<T>(struct kernel_device *, T *, float *, const T *,       \
                                            const attention_view &);                               \
    template void attention_rows_backward<T>(struct kernel_device *, T *, const T *,               \
                                             const float *, const float *, const T *,              \
                                             const attention_view &);
INSTANTIATE(float)
INSTANTIATE(bfloat)
