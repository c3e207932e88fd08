/*
 * What a unit costs before anything has been measured: the multiplications and additions of its
 * matrix products (they are nearly all of the work), and the bytes that model/stage.c keeps.
 */
#include "model/unit.h"

/* forward: one product; backward: one for the input's gradient, one for the weight's */
static void add_linear(struct unit_cost *cost, double rows, double in, double out)
{
    cost->forward_flops += 2.0 * rows * in * out;
    cost->backward_flops += 4.0 * rows * in * out;
}

/* Causal: half of the T x T scores. Forward makes scores and output; backward makes the scores
   again and the gradients of scores, values, queries and keys. */
static void add_attention(struct unit_cost *cost, double batch, double context, double width)
{
    double product = batch * context * context * width;
    cost->forward_flops += 2.0 * product;
    cost->backward_flops += 5.0 * product;
}

void model_unit_cost(const struct model_spec *spec, unsigned unit, unsigned batch,
                     struct unit_cost *ret_cost)
{
    size_t rows = (size_t)batch * spec->context, width = spec->width;
    size_t stream = rows * width, statistics = 2 * rows; /* elements */
    size_t kept = 0;
    double n = (double)rows, c = (double)width;
    struct unit_layout layout;
    model_unit_layout(spec, unit, &layout);

    *ret_cost = (struct unit_cost){.parameter_bytes = layout.count * sizeof(float),
                                   .boundary_bytes = stream * sizeof(float)};
    switch (layout.kind) {
    case UNIT_EMBEDDING:
        ret_cost->forward_flops = n * c;
        ret_cost->backward_flops = 2.0 * n * c;
        kept = rows; /* tokens */
        break;
    case UNIT_ATTENTION:
        add_linear(ret_cost, n, c, 3.0 * c);
        add_attention(ret_cost, batch, spec->context, c);
        add_linear(ret_cost, n, c, c);
        /* input, its norm, q|k|v, attention's output, log sums */
        kept = stream + stream + statistics + 3 * stream + stream + rows * spec->heads;
        break;
    case UNIT_MLP:
        add_linear(ret_cost, n, c, 4.0 * c);
        add_linear(ret_cost, n, 4.0 * c, c);
        /* input, its norm, before and after GELU */
        kept = stream + stream + statistics + 8 * stream;
        break;
    case UNIT_HEAD:
        add_linear(ret_cost, n, c, spec->vocab);
        /* input, its norm, logits, losses, targets */
        kept = stream + stream + statistics + rows * spec->vocab + 2 * rows;
        ret_cost->boundary_bytes = 0; /* nothing leaves the last unit */
        break;
    }
    ret_cost->activation_bytes = kept * sizeof(float);
}
