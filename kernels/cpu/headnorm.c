/*
 * RMS norm of each head of queries and keys, inside the rows of q|k|v. Split among the threads as
 * rmsnorm.c is: rows, but columns of a head for the gradients of the two weights.
 */
#include "kernels/cpu/level.h"
#include "kernels/cpu/row.h"

#define ROW_GRAIN    4
#define COLUMN_GRAIN 16

struct headnorm {
    struct kernel_attention shape;
    const float *qkv, *q_weight, *k_weight;
    float *output, *new_rstd;
    float epsilon;
    float *d_qkv, *d_q_weight, *d_k_weight;
    const float *rstd;
    size_t depth, stride; /* columns of a head, of a row */
};

static struct headnorm headnorm_of(struct kernel_attention shape)
{
    size_t depth = shape.width / shape.heads;
    return (struct headnorm){
        .shape = shape, .depth = depth, .stride = shape.width + 2 * shape.kv_heads * depth};
}

/* Return the number of heads with a norm: queries, then keys. */
static size_t norm_count(const struct headnorm *h)
{
    return h->shape.heads + h->shape.kv_heads;
}

static const float *weight_of(const struct headnorm *h, size_t head)
{
    return head < h->shape.heads ? h->q_weight : h->k_weight;
}

static void forward_share(const void *context, size_t begin, size_t end,
                          struct device_scratch *scratch)
{
    const struct headnorm *h = context;
    size_t norms = norm_count(h), normed = norms * h->depth;
    (void)scratch;

    for (size_t row = begin; row < end; row++) {
        const float *in = h->qkv + row * h->stride;
        float *out = h->output + row * h->stride;
        for (size_t head = 0; head < norms; head++)
            h->new_rstd[row * norms + head] =
                row_rmsnorm(out + head * h->depth, in + head * h->depth, weight_of(h, head),
                            h->epsilon, h->depth);
        memcpy(out + normed, in + normed, (h->stride - normed) * sizeof(float));
    }
}

static void backward_input_share(const void *context, size_t begin, size_t end,
                                 struct device_scratch *scratch)
{
    const struct headnorm *h = context;
    size_t norms = norm_count(h);
    (void)scratch;

    for (size_t row = begin; row < end; row++)
        for (size_t head = 0; head < norms; head++) {
            size_t at = row * h->stride + head * h->depth;
            row_rmsnorm_backward(h->d_qkv + at, NULL, h->d_qkv + at, h->qkv + at,
                                 weight_of(h, head), h->rstd[row * norms + head], h->depth);
        }
}

/* Add one vector of columns of the heads [@first, @end): over all rows, and in each row over its
 * heads in order. */
static void backward_columns(const struct headnorm *h, float *d_weight, size_t first, size_t end,
                             size_t column, size_t left)
{
    size_t rows = h->shape.batch * h->shape.context, norms = norm_count(h);
    vec sum = vec_zero();

    for (size_t row = 0; row < rows; row++)
        for (size_t head = first; head < end; head++) {
            size_t at = row * h->stride + head * h->depth + column;
            vec x = vec_load_part(h->qkv + at, left, 0.0f);
            vec g = vec_load_part(h->d_qkv + at, left, 0.0f);
            sum = vec_fma(g, vec_mul(x, vec_set(h->rstd[row * norms + head])), sum);
        }
    vec before = vec_load_part(d_weight + column, left, 0.0f);
    vec_store_part(d_weight + column, vec_add(before, sum), left);
}

/* Add the gradients of weights. Items are the columns of the queries' weight, then those of the
 * keys'. */
static void backward_weights_share(const void *context, size_t begin, size_t end,
                                   struct device_scratch *scratch)
{
    const struct headnorm *h = context;
    (void)scratch;

    for (size_t item = begin; item < end;) {
        bool keys = item >= h->depth;
        size_t column = keys ? item - h->depth : item;
        size_t left = MIN(MIN(end - item, h->depth - column), (size_t)VEC_LANES);
        if (keys)
            backward_columns(h, h->d_k_weight, h->shape.heads, norm_count(h), column, left);
        else
            backward_columns(h, h->d_q_weight, 0, h->shape.heads, column, left);
        item += left;
    }
}

void OPERATION(headnorm_forward)(struct kernel_device *device, void *output, float *rstd,
                                 const void *qkv, const void *q_weight, const void *k_weight,
                                 float epsilon, struct kernel_attention shape)
{
    struct headnorm h = headnorm_of(shape);

    h.qkv = qkv;
    h.q_weight = q_weight;
    h.k_weight = k_weight;
    h.output = output;
    h.new_rstd = rstd;
    h.epsilon = epsilon;
    device_for(device, shape.batch * shape.context, ROW_GRAIN, forward_share, &h);
}

/* Compute the weights' gradients first: the input's gradient overwrites the output's. */
void OPERATION(headnorm_backward)(struct kernel_device *device, void *d_qkv, float *d_q_weight,
                                  float *d_k_weight, const void *qkv, const void *q_weight,
                                  const void *k_weight, const float *rstd,
                                  struct kernel_attention shape)
{
    struct headnorm h = headnorm_of(shape);

    h.qkv = qkv;
    h.q_weight = q_weight;
    h.k_weight = k_weight;
    h.d_qkv = d_qkv;
    h.d_q_weight = d_q_weight;
    h.d_k_weight = d_k_weight;
    h.rstd = rstd;
    device_for(device, 2 * h.depth, COLUMN_GRAIN, backward_weights_share, &h);
    device_for(device, shape.batch * shape.context, ROW_GRAIN, backward_input_share, &h);
}
