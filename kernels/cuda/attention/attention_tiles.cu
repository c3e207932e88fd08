/* Attention on matrix instructions, bf16 with f32 sums; see attention.cuh and attention_tiles.cuh.
 */
#include "kernels/cuda/attention/attention_tiles.cuh"

#define LOG2_E 1.4426950408889634f
#define LN_2   0.6931471805599453f

/* The block's place in the grid: (tiles of rows, heads that own them, batch). */
struct tile_place {
    unsigned first_row, head, batch;
};

__device__ inline tile_place place_of(unsigned tile)
{
    return {tile * TILE_ROWS, blockIdx.y, blockIdx.z};
}

/* The first row of this warp within its block's tile. */
__device__ inline unsigned warp_row()
{
    return threadIdx.x / WARP * 16;
}

/* ---- forward ---- */

template <int DEPTH> struct forward_state {
    mma_sum output[DEPTH / 8];
    float highest[2], total[2]; /* of rows lane / 4 and + 8; in units of log 2 */
};

/* Process one tile of keys: scores in, weights out; rescale output and totals to the new highest
 * score. */
template <int DEPTH>
__device__ inline void take_scores(forward_state<DEPTH> &state, mma_sum (&scores)[TILE_ROWS / 8],
                                   float scale, unsigned first_query, unsigned first_key)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        unsigned query = first_query + sum_row(half * 2);
        float highest = -INFINITY, total = 0.0f;
#pragma unroll
        for (int n = 0; n < TILE_ROWS / 8; n++)
#pragma unroll
            for (int i = half * 2; i < half * 2 + 2; i++) {
                bool seen = first_key + n * 8 + sum_column(i) <= query;
                scores[n].at[i] = seen ? scores[n].at[i] * scale : -INFINITY;
                highest = fmaxf(highest, scores[n].at[i]);
            }
        float after = fmaxf(state.highest[half], quad_highest(highest));
        float shrink = exp2f(state.highest[half] - after);
#pragma unroll
        for (int n = 0; n < TILE_ROWS / 8; n++)
#pragma unroll
            for (int i = half * 2; i < half * 2 + 2; i++) {
                scores[n].at[i] = exp2f(scores[n].at[i] - after);
                total += scores[n].at[i];
            }
        state.total[half] = state.total[half] * shrink + quad_sum(total);
        state.highest[half] = after;
#pragma unroll
        for (int n = 0; n < DEPTH / 8; n++) {
            state.output[n].at[half * 2] *= shrink;
            state.output[n].at[half * 2 + 1] *= shrink;
        }
    }
}

template <int DEPTH>
static __global__ void __launch_bounds__(TILE_THREADS)
    tiles_forward_kernel(bfloat *output, float *log_sum, const bfloat *qkv, attention_view view)
{
    DYNAMIC_SHARED(shared);
    bfloat *queries = (bfloat *)shared, *keys = queries + tile_elements<DEPTH>(TILE_ROWS);
    bfloat *values = keys + tile_elements<DEPTH>(TILE_ROWS);
    /* Start with the longest tiles: they see all keys. */
    tile_place place = place_of(gridDim.x - 1 - blockIdx.x);
    size_t stride = view.stride;
    const bfloat *query_rows =
        qkv + attention_qkv_index(view, ATTENTION_QUERY, place.batch, place.head, 0);
    const bfloat *key_rows =
        qkv + attention_qkv_index(view, ATTENTION_KEY, place.batch, place.head, 0);
    const bfloat *value_rows =
        qkv + attention_qkv_index(view, ATTENTION_VALUE, place.batch, place.head, 0);
    unsigned first_query = place.first_row + warp_row();
    forward_state<DEPTH> state = {};
    state.highest[0] = state.highest[1] = -INFINITY;

    tile_load<DEPTH, TILE_ROWS>(queries, query_rows, stride, place.first_row, view.context);
    for (unsigned key = 0; key <= place.first_row; key += TILE_ROWS) {
        mma_sum scores[TILE_ROWS / 8];
        __syncthreads(); /* all threads have read the last tile */
        tile_load<DEPTH, TILE_ROWS>(keys, key_rows, stride, key, view.context);
        tile_load<DEPTH, TILE_ROWS>(values, value_rows, stride, key, view.context);
        __syncthreads();
        tile_product<DEPTH, TILE_ROWS>(scores, queries + warp_row() * tile_stride<DEPTH>::value,
                                       keys);
        take_scores(state, scores, view.scale * LOG2_E, first_query, key);
        tile_accumulate<DEPTH, TILE_ROWS>(state.output, scores, values);
    }
    float factors[2] = {1.0f / state.total[0], 1.0f / state.total[1]};
    tile_store<DEPTH>(output + attention_output_index(view, place.batch, place.head, 0), view.width,
                      state.output, factors, first_query, view.context);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        unsigned query = first_query + sum_row(half * 2);
        if (threadIdx.x % 4 == 0 && query < view.context)
            log_sum[attention_row_index(view, place.batch, place.head, query)] =
                (state.highest[half] + log2f(state.total[half])) * LN_2;
    }
}

