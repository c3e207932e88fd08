/*
 * Causal attention by tiles (Dao et al., "FlashAttention", NeurIPS 2022; the running softmax is
 * Milakov and Gimelshein's, 2018).
 *
 * A thread's unit of work is one head of a sample; in backward, all query heads of one head of keys
 * and values, because these query heads add to the same gradients. Scores exist one tile at a time,
 * 64 queries by up to 256 keys, computed and used by small matrix products while they are in the
 * cache. Tiles above the diagonal are never computed. Forward keeps for each row the highest score
 * so far and the sum of exponentials relative to it, and rescales the output when a new tile has a
 * higher score. Backward recomputes the probabilities from the kept log-sum.
 *
 * Invariant: the order of the tiles and of the sums is a function of the shape, so the bits depend
 * neither on the thread count nor on the assignment of heads to threads.
 */
#include "base/logarithm.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/row.h"
#include "kernels/cpu/vector_math.h"

#define QUERIES DEVICE_TILE_QUERIES
#define KEYS    DEVICE_TILE_KEYS

/* One query head of one sample, with its keys and values: (T, D) matrices with rows @stride (qkv)
 * or @width (output) apart. */
struct head {
    const float *query, *key, *value, *d_output;
    float *d_query, *d_key, *d_value;
    const float *output;
    float *new_output, *new_log_sum;
    const float *log_sum;
    size_t context, depth, stride, width;
    float scale;
};

/* A tile: queries [query, +queries) by keys [key, +keys); rows of scores are KEYS apart. */
struct tile {
    size_t query, queries, key, keys;
};

struct attention {
    struct kernel_attention shape;
    const float *qkv, *d_output, *output, *log_sum;
    float *d_qkv, *new_output, *new_log_sum;
};

/* Return the head of keys and values for query head @index of all samples. */
static size_t kv_head_of(const struct kernel_attention *shape, size_t index)
{
    return index % shape->heads / (shape->heads / shape->kv_heads);
}

static struct head head_at(const struct attention *a, size_t index)
{
    const struct kernel_attention *s = &a->shape;
    size_t sample = index / s->heads, depth = s->width / s->heads;
    size_t column = index % s->heads * depth, kv_width = s->kv_heads * depth;
    size_t stride = s->width + 2 * kv_width;
    size_t query = sample * s->context * stride + column;
    size_t key = sample * s->context * stride + s->width + kv_head_of(s, index) * depth;
    size_t value = key + kv_width, out = sample * s->context * s->width + column;

    struct head h = {.query = a->qkv + query,
                     .key = a->qkv + key,
                     .value = a->qkv + value,
                     .context = s->context,
                     .depth = depth,
                     .stride = stride,
                     .width = s->width,
                     .scale = 1.0f / sqrtf((float)depth)};
    if (a->new_output) {
        h.new_output = a->new_output + out;
        h.new_log_sum = a->new_log_sum + index * s->context;
    } else {
        h.d_query = a->d_qkv + query;
        h.d_key = a->d_qkv + key;
        h.d_value = a->d_qkv + value;
        h.output = a->output + out;
        h.d_output = a->d_output + out;
        h.log_sum = a->log_sum + index * s->context;
    }
    return h;
}

static struct tile tile_at(const struct head *h, size_t query, size_t key)
{
    struct tile t = {.query = query, .key = key};
    t.queries = MIN((size_t)QUERIES, h->context - query);
    t.keys = MIN((size_t)KEYS, query + t.queries - key);
    return t;
}

/* Return the number of keys of the tile that are visible to its row @r: at least one, and all of
 * them off the diagonal.
 */
static size_t visible_keys(const struct tile *t, size_t r)
{
    return MIN(t->keys, t->query + r + 1 - t->key);
}

/* scores (queries, keys) = alpha left (queries, D) right (keys, D)^T */
static void rows_times_rows(const struct tile *t, const struct head *h, float *scores, float alpha,
                            const float *left, size_t left_stride, const float *right)
{
    blas_multiply(&(struct blas_product){.m = t->queries,
                                         .n = t->keys,
                                         .k = h->depth,
                                         .left = left,
                                         .right = right,
                                         .left_stride = left_stride,
                                         .right_stride = h->stride,
                                         .result_stride = KEYS,
                                         .right_transposed = true,
                                         .alpha = alpha,
                                         .result = scores});
}

