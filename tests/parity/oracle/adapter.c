#include "parity/oracle/adapter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct kernel *inner;
static struct kernel_device *device;

static void *device_memory(size_t size_bytes)
{
    void *memory = NULL;
    assert_int_equal(inner->allocate(device, size_bytes, &memory), 0);
    return memory;
}

static void wait_for_device(void)
{
    struct error error = {0};
    if (inner->synchronize(device, &error) < 0)
        fail_msg("%s", error.text);
}

/* ---- one argument: f32, activations, or tokens ---- */

/* NaN in every type: an operation's result differs from it only where the operation has written. */
static void *result_memory(size_t size_bytes)
{
    void *memory = device_memory(size_bytes), *poison = malloc(size_bytes);

    assert_non_null(poison);
    memset(poison, 0xff, size_bytes);
    inner->upload(device, memory, poison, size_bytes);
    free(poison);
    return memory;
}

/* @host NULL: for results */
static float *values_in(const float *host, size_t count)
{
    if (!host)
        return result_memory(count * sizeof(float));
    float *memory = device_memory(count * sizeof(float));
    inner->upload(device, memory, host, count * sizeof(float));
    return memory;
}

static void values_out(float *host, float *memory, size_t count)
{
    inner->download(device, host, memory, count * sizeof(float));
    wait_for_device();
    inner->release(device, memory);
}

static int32_t *tokens_in(const int32_t *host, size_t count)
{
    int32_t *memory = device_memory(count * sizeof(int32_t));
    inner->upload(device, memory, host, count * sizeof(int32_t));
    return memory;
}

/* NULL stays NULL. */
static void *activations_in(const void *host, size_t count)
{
    if (!host)
        return NULL;
    float *values = values_in(host, count);
    void *memory = device_memory(count * inner->activation_size);
    inner->weights(device, memory, values, count);
    wait_for_device();
    inner->release(device, values);
    return memory;
}

static void activations_out(void *host, void *memory, size_t count)
{
    float *values = device_memory(count * sizeof(float));
    inner->values(device, values, memory, count);
    values_out(host, values, count);
    inner->release(device, memory);
}

static void *activations_new(size_t count)
{
    return result_memory(count * inner->activation_size);
}

static void drop(const void *memory)
{
    inner->release(device, (void *)memory);
}

/* ---- operations ---- */

static size_t table_rows(const int32_t *tokens, size_t count)
{
    size_t rows = 0;
    for (size_t i = 0; i < count; i++)
        rows = MAX(rows, (size_t)tokens[i] + 1);
    return rows;
}

static void embedding_forward(struct kernel_device *d, void *output, const int32_t *tokens,
                              const void *token_table, const void *position_table, size_t batch,
                              size_t context, size_t width)
{
    size_t rows = batch * context;
    int32_t *on_device = tokens_in(tokens, rows);
    void *table = activations_in(token_table, table_rows(tokens, rows) * width);
    void *positions = activations_in(position_table, context * width);
    void *result = activations_new(rows * width);

    inner->embedding_forward(d, result, on_device, table, positions, batch, context, width);
    activations_out(output, result, rows * width);
    drop(on_device);
    drop(table);
    drop(positions);
}

static void embedding_backward(struct kernel_device *d, float *d_token_table,
                               float *d_position_table, const void *d_output, const int32_t *tokens,
                               size_t batch, size_t context, size_t width)
{
    size_t rows = batch * context, table = table_rows(tokens, rows) * width;
    int32_t *on_device = tokens_in(tokens, rows);
    float *d_table = values_in(d_token_table, table);
    float *d_positions = d_position_table ? values_in(d_position_table, context * width) : NULL;
    void *gradient = activations_in(d_output, rows * width);

    inner->embedding_backward(d, d_table, d_positions, gradient, on_device, batch, context, width);
    values_out(d_token_table, d_table, table);
    if (d_positions)
        values_out(d_position_table, d_positions, context * width);
    drop(on_device);
    drop(gradient);
}

static void layernorm_forward(struct kernel_device *d, void *output, float *mean, float *rstd,
                              void *sum, const void *input, const void *branch, const void *weight,
                              const void *bias, size_t rows, size_t width)
{
    size_t count = rows * width;
    void *x = activations_in(input, count), *added = activations_in(branch, count);
    void *w = activations_in(weight, width), *b = activations_in(bias, width);
    void *result = activations_new(count), *stream = branch ? activations_new(count) : NULL;
    float *means = values_in(NULL, rows), *rstds = values_in(NULL, rows);

    inner->layernorm_forward(d, result, means, rstds, stream, x, added, w, b, rows, width);
    activations_out(output, result, count);
    values_out(mean, means, rows);
    values_out(rstd, rstds, rows);
    if (stream)
        activations_out(sum, stream, count);
    drop(x);
    drop(added);
    drop(w);
    drop(b);
}

