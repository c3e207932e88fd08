#include "bench/lib/profile.h"

#include "bench/lib/measure.h"

enum operation {
    PROFILE_COPY,
    PROFILE_ZERO,
    PROFILE_EMBEDDING,
    PROFILE_LAYERNORM,
    PROFILE_LINEAR_FORWARD,
    PROFILE_LINEAR_BACKWARD,
    PROFILE_ATTENTION,
    PROFILE_GELU,
    PROFILE_RESIDUAL,
    PROFILE_CROSS_ENTROPY,
    PROFILE_ADAMW,
    PROFILE_NORM,
    PROFILE_TREE_ADD,
    PROFILE_OPERATIONS,
};

static const char *const names[PROFILE_OPERATIONS] = {
    [PROFILE_COPY] = "copy",
    [PROFILE_ZERO] = "zero",
    [PROFILE_EMBEDDING] = "embedding",
    [PROFILE_LAYERNORM] = "layernorm",
    [PROFILE_LINEAR_FORWARD] = "linear_forward",
    [PROFILE_LINEAR_BACKWARD] = "linear_backward",
    [PROFILE_ATTENTION] = "attention",
    [PROFILE_GELU] = "gelu",
    [PROFILE_RESIDUAL] = "residual",
    [PROFILE_CROSS_ENTROPY] = "cross_entropy",
    [PROFILE_ADAMW] = "adamw",
    [PROFILE_NORM] = "norm",
    [PROFILE_TREE_ADD] = "tree_add",
};

static double seconds[PROFILE_OPERATIONS];

unsigned profile_count(void)
{
    return PROFILE_OPERATIONS;
}

const char *profile_name(unsigned index)
{
    return names[index];
}

double profile_seconds(unsigned index)
{
    return seconds[index];
}

void profile_reset(void)
{
    for (unsigned i = 0; i < PROFILE_OPERATIONS; i++)
        seconds[i] = 0.0;
}

/* TIMED(key, operation, (parameters), (arguments)): the operation with a clock around it */
#define TIMED(what, operation, parameters, arguments)                                              \
    static void operation parameters                                                               \
    {                                                                                              \
        double began = measure_now();                                                              \
        kernel_cpu()->operation arguments;                                                         \
        seconds[what] += measure_now() - began;                                                    \
    }

typedef struct kernel_device *device_pointer;

TIMED(PROFILE_COPY, copy, (device_pointer d, void *to, const void *from, size_t size),
      (d, to, from, size))
TIMED(PROFILE_ZERO, zero, (device_pointer d, void *memory, size_t size), (d, memory, size))
TIMED(PROFILE_EMBEDDING, embedding_forward,
      (device_pointer d, void *output, const int32_t *tokens, const void *table,
       const void *positions, size_t batch, size_t context, size_t width),
      (d, output, tokens, table, positions, batch, context, width))
TIMED(PROFILE_EMBEDDING, embedding_backward,
      (device_pointer d, float *d_table, float *d_positions, const void *d_output,
       const int32_t *tokens, size_t batch, size_t context, size_t width),
      (d, d_table, d_positions, d_output, tokens, batch, context, width))
TIMED(PROFILE_LAYERNORM, layernorm_forward,
      (device_pointer d, void *output, float *mean, float *rstd, void *sum, const void *input,
       const void *branch, const void *weight, const void *bias, size_t rows, size_t width),
      (d, output, mean, rstd, sum, input, branch, weight, bias, rows, width))
TIMED(PROFILE_LAYERNORM, layernorm_backward,
      (device_pointer d, void *d_input, float *d_weight, float *d_bias, const void *d_output,
       const void *input, const void *weight, const float *mean, const float *rstd, size_t rows,
       size_t width),
      (d, d_input, d_weight, d_bias, d_output, input, weight, mean, rstd, rows, width))
TIMED(PROFILE_LINEAR_FORWARD, linear_forward,
      (device_pointer d, void *output, const void *input, const void *weight, const void *bias,
       struct kernel_linear shape),
      (d, output, input, weight, bias, shape))
TIMED(PROFILE_LINEAR_FORWARD, linear_gelu_forward,
      (device_pointer d, void *output, void *before, const void *input, const void *weight,
       const void *bias, struct kernel_linear shape),
      (d, output, before, input, weight, bias, shape))
TIMED(PROFILE_LINEAR_BACKWARD, linear_backward,
      (device_pointer d, void *d_input, float *d_weight, float *d_bias, const void *d_output,
       const void *input, const void *weight, struct kernel_linear shape),
      (d, d_input, d_weight, d_bias, d_output, input, weight, shape))
TIMED(PROFILE_LINEAR_BACKWARD, linear_gelu_backward,
      (device_pointer d, void *d_before, float *d_weight, float *d_bias, const void *d_output,
       const void *input, const void *before, const void *weight, struct kernel_linear shape),
      (d, d_before, d_weight, d_bias, d_output, input, before, weight, shape))
TIMED(PROFILE_ATTENTION, attention_forward,
      (device_pointer d, void *output, float *log_sum, const void *qkv,
       struct kernel_attention shape),
      (d, output, log_sum, qkv, shape))
TIMED(PROFILE_ATTENTION, attention_backward,
      (device_pointer d, void *d_qkv, const void *d_output, const void *output,
       const float *log_sum, const void *qkv, struct kernel_attention shape),
      (d, d_qkv, d_output, output, log_sum, qkv, shape))
TIMED(PROFILE_GELU, gelu_forward, (device_pointer d, void *output, const void *input, size_t count),
      (d, output, input, count))
TIMED(PROFILE_GELU, gelu_backward,
      (device_pointer d, void *d_input, const void *d_output, const void *input, size_t count),
      (d, d_input, d_output, input, count))
TIMED(PROFILE_RESIDUAL, residual,
      (device_pointer d, void *output, const void *a, const void *b, size_t count),
      (d, output, a, b, count))
TIMED(PROFILE_CROSS_ENTROPY, cross_entropy_fused,
      (device_pointer d, float *losses, void *logits, const int32_t *targets, float scale,
       size_t rows, size_t vocab, size_t stride),
      (d, losses, logits, targets, scale, rows, vocab, stride))
TIMED(PROFILE_ADAMW, adamw,
      (device_pointer d, const struct kernel_adamw_tensor *tensors, size_t count,
       const struct kernel_adamw *options),
      (d, tensors, count, options))
TIMED(PROFILE_NORM, norms_squared,
      (device_pointer d, const struct kernel_flat_tensor *tensors, size_t count, double *sums),
      (d, tensors, count, sums))
TIMED(PROFILE_TREE_ADD, tree_add,
      (device_pointer d, float *output, const float *a, const float *b, size_t count),
      (d, output, a, b, count))

const struct kernel *profile_kernel(void)
{
    static struct kernel table;

    table = *kernel_cpu();
    table.copy = copy;
    table.zero = zero;
    table.embedding_forward = embedding_forward;
    table.embedding_backward = embedding_backward;
    table.layernorm_forward = layernorm_forward;
    table.layernorm_backward = layernorm_backward;
    table.linear_forward = linear_forward;
    table.linear_gelu_forward = linear_gelu_forward;
    table.linear_backward = linear_backward;
    table.linear_gelu_backward = linear_gelu_backward;
    table.attention_forward = attention_forward;
    table.attention_backward = attention_backward;
    table.gelu_forward = gelu_forward;
    table.gelu_backward = gelu_backward;
    table.residual = residual;
    table.cross_entropy_fused = cross_entropy_fused;
    table.adamw = adamw;
    table.norms_squared = norms_squared;
    table.tree_add = tree_add;
    return &table;
}
