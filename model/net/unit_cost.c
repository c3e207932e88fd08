/*
 * Estimate the cost of a unit before any measurement: the multiplications and additions of its
 * matrix products, which are nearly all of the work, and the bytes that model/net/stage.c keeps.
 */
#include "model/net/unit.h"

/* forward: one product; backward: one for the input's gradient, one for the weight's */
static void add_linear(struct unit_cost *cost, double rows, double in, double out)
{
    cost->forward_flops += 2.0 * rows * in * out;
    cost->backward_flops += 4.0 * rows * in * out;
}

/* Causal: half of the T x T scores. Forward computes scores and output; backward recomputes the
 * scores and computes the gradients of scores, values, queries and keys. */
static void add_attention(struct unit_cost *cost, double batch, double context, double width)
{
    double product = batch * context * context * width;
    cost->forward_flops += 2.0 * product;
    cost->backward_flops += 5.0 * product;
}

/* Add the two products of a sublayer. Return the elements of its rows that are kept besides the
 * input's norm: before and after attention or the activation. */
static size_t add_sublayer(struct unit_cost *cost, const struct model_spec *spec,
                           enum unit_kind kind, size_t rows)
{
    struct unit_widths widths = model_unit_widths(spec, kind);

    add_linear(cost, (double)rows, spec->width, (double)widths.wide);
    add_linear(cost, (double)rows, (double)widths.mixed, spec->width);
    return rows * (widths.wide + widths.mixed);
}

void model_unit_cost(const struct model_spec *spec, unsigned unit, unsigned batch,
                     struct unit_cost *ret_cost)
{
    size_t rows = (size_t)batch * spec->context, width = spec->width;
    size_t stream = rows * width,
           statistics = (spec->family == MODEL_GPT2 ? 2 : 1) * rows; /* elements */
    size_t kept = 0;
    double n = (double)rows, c = (double)width;
    double attention_width = (double)spec->heads * model_head_width(spec);
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
        add_attention(ret_cost, batch, spec->context, attention_width);
        /* input, its norm, q|k|v, attention's output, log sums */
        kept = 2 * stream + statistics + add_sublayer(ret_cost, spec, UNIT_ATTENTION, rows) +
               rows * spec->heads;
        break;
    case UNIT_MLP:
        /* input, its norm, before and after the activation */
        kept = 2 * stream + statistics + add_sublayer(ret_cost, spec, UNIT_MLP, rows);
        break;
    case UNIT_HEAD:
        add_linear(ret_cost, n, c, spec->vocab);
        /* input, its norm, logits, losses, targets */
        kept = stream + stream + statistics + rows * model_logits_stride(spec) + 2 * rows;
        ret_cost->boundary_bytes = 0; /* nothing leaves the last unit */
        break;
    }
    ret_cost->activation_bytes = kept * sizeof(float);
}