static void layernorm_backward(struct kernel_device *d, void *d_input, float *d_weight,
                               float *d_bias, const void *d_output, const void *input,
                               const void *weight, const float *mean, const float *rstd,
                               size_t rows, size_t width)
{
    void *dx = activations_in(d_input, rows * width), *x = activations_in(input, rows * width);
    void *w = activations_in(weight, width), *g = activations_in(d_output, rows * width);
    float *dw = values_in(d_weight, width), *db = values_in(d_bias, width);
    float *means = values_in(mean, rows), *rstds = values_in(rstd, rows);

    inner->layernorm_backward(d, dx, dw, db, g, x, w, means, rstds, rows, width);
    activations_out(d_input, dx, rows * width);
    values_out(d_weight, dw, width);
    values_out(d_bias, db, width);
    drop(x);
    drop(w);
    drop(g);
    drop(means);
    drop(rstds);
}

static void rmsnorm_forward(struct kernel_device *d, void *output, float *rstd, void *sum,
                            const void *input, const void *branch, const void *weight,
                            float epsilon, size_t rows, size_t width)
{
    size_t count = rows * width;
    void *x = activations_in(input, count), *b = activations_in(branch, count);
    void *w = activations_in(weight, width), *result = activations_new(count);
    void *stream = branch ? activations_new(count) : NULL;
    float *rstds = values_in(NULL, rows);

    inner->rmsnorm_forward(d, result, rstds, stream, x, b, w, epsilon, rows, width);
    activations_out(output, result, count);
    values_out(rstd, rstds, rows);
    if (stream)
        activations_out(sum, stream, count);
    drop(x);
    drop(b);
    drop(w);
}

static void rmsnorm_backward(struct kernel_device *d, void *d_input, float *d_weight,
                             const void *d_output, const void *input, const void *weight,
                             const float *rstd, size_t rows, size_t width)
{
    void *dx = activations_in(d_input, rows * width), *x = activations_in(input, rows * width);
    void *w = activations_in(weight, width), *g = activations_in(d_output, rows * width);
    float *dw = values_in(d_weight, width), *rstds = values_in(rstd, rows);

    inner->rmsnorm_backward(d, dx, dw, g, x, w, rstds, rows, width);
    activations_out(d_input, dx, rows * width);
    values_out(d_weight, dw, width);
    drop(x);
    drop(w);
    drop(g);
    drop(rstds);
}

static void linear_forward(struct kernel_device *d, void *output, const void *input,
                           const void *weight, const void *bias, struct kernel_linear shape)
{
    void *x = activations_in(input, shape.rows * shape.in);
    void *w = activations_in(weight, shape.in * shape.out);
    size_t count = shape.rows * kernel_linear_stride(&shape);
    void *b = activations_in(bias, shape.out), *result = activations_in(output, count);

    inner->linear_forward(d, result, x, w, b, shape);
    activations_out(output, result, count);
    drop(x);
    drop(w);
    drop(b);
}

static void linear_gelu_forward(struct kernel_device *d, void *output, void *before,
                                const void *input, const void *weight, const void *bias,
                                struct kernel_linear shape)
{
    void *x = activations_in(input, shape.rows * shape.in);
    void *w = activations_in(weight, shape.in * shape.out);
    void *b = activations_in(bias, shape.out), *result = activations_new(shape.rows * shape.out);
    void *kept = activations_new(shape.rows * shape.out);

    inner->linear_gelu_forward(d, result, kept, x, w, b, shape);
    activations_out(output, result, shape.rows * shape.out);
    activations_out(before, kept, shape.rows * shape.out);
    drop(x);
    drop(w);
    drop(b);
}