/* ---- backward ---- */

/* Compute d_query of a tile of queries over all keys that they see. */
template <int DEPTH>
static __global__ void __launch_bounds__(TILE_THREADS)
    tiles_query_kernel(bfloat *d_qkv, const bfloat *d_output, const float *delta,
                       const float *log_sum, const bfloat *qkv, attention_view view)
{
    constexpr int KEYS = DEPTH > 64 ? 32 : 64; /* fewer at once if sums take more registers */
    DYNAMIC_SHARED(shared);
    bfloat *queries = (bfloat *)shared, *d_outputs = queries + tile_elements<DEPTH>(TILE_ROWS);
    bfloat *keys = d_outputs + tile_elements<DEPTH>(TILE_ROWS);
    bfloat *values = keys + tile_elements<DEPTH>(KEYS);
    tile_place place = place_of(gridDim.x - 1 - blockIdx.x);
    size_t stride = view.stride;
    size_t head = attention_qkv_index(view, ATTENTION_QUERY, place.batch, place.head, 0);
    const bfloat *key_rows =
        qkv + attention_qkv_index(view, ATTENTION_KEY, place.batch, place.head, 0);
    const bfloat *value_rows =
        qkv + attention_qkv_index(view, ATTENTION_VALUE, place.batch, place.head, 0);
    size_t statistics = attention_row_index(view, place.batch, place.head, 0);
    unsigned first_query = place.first_row + warp_row();
    mma_sum d_query[DEPTH / 8] = {};
    float log_totals[2] = {}, means[2] = {};

    for (int half = 0; half < 2; half++)
        if (first_query + sum_row(half * 2) < view.context) {
            log_totals[half] = log_sum[statistics + first_query + sum_row(half * 2)] * LOG2_E;
            means[half] = delta[statistics + first_query + sum_row(half * 2)];
        }
    tile_load<DEPTH, TILE_ROWS>(queries, qkv + head, stride, place.first_row, view.context);
    tile_load<DEPTH, TILE_ROWS>(d_outputs,
                                d_output + attention_output_index(view, place.batch, place.head, 0),
                                view.width, place.first_row, view.context);
    for (unsigned key = 0; key < place.first_row + TILE_ROWS && key < view.context; key += KEYS) {
        mma_sum weights[KEYS / 8], d_weights[KEYS / 8];
        __syncthreads();
        tile_load<DEPTH, KEYS>(keys, key_rows, stride, key, view.context);
        tile_load<DEPTH, KEYS>(values, value_rows, stride, key, view.context);
        __syncthreads();
        tile_product<DEPTH, KEYS>(weights, queries + warp_row() * tile_stride<DEPTH>::value, keys);
        tile_product<DEPTH, KEYS>(d_weights, d_outputs + warp_row() * tile_stride<DEPTH>::value,
                                  values);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                unsigned query = first_query + sum_row(i);
                bool seen = key + n * 8 + sum_column(i) <= query && query < view.context;
                float weight = exp2f(weights[n].at[i] * (view.scale * LOG2_E) - log_totals[i / 2]);
                weights[n].at[i] =
                    seen ? weight * (d_weights[n].at[i] - means[i / 2]) : 0.0f; /* of the score */
            }
        tile_accumulate<DEPTH, KEYS>(d_query, weights, keys);
    }
    const float factors[2] = {view.scale, view.scale};
    tile_store<DEPTH>(d_qkv + head, stride, d_query, factors, first_query, view.context);
}