/* to (queries, D) += alpha scores (queries, keys) right (keys, D) */
static void add_scores_times(const struct tile *t, const struct head *h, float *to,
                             size_t to_stride, float alpha, const float *scores, const float *right)
{
    blas_multiply(&(struct blas_product){.m = t->queries,
                                         .n = h->depth,
                                         .k = t->keys,
                                         .left = scores,
                                         .right = right,
                                         .left_stride = KEYS,
                                         .right_stride = h->stride,
                                         .result_stride = to_stride,
                                         .alpha = alpha,
                                         .beta = 1.0f,
                                         .result = to});
}

/* to (keys, D) += alpha scores (queries, keys)^T right (queries, D) */
static void add_scores_transposed_times(const struct tile *t, const struct head *h, float *to,
                                        float alpha, const float *scores, const float *right,
                                        size_t right_stride)
{
    blas_multiply(&(struct blas_product){.m = t->keys,
                                         .n = h->depth,
                                         .k = t->queries,
                                         .left = scores,
                                         .right = right,
                                         .left_stride = KEYS,
                                         .right_stride = right_stride,
                                         .result_stride = h->stride,
                                         .left_transposed = true,
                                         .alpha = alpha,
                                         .beta = 1.0f,
                                         .result = to});
}

static void zero_rows(float *rows, size_t row_count, size_t stride, size_t depth)
{
    for (size_t r = 0; r < row_count; r++)
        memset(rows + r * stride, 0, depth * sizeof(float));
}

static float exp_of(float x)
{
    float lanes[VEC_LANES];
    vec_store(lanes, vec_exp(vec_set(x)));
    return lanes[0];
}

/* row = exp(row - shift), zero beyond the visible keys; returns the sum */
static float exponentiate(float *row, float shift, size_t visible, size_t keys)
{
    vec sum = vec_zero();
    for (size_t c = 0; c < keys; c += VEC_LANES) {
        vec e = vec_zero();
        if (c < visible) {
            vec x = vec_load_part(row + c, visible - c, -INFINITY);
            e = vec_exp(vec_sub(x, vec_set(shift)));
        }
        sum = vec_add(sum, e);
        vec_store_part(row + c, e, keys - c);
    }
    return vec_sum(sum);
}

/* The state of forward for the rows of a block of queries after some tiles. */
struct running_softmax {
    float highest[QUERIES], sum[QUERIES];
};

static void softmax_tile(struct running_softmax *state, const struct head *h, const struct tile *t,
                         float *scores)
{
    for (size_t r = 0; r < t->queries; r++) {
        float *row = scores + r * KEYS;
        size_t visible = visible_keys(t, r);
        float highest = row_highest(row, visible);
        if (highest > state->highest[r]) {
            float factor = exp_of(state->highest[r] - highest);
            if (t->key > 0)
                row_scale(h->new_output + (t->query + r) * h->width, factor, h->depth);
            state->sum[r] *= factor;
            state->highest[r] = highest;
        }
        state->sum[r] += exponentiate(row, state->highest[r], visible, t->keys);
    }
}

static void forward_queries(const struct head *h, size_t query, float *scores)
{
    struct running_softmax state;
    size_t queries = MIN((size_t)QUERIES, h->context - query);
    float *output = h->new_output + query * h->width;

    for (size_t r = 0; r < queries; r++) {
        state.highest[r] = -INFINITY;
        state.sum[r] = 0.0f;
    }
    zero_rows(output, queries, h->width, h->depth);
    for (size_t key = 0; key < query + queries; key += KEYS) {
        struct tile t = tile_at(h, query, key);
        rows_times_rows(&t, h, scores, h->scale, h->query + query * h->stride, h->stride,
                        h->key + key * h->stride);
        softmax_tile(&state, h, &t, scores);
        add_scores_times(&t, h, output, h->width, 1.0f, scores, h->value + key * h->stride);
    }
    for (size_t r = 0; r < queries; r++) {
        row_scale(output + r * h->width, 1.0f / state.sum[r], h->depth);
        h->new_log_sum[query + r] =
            (float)((double)state.highest[r] + logarithm((double)state.sum[r]));
    }
}

static void forward_share(const void *context, size_t begin, size_t end,
                          struct device_scratch *scratch)
{
    for (size_t index = begin; index < end; index++) {
        struct head h = head_at(context, index);
        for (size_t query = 0; query < h.context; query += QUERIES)
            forward_queries(&h, query, scratch->scores);
    }
}