static void linear_gelu_backward(struct kernel_device *d, void *d_before, float *d_weight,
                                 float *d_bias, const void *d_output, const void *input,
                                 const void *before, const void *weight, struct kernel_linear shape)
{
    size_t inputs = shape.rows * shape.in, weights = shape.in * shape.out;
    void *x = activations_in(input, inputs), *w = activations_in(weight, weights);
    void *g = activations_in(d_output, shape.rows * shape.out);
    void *kept = activations_in(before, inputs), *dx = activations_new(inputs);
    float *dw = values_in(d_weight, weights), *db = values_in(d_bias, shape.out);

    inner->linear_gelu_backward(d, dx, dw, db, g, x, kept, w, shape);
    activations_out(d_before, dx, inputs);
    values_out(d_weight, dw, weights);
    values_out(d_bias, db, shape.out);
    drop(x);
    drop(w);
    drop(g);
    drop(kept);
}

static void linear_backward(struct kernel_device *d, void *d_input, float *d_weight, float *d_bias,
                            const void *d_output, const void *input, const void *weight,
                            struct kernel_linear shape)
{
    size_t inputs = shape.rows * shape.in, weights = shape.in * shape.out;
    void *x = activations_in(input, inputs), *w = activations_in(weight, weights);
    void *g = activations_in(d_output, shape.rows * kernel_linear_stride(&shape));
    void *dx = d_input ? activations_new(inputs) : NULL;
    float *dw = d_weight ? values_in(d_weight, weights) : NULL;
    float *db = d_bias ? values_in(d_bias, shape.out) : NULL;

    inner->linear_backward(d, dx, dw, db, g, x, w, shape);
    if (dx)
        activations_out(d_input, dx, inputs);
    if (dw)
        values_out(d_weight, dw, weights);
    if (db)
        values_out(d_bias, db, shape.out);
    drop(x);
    drop(w);
    drop(g);
}

static size_t qkv_count(struct kernel_attention shape)
{
    size_t depth = shape.width / shape.heads;
    return shape.batch * shape.context * (shape.width + 2 * shape.kv_heads * depth);
}

static void attention_forward(struct kernel_device *d, void *output, float *log_sum,
                              const void *qkv, struct kernel_attention shape)
{
    size_t count = shape.batch * shape.context * shape.width;
    size_t rows = shape.batch * shape.context * shape.heads;
    void *x = activations_in(qkv, qkv_count(shape)), *result = activations_new(count);
    float *sums = values_in(NULL, rows);

    inner->attention_forward(d, result, sums, x, shape);
    activations_out(output, result, count);
    values_out(log_sum, sums, rows);
    drop(x);
}

static void attention_backward(struct kernel_device *d, void *d_qkv, const void *d_output,
                               const void *output, const float *log_sum, const void *qkv,
                               struct kernel_attention shape)
{
    size_t count = shape.batch * shape.context * shape.width;
    void *x = activations_in(qkv, qkv_count(shape)), *o = activations_in(output, count);
    void *g = activations_in(d_output, count), *dx = activations_new(qkv_count(shape));
    float *sums = values_in(log_sum, shape.batch * shape.context * shape.heads);

    inner->attention_backward(d, dx, g, o, sums, x, shape);
    activations_out(d_qkv, dx, qkv_count(shape));
    drop(x);
    drop(o);
    drop(g);
    drop(sums);
}

static size_t norm_count(struct kernel_attention shape)
{
    return shape.batch * shape.context * (shape.heads + shape.kv_heads);
}

static void headnorm_forward(struct kernel_device *d, void *output, float *rstd, const void *qkv,
                             const void *q_weight, const void *k_weight, float epsilon,
                             struct kernel_attention shape)
{
    size_t depth = shape.width / shape.heads;
    void *x = activations_in(qkv, qkv_count(shape)), *result = activations_new(qkv_count(shape));
    void *qw = activations_in(q_weight, depth), *kw = activations_in(k_weight, depth);
    float *rstds = values_in(NULL, norm_count(shape));

    inner->headnorm_forward(d, result, rstds, x, qw, kw, epsilon, shape);
    activations_out(output, result, qkv_count(shape));
    values_out(rstd, rstds, norm_count(shape));
    drop(x);
    drop(qw);
    drop(kw);
}

static void headnorm_backward(struct kernel_device *d, void *d_qkv, float *d_q_weight,
                              float *d_k_weight, const void *qkv, const void *q_weight,
                              const void *k_weight, const float *rstd,
                              struct kernel_attention shape)
{
    size_t depth = shape.width / shape.heads;
    void *g = activations_in(d_qkv, qkv_count(shape)), *x = activations_in(qkv, qkv_count(shape));
    void *qw = activations_in(q_weight, depth), *kw = activations_in(k_weight, depth);
    float *dq = values_in(d_q_weight, depth), *dk = values_in(d_k_weight, depth);
    float *rstds = values_in(rstd, norm_count(shape));