/* Compute d_key and d_value of a tile of keys over all queries that see them, head by head of its
 * group. */
template <int DEPTH>
static __global__ void __launch_bounds__(TILE_THREADS)
    tiles_key_kernel(bfloat *d_qkv, const bfloat *d_output, const float *delta,
                     const float *log_sum, const bfloat *qkv, attention_view view)
{
    constexpr int QUERIES = DEPTH > 64 ? 32 : 64;
    DYNAMIC_SHARED(shared);
    bfloat *keys = (bfloat *)shared, *values = keys + tile_elements<DEPTH>(TILE_ROWS);
    bfloat *queries = values + tile_elements<DEPTH>(TILE_ROWS);
    bfloat *d_outputs = queries + tile_elements<DEPTH>(QUERIES);
    float *log_totals = (float *)(d_outputs + tile_elements<DEPTH>(QUERIES));
    float *means = log_totals + QUERIES;
    tile_place place = place_of(blockIdx.x); /* the first tiles are seen by all queries */
    size_t stride = view.stride;
    unsigned first_head = place.head * view.group;
    size_t key_rows = attention_qkv_index(view, ATTENTION_KEY, place.batch, first_head, 0);
    size_t value_rows = attention_qkv_index(view, ATTENTION_VALUE, place.batch, first_head, 0);
    unsigned first_key = place.first_row + warp_row();
    mma_sum d_key[DEPTH / 8] = {}, d_value[DEPTH / 8] = {};

    tile_load<DEPTH, TILE_ROWS>(keys, qkv + key_rows, stride, place.first_row, view.context);
    tile_load<DEPTH, TILE_ROWS>(values, qkv + value_rows, stride, place.first_row, view.context);
    /* Every query of every head of the group, one tile after another. */
    unsigned head = first_head, query = place.first_row;
    while (head < first_head + view.group) {
        mma_sum weights[QUERIES / 8], d_scores[QUERIES / 8];
        size_t query_rows = attention_qkv_index(view, ATTENTION_QUERY, place.batch, head, 0);
        size_t outputs = attention_output_index(view, place.batch, head, 0);
        size_t statistics = attention_row_index(view, place.batch, head, 0);
        __syncthreads();
        tile_load<DEPTH, QUERIES>(queries, qkv + query_rows, stride, query, view.context);
        tile_load<DEPTH, QUERIES>(d_outputs, d_output + outputs, view.width, query, view.context);
        if (threadIdx.x < QUERIES) {
            bool exists = query + threadIdx.x < view.context;
            log_totals[threadIdx.x] =
                exists ? log_sum[statistics + query + threadIdx.x] * LOG2_E : 0.0f;
            means[threadIdx.x] = exists ? delta[statistics + query + threadIdx.x] : 0.0f;
        }
        __syncthreads();
        tile_product<DEPTH, QUERIES>(weights, keys + warp_row() * tile_stride<DEPTH>::value,
                                     queries);
        tile_product<DEPTH, QUERIES>(d_scores, values + warp_row() * tile_stride<DEPTH>::value,
                                     d_outputs);
#pragma unroll
        for (int n = 0; n < QUERIES / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                unsigned column = n * 8 + sum_column(i), key = first_key + sum_row(i);
                bool seen = key <= query + column && query + column < view.context;
                float weight = exp2f(weights[n].at[i] * (view.scale * LOG2_E) - log_totals[column]);
                weights[n].at[i] = seen ? weight : 0.0f;
                d_scores[n].at[i] = weights[n].at[i] * (d_scores[n].at[i] - means[column]);
            }
        tile_accumulate<DEPTH, QUERIES>(d_value, weights, d_outputs);
        tile_accumulate<DEPTH, QUERIES>(d_key, d_scores, queries);
        query += QUERIES;
        if (query >= view.context) {
            query = place.first_row;
            head++;
        }
    }
    const float ones[2] = {1.0f, 1.0f}, scales[2] = {view.scale, view.scale};
    tile_store<DEPTH>(d_qkv + key_rows, stride, d_key, scales, first_key, view.context);
    tile_store<DEPTH>(d_qkv + value_rows, stride, d_value, ones, first_key, view.context);
}