/* gradients = probabilities (gradients - dot): through the softmax of one row */
static void softmax_gradient(float *gradients, const float *probabilities, float dot, size_t count)
{
    for (size_t c = 0; c < count; c += VEC_LANES) {
        vec p = vec_load_part(probabilities + c, count - c, 0.0f);
        vec g = vec_load_part(gradients + c, count - c, 0.0f);
        vec_store_part(gradients + c, vec_mul(p, vec_sub(g, vec_set(dot))), count - c);
    }
}

static void backward_tile(const struct head *h, const struct tile *t, const float *dots,
                          struct device_scratch *scratch)
{
    float *probabilities = scratch->scores, *gradients = scratch->gradients;
    const float *query = h->query + t->query * h->stride;
    const float *key = h->key + t->key * h->stride;
    const float *d_output = h->d_output + t->query * h->width;

    rows_times_rows(t, h, probabilities, h->scale, query, h->stride, key);
    for (size_t r = 0; r < t->queries; r++)
        exponentiate(probabilities + r * KEYS, h->log_sum[t->query + r], visible_keys(t, r),
                     t->keys);
    add_scores_transposed_times(t, h, h->d_value + t->key * h->stride, 1.0f, probabilities,
                                d_output, h->width);
    rows_times_rows(t, h, gradients, 1.0f, d_output, h->width, h->value + t->key * h->stride);
    for (size_t r = 0; r < t->queries; r++)
        softmax_gradient(gradients + r * KEYS, probabilities + r * KEYS, dots[r], t->keys);
    add_scores_times(t, h, h->d_query + t->query * h->stride, h->stride, h->scale, gradients, key);
    add_scores_transposed_times(t, h, h->d_key + t->key * h->stride, h->scale, gradients, query,
                                h->stride);
}

static void backward_head(const struct head *h, struct device_scratch *scratch)
{
    float dots[QUERIES];

    zero_rows(h->d_query, h->context, h->stride, h->depth);
    for (size_t query = 0; query < h->context; query += QUERIES) {
        size_t queries = MIN((size_t)QUERIES, h->context - query);
        for (size_t r = 0; r < queries; r++) {
            size_t row = (query + r) * h->width;
            /* d_output . output: the sum over keys of probability times its gradient */
            dots[r] = row_dot(h->d_output + row, h->output + row, h->depth);
        }
        for (size_t key = 0; key < query + queries; key += KEYS) {
            struct tile t = tile_at(h, query, key);
            backward_tile(h, &t, dots, scratch);
        }
    }
}

/* The query heads of a group add in index order to the gradients of the same keys and values. */
static void backward_share(const void *context, size_t begin, size_t end,
                           struct device_scratch *scratch)
{
    const struct attention *a = context;
    size_t group = a->shape.heads / a->shape.kv_heads;

    for (size_t index = begin * group; index < end * group; index++) {
        struct head h = head_at(a, index);
        if (index % group == 0) {
            zero_rows(h.d_key, h.context, h.stride, h.depth);
            zero_rows(h.d_value, h.context, h.stride, h.depth);
        }
        backward_head(&h, scratch);
    }
}

static void check_shape(const struct kernel_attention *shape)
{
    assert(shape->heads > 0 && shape->width % shape->heads == 0);
    assert(shape->kv_heads > 0 && shape->heads % shape->kv_heads == 0);
}

void OPERATION(attention_forward)(struct kernel_device *device, void *output, float *log_sum,
                                  const void *qkv, struct kernel_attention shape)
{
    struct attention a = {.shape = shape, .qkv = qkv, .new_output = output, .new_log_sum = log_sum};
    check_shape(&shape);
    device_for(device, shape.batch * shape.heads, 1, forward_share, &a);
}

void OPERATION(attention_backward)(struct kernel_device *device, void *d_qkv, const void *d_output,
                                   const void *output, const float *log_sum, const void *qkv,
                                   struct kernel_attention shape)
{
    struct attention a = {.shape = shape,
                          .qkv = qkv,
                          .d_output = d_output,
                          .output = output,
                          .log_sum = log_sum,
                          .d_qkv = d_qkv};
    check_shape(&shape);
    device_for(device, shape.batch * shape.kv_heads, 1, backward_share, &a);
}