    inner->headnorm_backward(d, g, dq, dk, x, qw, kw, rstds, shape);
    activations_out(d_qkv, g, qkv_count(shape));
    values_out(d_q_weight, dq, depth);
    values_out(d_k_weight, dk, depth);
    drop(x);
    drop(qw);
    drop(kw);
    drop(rstds);
}

static void rotary_forward(struct kernel_device *d, void *qkv, const float *angles,
                           struct kernel_attention shape)
{
    void *x = activations_in(qkv, qkv_count(shape));
    float *turns = values_in(angles, shape.context * (shape.width / shape.heads));

    inner->rotary_forward(d, x, turns, shape);
    activations_out(qkv, x, qkv_count(shape));
    drop(turns);
}

static void rotary_backward(struct kernel_device *d, void *d_qkv, const float *angles,
                            struct kernel_attention shape)
{
    void *g = activations_in(d_qkv, qkv_count(shape));
    float *turns = values_in(angles, shape.context * (shape.width / shape.heads));

    inner->rotary_backward(d, g, turns, shape);
    activations_out(d_qkv, g, qkv_count(shape));
    drop(turns);
}

static void gelu_forward(struct kernel_device *d, void *output, const void *input, size_t count)
{
    void *x = activations_in(input, count), *result = activations_new(count);

    inner->gelu_forward(d, result, x, count);
    activations_out(output, result, count);
    drop(x);
}

static void gelu_backward(struct kernel_device *d, void *d_input, const void *d_output,
                          const void *input, size_t count)
{
    void *x = activations_in(input, count), *g = activations_in(d_output, count);
    void *dx = d_input == d_output ? g : activations_new(count);

    inner->gelu_backward(d, dx, g, x, count);
    activations_out(d_input, dx, count);
    if (dx != g)
        drop(g);
    drop(x);
}

static void swiglu_forward(struct kernel_device *d, void *output, const void *gate_up, size_t rows,
                           size_t width)
{
    void *x = activations_in(gate_up, rows * 2 * width), *result = activations_new(rows * width);

    inner->swiglu_forward(d, result, x, rows, width);
    activations_out(output, result, rows * width);
    drop(x);
}

static void swiglu_backward(struct kernel_device *d, void *d_gate_up, const void *d_output,
                            const void *gate_up, size_t rows, size_t width)
{
    size_t count = rows * 2 * width;
    void *x = activations_in(gate_up, count), *g = activations_in(d_output, rows * width);
    void *dx = d_gate_up == gate_up ? x : activations_new(count);

    inner->swiglu_backward(d, dx, g, x, rows, width);
    activations_out(d_gate_up, dx, count);
    if (dx != x)
        drop(x);
    drop(g);
}

static void residual(struct kernel_device *d, void *output, const void *a, const void *b,
                     size_t count)
{
    void *left = activations_in(a, count), *right = activations_in(b, count);
    void *result = output == a ? left : activations_new(count);

    inner->residual(d, result, left, right, count);
    activations_out(output, result, count);
    if (result != left)
        drop(left);
    drop(right);
}

static void cross_entropy_forward(struct kernel_device *d, float *losses, const void *logits,
                                  const int32_t *targets, size_t rows, size_t vocab, size_t stride)
{
    void *x = activations_in(logits, rows * stride);
    int32_t *on_device = tokens_in(targets, rows);
    float *result = values_in(NULL, rows);

    inner->cross_entropy_forward(d, result, x, on_device, rows, vocab, stride);
    values_out(losses, result, rows);
    drop(x);
    drop(on_device);
}

static void cross_entropy_fused(struct kernel_device *d, float *losses, void *logits,
                                const int32_t *targets, float scale, size_t rows, size_t vocab,
                                size_t stride)
{
    void *x = activations_in(logits, rows * stride);
    int32_t *on_device = tokens_in(targets, rows);
    float *result = values_in(NULL, rows);

    inner->cross_entropy_fused(d, result, x, on_device, scale, rows, vocab, stride);
    values_out(losses, result, rows);
    activations_out(logits, x, rows * stride);
    drop(on_device);
}

static struct kernel_adamw_tensor adamw_in(const struct kernel_adamw_tensor *host)
{
    struct kernel_adamw_tensor t = *host;