/* ---- launches ---- */

static dim3 grid_of(const attention_view &view, unsigned heads)
{
    return dim3(blocks_for(view.context, TILE_ROWS), heads, view.batch);
}

/* More than 48 KiB of shared memory must be requested. */
template <typename Kernel>
static void allow_shared(struct kernel_device *device, Kernel kernel, size_t size_bytes)
{
    device_note(device,
                cudaFuncSetAttribute((const void *)kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)size_bytes),
                "attention");
}

template <int DEPTH>
static void forward(struct kernel_device *device, bfloat *output, float *log_sum, const bfloat *qkv,
                    const attention_view &view)
{
    size_t shared_bytes = 3 * tile_elements<DEPTH>(TILE_ROWS) * sizeof(bfloat);

    allow_shared(device, tiles_forward_kernel<DEPTH>, shared_bytes);
    LAUNCH(tiles_forward_kernel<DEPTH>, grid_of(view, view.heads), TILE_THREADS, shared_bytes,
           device_stream(device), output, log_sum, qkv, view);
}

template <int DEPTH>
static void backward(struct kernel_device *device, bfloat *d_qkv, const bfloat *d_output,
                     const float *delta, const float *log_sum, const bfloat *qkv,
                     const attention_view &view)
{
    constexpr int OTHERS = DEPTH > 64 ? 32 : 64;
    size_t tile_bytes =
        2 * (tile_elements<DEPTH>(TILE_ROWS) + tile_elements<DEPTH>(OTHERS)) * sizeof(bfloat);
    size_t key_bytes = tile_bytes + 2 * OTHERS * sizeof(float);

    allow_shared(device, tiles_query_kernel<DEPTH>, tile_bytes);
    LAUNCH(tiles_query_kernel<DEPTH>, grid_of(view, view.heads), TILE_THREADS, tile_bytes,
           device_stream(device), d_qkv, d_output, delta, log_sum, qkv, view);
    DEVICE_LAUNCHED(device, "attention_backward");
    allow_shared(device, tiles_key_kernel<DEPTH>, key_bytes);
    LAUNCH(tiles_key_kernel<DEPTH>, grid_of(view, view.kv_heads), TILE_THREADS, key_bytes,
           device_stream(device), d_qkv, d_output, delta, log_sum, qkv, view);
}

void attention_tiles_forward(struct kernel_device *device, bfloat *output, float *log_sum,
                             const bfloat *qkv, const attention_view &view)
{
    if (view.depth == 64)
        forward<64>(device, output, log_sum, qkv, view);
    else
        forward<128>(device, output, log_sum, qkv, view);
}

void attention_tiles_backward(struct kernel_device *device, bfloat *d_qkv, const bfloat *d_output,
                              const float *delta, const float *log_sum, const bfloat *qkv,
                              const attention_view &view)
{
    if (view.depth == 64)
        backward<64>(device, d_qkv, d_output, delta, log_sum, qkv, view);
    else
        backward<128>(device, d_qkv, d_output, delta, log_sum, qkv, view);
}
