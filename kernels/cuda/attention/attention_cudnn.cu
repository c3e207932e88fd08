#include "kernels/cuda/attention/attention_cudnn.cuh"

#include <errno.h>

/* Below every score, but finite: a difference of two such values is a number. */
#define LOWEST (-3.0e38f)

/* The shapes of one graph, for some samples of the micro-batch. */
struct shapes {
    struct cudnn_layout query, key, key_turned, value, value_turned; /* in qkv */
    struct cudnn_layout output;                                      /* (B,T,C) */
    struct cudnn_layout scores, scores_turned, rows;                 /* no memory except for rows */
    struct cudnn_layout head_rows; /* of one head of queries, for keys and values */
};

static struct cudnn_layout turned(struct cudnn_layout layout)
{
    return {{layout.size[0], layout.size[1], layout.size[3], layout.size[2]},
            {layout.stride[0], layout.stride[1], layout.stride[3], layout.stride[2]}};
}

static struct cudnn_layout dense(int64_t batch, int64_t heads, int64_t rows, int64_t columns)
{
    return {{batch, heads, rows, columns}, {heads * rows * columns, rows * columns, columns, 1}};
}

static struct shapes shapes_of(const attention_view &view, unsigned samples)
{
    const int64_t batch = samples, heads = view.heads, kv_heads = view.kv_heads;
    const int64_t rows = view.context, depth = view.depth, stride = view.stride;
    struct shapes s;

    s.query = {{batch, heads, rows, depth}, {rows * stride, depth, stride, 1}};
    s.key = {{batch, kv_heads, rows, depth}, {rows * stride, depth, stride, 1}};
    s.value = s.key;
    s.key_turned = turned(s.key);
    s.value_turned = turned(s.value);
    s.output = {{batch, heads, rows, depth}, {rows * view.width, depth, view.width, 1}};
    s.scores = dense(batch, heads, rows, rows);
    s.scores_turned = turned(s.scores);
    s.rows = dense(batch, heads, rows, 1);
    s.head_rows = dense(batch, heads, rows, depth);
    return s;
}

/* Add a pointwise operation in f32; return its value, in @layout. */
static cudnn_descriptor apply(struct cudnn_graph *g, struct cudnn_layout layout,
                              enum cudnn_pointwise mode, cudnn_descriptor a, cudnn_descriptor b)
{
    cudnn_descriptor result = cudnn_graph_value(g, layout, CUDNN_F32);
    cudnn_graph_pointwise(g, mode, a, b, NULL, 0, result);
    return result;
}

static cudnn_descriptor multiply(struct cudnn_graph *g, struct cudnn_layout layout,
                                 cudnn_descriptor a, cudnn_descriptor b)
{
    cudnn_descriptor result = cudnn_graph_value(g, layout, CUDNN_F32);
    cudnn_graph_matmul(g, a, b, result);
    return result;
}

static cudnn_descriptor turn(struct cudnn_graph *g, struct cudnn_layout layout, cudnn_descriptor a)
{
    cudnn_descriptor result = cudnn_graph_value(g, layout, CUDNN_BF16);
    cudnn_graph_reshape(g, a, result);
    return result;
}

static cudnn_descriptor index_along(struct cudnn_graph *g, struct cudnn_layout layout,
                                    cudnn_descriptor a, unsigned axis)
{
    cudnn_descriptor result = cudnn_graph_value(g, layout, CUDNN_I32);
    cudnn_graph_pointwise(g, CUDNN_INDEX, a, NULL, NULL, axis, result);
    return result;
}

/* Set the scores of keys after their query to @lowest. */
static cudnn_descriptor hide_later(struct cudnn_graph *g, struct cudnn_layout layout,
                                   cudnn_descriptor scores, cudnn_descriptor lowest)
{
    cudnn_descriptor query = index_along(g, layout, scores, 2);
    cudnn_descriptor key = index_along(g, layout, scores, 3);
    cudnn_descriptor seen = cudnn_graph_value(g, layout, CUDNN_BOOL);
    cudnn_descriptor result = cudnn_graph_value(g, layout, CUDNN_F32);

    cudnn_graph_pointwise(g, CUDNN_AT_LEAST, query, key, NULL, 0, seen);
    cudnn_graph_pointwise(g, CUDNN_SELECT, scores, lowest, seen, 0, result);
    return result;
}

/* ---- forward: memory is query, key, value, scale, lowest, log_sum, output ---- */

