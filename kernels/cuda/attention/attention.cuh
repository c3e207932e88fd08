/*
 * Causal attention without a T x T matrix (Dao, "FlashAttention-2: faster attention with better
 * parallelism and work partitioning", 2023): scores exist a tile at a time, forward keeps the
 * log-sum-exp of each row, and backward recomputes the scores.
 *
 * Backward has no atomics, so its bits do not depend on timing: one kernel owns keys and computes
 * d_key and d_value over all later queries in order; another one owns queries and computes d_query
 * over all earlier keys. The price is that the scores are computed twice. If several query heads
 * share the same keys, the owner of keys processes these heads in order.
 *
 * Two implementations of our own: attention_tiles.cu with matrix instructions for bf16 and heads of
 * 64 or 128, and attention_rows.cu, one warp per row, for everything else. Type and shape decide
 * between them. In bf16, cuDNN's attention is preferred if it passes its trial
 * (attention_choice.cuh).
 */
#pragma once

#include "kernels/cuda/device.cuh"

/* Layouts: qkv (B,T,C+2KD), output (B,T,C), log_sum and delta (B,H,T). */
struct attention_view {
    unsigned batch, context, width, heads, depth;
    unsigned kv_heads, group; /* query heads per head of keys and values */
    unsigned stride;          /* between rows of qkv: C + 2KD */
    float scale;              /* of scores: 1 / sqrt(depth) */
};

enum attention_part { ATTENTION_QUERY, ATTENTION_KEY, ATTENTION_VALUE };

/* @head: a query head, also for its keys and values */
__host__ __device__ inline size_t attention_qkv_index(const attention_view &a, attention_part part,
                                                      unsigned batch, unsigned head, unsigned row)
{
    size_t begin = ((size_t)batch * a.context + row) * a.stride;
    if (part == ATTENTION_QUERY)
        return begin + (size_t)head * a.depth;
    return begin + a.width +
           ((size_t)(part - ATTENTION_KEY) * a.kv_heads + head / a.group) * a.depth;
}

__host__ __device__ inline size_t attention_output_index(const attention_view &a, unsigned batch,
                                                         unsigned head, unsigned row)
{
    return ((size_t)batch * a.context + row) * a.width + (size_t)head * a.depth;
}

__host__ __device__ inline size_t attention_row_index(const attention_view &a, unsigned batch,
                                                      unsigned head, unsigned row)
{
    return ((size_t)batch * a.heads + head) * a.context + row;
}

/* attention.cu: by our own kernels, in bf16 */
void attention_own_forward(struct kernel_device *device, bfloat *output, float *log_sum,
                           const bfloat *qkv, const attention_view &view);
/* the deltas are in the device's workspace */
void attention_own_backward(struct kernel_device *device, bfloat *d_qkv, const bfloat *d_output,
                            const bfloat *output, const float *log_sum, const bfloat *qkv,
                            const attention_view &view);

#define ATTENTION_ROWS_DEPTH_MAX 256

/* attention_rows.cu; depth <= ATTENTION_ROWS_DEPTH_MAX */
template <typename T>
void attention_rows_forward(struct kernel_device *device, T *output, float *log_sum, const T *qkv,
                            const attention_view &view);
template <typename T>
void attention_rows_backward(struct kernel_device *device, T *d_qkv, const T *d_output,
                             const float *delta, const float *log_sum, const T *qkv,
                             const attention_view &view);

/* attention_tiles.cu; depth 64 or 128 */
void attention_tiles_forward(struct kernel_device *device, bfloat *output, float *log_sum,
                             const bfloat *qkv, const attention_view &view);
void attention_tiles_backward(struct kernel_device *device, bfloat *d_qkv, const bfloat *d_output,
                              const float *delta, const float *log_sum, const bfloat *qkv,
                              const attention_view &view);
