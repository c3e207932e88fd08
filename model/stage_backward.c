/*
 * Backward of one unit. The gradient of the residual stream stays in one buffer on its way down:
 * a sublayer is output = input + f(norm(input)), so its output's gradient is already the residual
 * part of its input's gradient and layernorm_backward() adds the rest in place. Only at the
 * stage's first unit it goes over into the buffer that is sent to the previous stage.
 */
#include "model/stage.h"
#include "model/stage_private.h"

/* One unit at work: its tensors and their gradients, what it kept. */
struct backward {
    const struct stage *stage;
    const struct unit_layout *layout;
    const void *weights;
    float *gradient;
    const void *input; /* (N,C) */
    const struct activations *kept;
    void *d_stream; /* (N,C): the output's gradient, then the input's */
};

static const void *tensor(const struct backward *b, unsigned index)
{
    return stage_weight(b->stage, b->layout, b->weights, index);
}

static float *d_tensor(const struct backward *b, unsigned index)
{
    return b->gradient + b->layout->tensors[index].offset;
}

static void backward_embedding(const struct backward *b, const int32_t *tokens)
{
    const struct stage *s = b->stage;
    s->kernel->embedding_backward(s->device, d_tensor(b, EMBEDDING_TOKENS),
                                  d_tensor(b, EMBEDDING_POSITIONS), b->d_stream, tokens, s->batch,
                                  s->spec.context, s->spec.width);
}

/* d_stream += the gradient through the norm, of which @d_norm is the output's */
static void backward_norm(const struct backward *b, const void *d_norm)
{
    const struct stage *s = b->stage;
    s->kernel->layernorm_backward(s->device, b->d_stream, d_tensor(b, NORM_WEIGHT),
                                  d_tensor(b, NORM_BIAS), d_norm, b->input, tensor(b, NORM_WEIGHT),
                                  b->kept->mean, b->kept->rstd, s->rows, s->spec.width);
}

static void backward_out(const struct backward *b, void *d_mixed, size_t in)
{
    const struct stage *s = b->stage;
    s->kernel->linear_backward(
        s->device, d_mixed, d_tensor(b, BLOCK_OUT_WEIGHT), d_tensor(b, BLOCK_OUT_BIAS), b->d_stream,
        b->kept->mixed, tensor(b, BLOCK_OUT_WEIGHT), stage_block_shape(s, in, s->spec.width));
}

static void backward_in(const struct backward *b, const void *d_wide, size_t out)
{
    const struct stage *s = b->stage;
    s->kernel->linear_backward(
        s->device, s->scratch, d_tensor(b, BLOCK_IN_WEIGHT), d_tensor(b, BLOCK_IN_BIAS), d_wide,
        b->kept->norm, tensor(b, BLOCK_IN_WEIGHT), stage_block_shape(s, s->spec.width, out));
}

static void backward_attention(const struct backward *b)
{
    const struct stage *s = b->stage;
    size_t width = s->spec.width;

    backward_out(b, s->scratch, width);
    s->kernel->attention_backward(s->device, s->scratch_wide, s->scratch, b->kept->mixed,
                                  b->kept->log_sum, b->kept->wide, stage_attention_shape(s));
    backward_in(b, s->scratch_wide, 3 * width);
    backward_norm(b, s->scratch);
}

static void backward_mlp(const struct backward *b)
{
    const struct stage *s = b->stage;
    size_t wide = 4 * (size_t)s->spec.width;

    backward_out(b, s->scratch_wide, wide);
    s->kernel->gelu_backward(s->device, s->scratch_wide, s->scratch_wide, b->kept->wide,
                             s->rows * wide);
    backward_in(b, s->scratch_wide, wide);
    backward_norm(b, s->scratch);
}

static void backward_head(const struct backward *b)
{
    const struct stage *s = b->stage;

    s->kernel->linear_backward(s->device, s->scratch, d_tensor(b, HEAD_TABLE), NULL,
                               b->kept->logits, b->kept->norm, tensor(b, HEAD_TABLE),
                               stage_head_shape(s));
    backward_norm(b, s->scratch);
}

/* The buffer that holds the output's gradient and is to become the input's. */
static void *begin_stream(struct stage *stage, enum unit_kind kind, bool leaves_stage)
{
    const struct kernel *kernel = stage->kernel;
    size_t size_bytes = stage_boundary_bytes(stage);
    void *stream = leaves_stage ? stage->input_gradient : stage->stream_gradient;

    if (kind == UNIT_HEAD) /* no residual path: nothing comes from above */
        kernel->zero(stage->device, stream, size_bytes);
    else if (leaves_stage)
        kernel->copy(stage->device, stream, stage->stream_gradient, size_bytes);
    return stream;
}

void stage_backward_unit(struct stage *stage, unsigned slot_index, unsigned unit,
                         const void *weights, float *gradient, bool want_input_gradient)
{
    struct stage_slot *slot = stage_slot_of(stage, slot_index);
    assert(unit >= stage->first_unit && unit - stage->first_unit < stage->unit_count);
    assert(slot->kept);

    unsigned i = unit - stage->first_unit;
    bool leaves_stage = i == 0 && want_input_gradient && stage->input_gradient != NULL;
    struct backward b = {.stage = stage,
                         .layout = &stage->layouts[i],
                         .weights = weights,
                         .gradient = gradient,
                         .input = slot->streams[i],
                         .kept = stage_activations(stage, slot, i)};
    if (stage_recomputes(stage->recompute, b.layout->kind))
        stage_compute_again(stage, slot, i, weights);
    b.d_stream = begin_stream(stage, b.layout->kind, leaves_stage);
    switch (b.layout->kind) {
    case UNIT_EMBEDDING:
        backward_embedding(&b, slot->tokens);
        break;
    case UNIT_ATTENTION:
        backward_attention(&b);
        break;
    case UNIT_MLP:
        backward_mlp(&b);
        break;
    case UNIT_HEAD:
        backward_head(&b);
        break;
    }
}