static void build_forward(struct cudnn_graph *g, const struct shapes *s)
{
    cudnn_descriptor query = cudnn_graph_memory(g, s->query, CUDNN_BF16);
    cudnn_descriptor key = cudnn_graph_memory(g, s->key_turned, CUDNN_BF16);
    cudnn_descriptor value = cudnn_graph_memory(g, s->value, CUDNN_BF16);
    cudnn_descriptor scale = cudnn_graph_number(g), lowest = cudnn_graph_number(g);
    cudnn_descriptor log_sum = cudnn_graph_memory(g, s->rows, CUDNN_F32);
    cudnn_descriptor output = cudnn_graph_memory(g, s->output, CUDNN_BF16);

    cudnn_descriptor scores = multiply(g, s->scores, query, key);
    scores = apply(g, s->scores, CUDNN_MUL, scores, scale);
    scores = hide_later(g, s->scores, scores, lowest);
    cudnn_descriptor highest = cudnn_graph_value(g, s->rows, CUDNN_F32);
    cudnn_graph_reduce(g, CUDNN_HIGHEST, scores, highest);
    cudnn_descriptor weights = apply(g, s->scores, CUDNN_SUB, scores, highest);
    weights = apply(g, s->scores, CUDNN_EXP, weights, NULL);
    cudnn_descriptor sum = cudnn_graph_value(g, s->rows, CUDNN_F32);
    cudnn_graph_reduce(g, CUDNN_SUM, weights, sum);
    cudnn_descriptor log = apply(g, s->rows, CUDNN_LOG, sum, NULL);
    cudnn_graph_pointwise(g, CUDNN_ADD, highest, log, NULL, 0, log_sum);
    cudnn_descriptor parts = cudnn_graph_value(g, s->scores, CUDNN_BF16);
    cudnn_graph_pointwise(g, CUDNN_DIV, weights, sum, NULL, 0, parts);
    cudnn_graph_matmul(g, parts, value, output);
}

/* ---- backward: memory is query, key, value, output, d_output, log_sum, delta, one, scale, lowest,
 * d_query, d_key, d_value ---- */

/* @result = @a @b. Heads are summed where several query heads share one head of keys and values. */
static void multiply_into_heads(struct cudnn_graph *g, const struct shapes *s, cudnn_descriptor a,
                                cudnn_descriptor b, cudnn_descriptor result)
{
    if (s->query.size[1] == s->key.size[1]) {
        cudnn_graph_matmul(g, a, b, result);
        return;
    }
    cudnn_descriptor each = cudnn_graph_value(g, s->head_rows, CUDNN_BF16);
    cudnn_graph_matmul(g, a, b, each);
    cudnn_graph_reduce(g, CUDNN_SUM, each, result);
}

static void build_backward(struct cudnn_graph *g, const struct shapes *s)
{
    cudnn_descriptor query = cudnn_graph_memory(g, s->query, CUDNN_BF16);
    cudnn_descriptor key = cudnn_graph_memory(g, s->key_turned, CUDNN_BF16);
    cudnn_descriptor value = cudnn_graph_memory(g, s->value_turned, CUDNN_BF16);
    cudnn_descriptor output = cudnn_graph_memory(g, s->output, CUDNN_BF16);
    cudnn_descriptor d_output = cudnn_graph_memory(g, s->output, CUDNN_BF16);
    cudnn_descriptor log_sum = cudnn_graph_memory(g, s->rows, CUDNN_F32);
    cudnn_descriptor delta = cudnn_graph_memory(g, s->rows, CUDNN_F32);
    cudnn_descriptor one = cudnn_graph_number(g), scale = cudnn_graph_number(g);
    cudnn_descriptor lowest = cudnn_graph_number(g);
    cudnn_descriptor d_query = cudnn_graph_memory(g, s->query, CUDNN_BF16);
    cudnn_descriptor d_key = cudnn_graph_memory(g, s->key, CUDNN_BF16);
    cudnn_descriptor d_value = cudnn_graph_memory(g, s->value, CUDNN_BF16);

    cudnn_descriptor product = apply(g, s->head_rows, CUDNN_MUL, d_output, output);
    cudnn_descriptor sum = cudnn_graph_value(g, s->rows, CUDNN_F32);
    cudnn_graph_reduce(g, CUDNN_SUM, product, sum);
    cudnn_graph_pointwise(g, CUDNN_MUL, sum, one, NULL, 0, delta);

    cudnn_descriptor weights = multiply(g, s->scores, query, key);
    weights = apply(g, s->scores, CUDNN_MUL, weights, scale);
    weights = apply(g, s->scores, CUDNN_SUB, weights, log_sum);
    weights = hide_later(g, s->scores, weights, lowest);
    weights = apply(g, s->scores, CUDNN_EXP, weights, NULL);
    multiply_into_heads(g, s, turn(g, s->scores_turned, weights), d_output, d_value);

    cudnn_descriptor d_scores = multiply(g, s->scores, d_output, value);
    d_scores = apply(g, s->scores, CUDNN_SUB, d_scores, delta);
    d_scores = apply(g, s->scores, CUDNN_MUL, d_scores, weights);
    d_scores = apply(g, s->scores, CUDNN_MUL, d_scores, scale);
    multiply_into_heads(g, s, turn(g, s->scores_turned, d_scores), query, d_key);
    cudnn_graph_matmul(g, d_scores, turn(g, s->key, key), d_query);
}