    t.parameter = values_in(host->parameter, t.count);
    t.first_moment = values_in(host->first_moment, t.count);
    t.second_moment = values_in(host->second_moment, t.count);
    t.weight = activations_new(t.count);
    t.gradient = values_in(host->gradient, t.count);
    return t;
}

static void adamw_out(const struct kernel_adamw_tensor *host, const struct kernel_adamw_tensor *t)
{
    values_out(host->parameter, t->parameter, t->count);
    values_out(host->first_moment, t->first_moment, t->count);
    values_out(host->second_moment, t->second_moment, t->count);
    if (host->weight)
        activations_out(host->weight, t->weight, t->count);
    else
        drop(t->weight);
    drop(t->gradient);
}

static void adamw(struct kernel_device *d, const struct kernel_adamw_tensor *tensors,
                  size_t tensor_count, const struct kernel_adamw *options)
{
    struct kernel_adamw_tensor *on_device = calloc(tensor_count, sizeof(*on_device));

    assert_non_null(on_device);
    for (size_t i = 0; i < tensor_count; i++)
        on_device[i] = adamw_in(&tensors[i]);
    inner->adamw(d, on_device, tensor_count, options);
    for (size_t i = 0; i < tensor_count; i++)
        adamw_out(&tensors[i], &on_device[i]);
    free(on_device);
}

static struct kernel_flat_tensor *flat_in(const struct kernel_flat_tensor *tensors, size_t count)
{
    struct kernel_flat_tensor *on_device = calloc(count, sizeof(*on_device));

    assert_non_null(on_device);
    for (size_t i = 0; i < count; i++)
        on_device[i] = (struct kernel_flat_tensor){values_in(tensors[i].values, tensors[i].count),
                                                   tensors[i].count};
    return on_device;
}

static void flat_drop(struct kernel_flat_tensor *on_device, size_t count)
{
    wait_for_device();
    for (size_t i = 0; i < count; i++)
        drop(on_device[i].values);
    free(on_device);
}

static void norms_squared(struct kernel_device *d, const struct kernel_flat_tensor *tensors,
                          size_t tensor_count, double *ret_sums)
{
    struct kernel_flat_tensor *on_device = flat_in(tensors, tensor_count);

    inner->norms_squared(d, on_device, tensor_count, ret_sums);
    flat_drop(on_device, tensor_count);
}

static void digests(struct kernel_device *d, const struct kernel_flat_tensor *tensors,
                    size_t tensor_count, uint64_t *ret_digests)
{
    struct kernel_flat_tensor *on_device = flat_in(tensors, tensor_count);

    inner->digests(d, on_device, tensor_count, ret_digests);
    flat_drop(on_device, tensor_count);
}

static void tree_add(struct kernel_device *d, float *output, const float *a, const float *b,
                     size_t count)
{
    float *left = values_in(a, count), *right = values_in(b, count);
    float *result = output == a ? left : values_in(NULL, count);

    inner->tree_add(d, result, left, right, count);
    values_out(output, result, count);
    if (result != left)
        drop(left);
    drop(right);
}

const struct kernel *adapter_around(const struct kernel *kernel, struct kernel_device *opened)
{
    static struct kernel table;

    inner = kernel;
    device = opened;
    table = *kernel;
    table.embedding_forward = embedding_forward;
    table.embedding_backward = embedding_backward;
    table.layernorm_forward = layernorm_forward;
    table.layernorm_backward = layernorm_backward;
    table.rmsnorm_forward = rmsnorm_forward;
    table.rmsnorm_backward = rmsnorm_backward;
    table.linear_forward = linear_forward;
    table.linear_gelu_forward = linear_gelu_forward;
    table.linear_backward = linear_backward;
    table.linear_gelu_backward = linear_gelu_backward;
    table.attention_forward = attention_forward;
    table.attention_backward = attention_backward;
    table.headnorm_forward = headnorm_forward;
    table.headnorm_backward = headnorm_backward;
    table.rotary_forward = rotary_forward;
    table.rotary_backward = rotary_backward;
    table.gelu_forward = gelu_forward;
    table.gelu_backward = gelu_backward;
    table.swiglu_forward = swiglu_forward;
    table.swiglu_backward = swiglu_backward;
    table.residual = residual;
    table.cross_entropy_forward = cross_entropy_forward;
    table.cross_entropy_fused = cross_entropy_fused;
    table.adamw = adamw;
    table.norms_squared = norms_squared;
    table.digests = digests;
    table.tree_add = tree_add;
    return &table;
}