/* ---- planning ---- */

typedef void (*build_graph)(struct cudnn_graph *graph, const struct shapes *shapes);

static int plan(const struct cudnn *cudnn, const attention_view &view, unsigned samples,
                build_graph build, size_t workspace_max, struct attention_graph *ret_graph,
                struct error *error)
{
    struct shapes shapes = shapes_of(view, samples);

    *ret_graph = {};
    ret_graph->graph.cudnn = cudnn;
    ret_graph->samples = samples;
    build(&ret_graph->graph, &shapes);
    int status = cudnn_graph_plan(&ret_graph->graph, workspace_max, error);
    if (status < 0)
        attention_graph_drop(ret_graph);
    return status;
}

/* Return whether the log-sums and deltas of every part of @samples begin where the graph declares
 * it: they have heads x context floats a sample, an odd number perhaps. */
static bool parts_are_aligned(const attention_view &view, unsigned samples)
{
    size_t part_bytes = (size_t)samples * view.heads * view.context * sizeof(float);

    return samples == view.batch || part_bytes % CUDNN_ALIGNMENT_BYTES == 0;
}

/* Plan the whole micro-batch at once, or the largest part of it that fits the workspace. */
static int plan_parts(const struct cudnn *cudnn, const attention_view &view, build_graph build,
                      size_t workspace_max, struct attention_graph *ret_graph, struct error *error)
{
    int status = -ENOSPC;

    for (unsigned parts = 1; parts <= view.batch && status == -ENOSPC; parts++)
        if (view.batch % parts == 0 && parts_are_aligned(view, view.batch / parts))
            status = plan(cudnn, view, view.batch / parts, build, workspace_max, ret_graph, error);
    return status;
}

int attention_graph_forward(const struct cudnn *cudnn, const attention_view &view,
                            size_t workspace_max, struct attention_graph *ret_graph,
                            struct error *error)
{
    return plan_parts(cudnn, view, build_forward, workspace_max, ret_graph, error);
}

int attention_graph_backward(const struct cudnn *cudnn, const attention_view &view,
                             size_t workspace_max, struct attention_graph *ret_graph,
                             struct error *error)
{
    return plan_parts(cudnn, view, build_backward, workspace_max, ret_graph, error);
}

void attention_graph_drop(struct attention_graph *graph)
{
    cudnn_graph_drop(&graph->graph);
    graph->samples = 0;
}

/* ---- running ---- */

/* Return the addresses for one part of the micro-batch, in the order of the graph's memory. */
static size_t value_begin(const attention_view &view)
{
    return attention_qkv_index(view, ATTENTION_VALUE, 0, 0, 0);
}

static size_t key_begin(const attention_view &view)
{
    return attention_qkv_index(view, ATTENTION_KEY, 0, 0, 0);
}

int attention_graph_run_forward(const struct attention_graph *graph, bfloat *output, float *log_sum,
                                const bfloat *qkv, const attention_view &view, void *workspace)
{
    float scale = view.scale, lowest = LOWEST;
    int status = 0;

    for (unsigned sample = 0; sample < view.batch && status == 0; sample += graph->samples) {
        const bfloat *from = qkv + attention_qkv_index(view, ATTENTION_QUERY, sample, 0, 0);
        void *const memory[] = {(void *)from,
                                (void *)(from + key_begin(view)),
                                (void *)(from + value_begin(view)),
                                &scale,
                                &lowest,
                                log_sum + attention_row_index(view, sample, 0, 0),
                                output + attention_output_index(view, sample, 0, 0)};
        status = cudnn_graph_run(&graph->graph, memory, workspace);
    }
    return status;
}

int attention_graph_run_backward(const struct attention_graph *graph, bfloat *d_qkv,
                                 const bfloat *d_output, const bfloat *output, float *delta,
                                 const float *log_sum, const bfloat *qkv,
                                 const attention_view &view, void *workspace)
{
    float one = 1.0f, scale = view.scale, lowest = LOWEST;
    int status = 0;

    for (unsigned sample = 0; sample < view.batch && status == 0; sample += graph->samples) {
        size_t begin = attention_qkv_index(view, ATTENTION_QUERY, sample, 0, 0);
        size_t row = attention_row_index(view, sample, 0, 0);
        size_t out = attention_output_index(view, sample, 0, 0);
        const bfloat *from = qkv + begin;
        bfloat *to = d_qkv + begin;
        void *const memory[] = {(void *)from,
                                (void *)(from + key_begin(view)),
                                (void *)(from + value_begin(view)),
                                (void *)(output + out),
                                (void *)(d_output + out),
                                (void *)(log_sum + row),
                                delta + row,
                                &one,
                                &scale,
                                &lowest,
                                to,
                                to + key_begin(view),
                                to + value_begin(view)};
        status = cudnn_graph_run(&graph->graph, memory, workspace);
    }
    return status;
}
