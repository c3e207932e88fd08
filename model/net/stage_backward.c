/*
 * Backward of one unit. The gradient of the residual stream stays in one buffer on its way down: a
 * sublayer is output = input + f(norm(input)), so its output's gradient is already the residual
 * part of its input's gradient and the norm's backward adds the rest in place. Only at the stage's
 * first unit does it move to the buffer that is sent to the previous stage.
 *
 * In a split backward, the input's part stores operands for the weights' part over activations that
 * it was the last to read: the output's gradient in the stream behind the unit, the first product's
 * gradient in `wide`. Gradients of norms need rows that are not kept, so they are computed at once,
 * into a buffer of the micro-batch, and added later. Kernels compute the sum of a micro-batch first
 * and add it once. Gradients begin at +0 and change only by additions, so they are never -0, and it
 * does not matter whether the sum is +0 or -0. So the bits are those of an unsplit backward.
 */
#include "model/net/stage.h"
#include "model/net/stage_private.h"

/* Context of one unit's backward: its tensors, their gradients and the kept activations. */
struct backward {
    const struct stage *stage;
    const struct unit_layout *layout;
    const void *weights;
    float *gradient; /* NULL: compute only those of the norms */
    float *norms; /* the micro-batch's buffer for gradients of norms; NULL: they go to @gradient */
    const void *input; /* (N,C) */
    const struct activations *kept;
    void *d_stream; /* (N,C): the output's gradient, then the input's */
};

static const void *weight(const struct backward *b, enum unit_part part)
{
    return stage_weight(b->stage, b->layout, b->weights, part);
}

/* Return NULL if the unit has no such tensor, or its gradient is not wanted. */
static float *d_weight(const struct backward *b, enum unit_part part)
{
    const struct unit_tensor *tensor = model_unit_part(b->layout, part);
    return !tensor || !b->gradient ? NULL : b->gradient + tensor->offset;
}

static float *d_norm_weight(const struct backward *b, enum unit_part part)
{
    const struct unit_tensor *tensor = model_unit_part(b->layout, part);

    if (!b->norms)
        return d_weight(b, part);
    return !tensor
               ? NULL
               : b->norms + stage_norm_offset(b->layout, (unsigned)(tensor - b->layout->tensors));
}

static void backward_embedding(const struct backward *b, const int32_t *tokens)
{
    const struct stage *s = b->stage;
    s->kernel->embedding_backward(s->device, d_weight(b, UNIT_TOKENS), d_weight(b, UNIT_POSITIONS),
                                  b->d_stream, tokens, s->batch, s->spec.context, s->spec.width);
}

/* d_stream += the gradient through the norm; @d_norm is the gradient of the norm's output */
static void backward_norm(const struct backward *b, const void *d_norm)
{
    const struct stage *s = b->stage;
    float *d_weights = d_norm_weight(b, UNIT_NORM_WEIGHT);

    if (stage_has_rms_norm(s))
        s->kernel->rmsnorm_backward(s->device, b->d_stream, d_weights, d_norm, b->input,
                                    weight(b, UNIT_NORM_WEIGHT), b->kept->rstd, s->rows,
                                    s->spec.width);
    else
        s->kernel->layernorm_backward(
            s->device, b->d_stream, d_weights, d_norm_weight(b, UNIT_NORM_BIAS), d_norm, b->input,
            weight(b, UNIT_NORM_WEIGHT), b->kept->mean, b->kept->rstd, s->rows, s->spec.width);
}

static void backward_out(const struct backward *b, void *d_mixed)
{
    const struct stage *s = b->stage;
    size_t mixed = model_unit_widths(&s->spec, b->layout->kind).mixed;

    s->kernel->linear_backward(
        s->device, d_mixed, d_weight(b, UNIT_OUT_WEIGHT), d_weight(b, UNIT_OUT_BIAS), b->d_stream,
        b->kept->mixed, weight(b, UNIT_OUT_WEIGHT), stage_block_shape(s, mixed, s->spec.width));
}

static void backward_in(const struct backward *b, const void *d_wide)
{
    const struct stage *s = b->stage;
    size_t wide = model_unit_widths(&s->spec, b->layout->kind).wide;

    s->kernel->linear_backward(
        s->device, s->scratch, d_weight(b, UNIT_IN_WEIGHT), d_weight(b, UNIT_IN_BIAS), d_wide,
        b->kept->norm, weight(b, UNIT_IN_WEIGHT), stage_block_shape(s, s->spec.width, wide));
}

static void backward_attention(const struct backward *b)
{
    const struct stage *s = b->stage;
    struct kernel_attention shape = stage_attention_shape(s);
    const void *qkv = b->kept->wide;

    if (s->spec.qk_norm)
        qkv = stage_attention_input(s, b->layout, b->weights, b->kept->wide);
    backward_out(b, s->scratch);
    s->kernel->attention_backward(s->device, s->scratch_wide, s->scratch, b->kept->mixed,
                                  b->kept->log_sum, qkv, shape);
    if (s->rotary_angles)
        s->kernel->rotary_backward(s->device, s->scratch_wide, s->rotary_angles, shape);
    if (s->spec.qk_norm)
        s->kernel->headnorm_backward(s->device, s->scratch_wide, d_norm_weight(b, UNIT_Q_NORM),
                                     d_norm_weight(b, UNIT_K_NORM), b->kept->wide,
                                     weight(b, UNIT_Q_NORM), weight(b, UNIT_K_NORM), s->head_rstd,
                                     shape);
    backward_in(b, s->scratch_wide);
    backward_norm(b, s->scratch);
}

/* Do the same as backward_out(), and go back through GELU. */
static void backward_gelu_out(const struct backward *b, void *d_wide)
{
    const struct stage *s = b->stage;
    size_t mixed = model_unit_widths(&s->spec, b->layout->kind).mixed;

    s->kernel->linear_gelu_backward(s->device, d_wide, d_weight(b, UNIT_OUT_WEIGHT),
                                    d_weight(b, UNIT_OUT_BIAS), b->d_stream, b->kept->mixed,
                                    b->kept->wide, weight(b, UNIT_OUT_WEIGHT),
                                    stage_block_shape(s, mixed, s->spec.width));
}

/* SwiGLU's gradient is twice as wide as its output, so it overwrites SwiGLU's input. */
static void backward_mlp(const struct backward *b)
{
    const struct stage *s = b->stage;
    bool gated = s->spec.family == MODEL_LLAMA;
    void *d_wide = gated ? b->kept->wide : s->scratch_wide;

    if (gated) {
        backward_out(b, s->scratch_wide);
        s->kernel->swiglu_backward(s->device, d_wide, s->scratch_wide, b->kept->wide, s->rows,
                                   s->spec.hidden);
    } else {
        backward_gelu_out(b, d_wide);
    }
    backward_in(b, d_wide);
    backward_norm(b, s->scratch);
}

static void backward_head(const struct backward *b)
{
    const struct stage *s = b->stage;

    s->kernel->linear_backward(s->device, s->scratch, d_weight(b, UNIT_TABLE), NULL,
                               b->kept->logits, b->kept->norm, weight(b, UNIT_TABLE),
                               stage_head_shape(s));
    backward_norm(b, s->scratch);
}

/* Return the buffer that holds the output's gradient and becomes the input's. */
static void *begin_stream(struct stage *stage, enum unit_kind kind, bool leaves_stage)
{
    const struct kernel *kernel = stage->kernel;
    size_t size_bytes = stage_boundary_bytes(stage);
    void *stream = leaves_stage ? stage->input_gradient : stage->stream_gradient;

    if (kind == UNIT_HEAD) /* no residual path, and no gradient from above */
        kernel->zero(stage->device, stream, size_bytes);
    else if (leaves_stage)
        kernel->copy(stage->device, stream, stage->stream_gradient, size_bytes);
    return stream;
}

static void backward(const struct backward *b, const struct stage_slot *slot)
{
    switch (b->layout->kind) {
    case UNIT_EMBEDDING:
        backward_embedding(b, slot->tokens);
        break;
    case UNIT_ATTENTION:
        backward_attention(b);
        break;
    case UNIT_MLP:
        backward_mlp(b);
        break;
    case UNIT_HEAD:
        backward_head(b);
        break;
    }
}

static struct backward backward_of(const struct stage *stage, const struct stage_slot *slot,
                                   unsigned index, const void *weights)
{
    return (struct backward){.stage = stage,
                             .layout = &stage->layouts[index],
                             .weights = weights,
                             .input = slot->streams[index],
                             .kept = stage_activations(stage, slot, index)};
}

/* Return the index in the stage of the model's unit @unit. */
static unsigned index_of(const struct stage *stage, const struct stage_slot *slot, unsigned unit)
{
    assert(unit >= stage->first_unit && unit - stage->first_unit < stage->unit_count);
    assert(slot->kept);
    return unit - stage->first_unit;
}

static bool leaves_stage(const struct stage *stage, unsigned index, bool want_input_gradient)
{
    return index == 0 && want_input_gradient && stage->input_gradient;
}

void stage_backward_unit(struct stage *stage, unsigned slot_index, unsigned unit,
                         const void *weights, float *gradient, bool want_input_gradient)
{
    const struct stage_slot *slot = stage_slot_of(stage, slot_index);
    unsigned i = index_of(stage, slot, unit);
    struct backward b = backward_of(stage, slot, i, weights);
    const struct recording_key key = {.place = stage_backward_place(stage, slot_index, i),
                                      .weights = weights,
                                      .gradient = gradient,
                                      .want_input_gradient = want_input_gradient};

    assert(gradient || stage->shared.splits);
    b.gradient = gradient;
    b.norms = gradient ? NULL : stage->shared.unread_norms;
    while (recordings_next(stage->recordings, &key)) {
        if (stage_recomputes(stage->shared.recompute, b.layout->kind))
            stage_compute_again(stage, slot, i, weights);
        b.d_stream =
            begin_stream(stage, b.layout->kind, leaves_stage(stage, i, want_input_gradient));
        backward(&b, slot);
    }
}

/* Replace the first product's result by its gradient. */
static void keep_wide(const struct backward *b)
{
    const struct stage *s = b->stage;
    size_t wide = model_unit_widths(&s->spec, b->layout->kind).wide;

    if (b->layout->kind == UNIT_ATTENTION || s->spec.family != MODEL_LLAMA)
        s->kernel->copy(s->device, b->kept->wide, s->scratch_wide,
                        s->rows * wide * s->kernel->activation_size);
}

void stage_backward_input(struct stage *stage, unsigned slot_index, unsigned unit,
                          const void *weights, bool want_input_gradient)
{
    const struct stage_slot *slot = stage_slot_of(stage, slot_index);
    unsigned i = index_of(stage, slot, unit);
    struct backward b = backward_of(stage, slot, i, weights);
    const struct recording_key key = {.place = stage_backward_place(stage, slot_index, i),
                                      .weights = weights,
                                      .want_input_gradient = want_input_gradient};

    assert(stage_splits_unit(stage, unit));
    b.norms = slot->norms[i];
    while (recordings_next(stage->recordings, &key)) {
        stage->kernel->copy(stage->device, slot->streams[i + 1], stage->stream_gradient,
                            stage_boundary_bytes(stage));
        if (b.layout->kind == UNIT_EMBEDDING)
            continue;
        stage->kernel->zero(stage->device, b.norms, stage_norms_count(b.layout) * sizeof(float));
        b.d_stream =
            begin_stream(stage, b.layout->kind, leaves_stage(stage, i, want_input_gradient));
        backward(&b, slot);
        keep_wide(&b);
    }
}

static void add_norms(const struct backward *b)
{
    const struct stage *s = b->stage;

    for (unsigned i = 0; i < b->layout->tensor_count; i++) {
        const struct unit_tensor *tensor = &b->layout->tensors[i];
        float *sum = b->gradient + tensor->offset;
        if (stage_is_of_norm(tensor->part))
            s->kernel->tree_add(s->device, sum, sum, b->norms + stage_norm_offset(b->layout, i),
                                tensor->count);
    }
}

/* Add a sublayer's gradients of weights, from @d_output and from `wide`, which now has the first
 * product's gradient */
static void backward_weights(const struct backward *b, const void *d_output)
{
    const struct stage *s = b->stage;
    struct unit_widths widths = model_unit_widths(&s->spec, b->layout->kind);

    s->kernel->linear_backward(s->device, NULL, d_weight(b, UNIT_OUT_WEIGHT),
                               d_weight(b, UNIT_OUT_BIAS), d_output, b->kept->mixed, NULL,
                               stage_block_shape(s, widths.mixed, s->spec.width));
    s->kernel->linear_backward(s->device, NULL, d_weight(b, UNIT_IN_WEIGHT),
                               d_weight(b, UNIT_IN_BIAS), b->kept->wide, b->kept->norm, NULL,
                               stage_block_shape(s, s->spec.width, widths.wide));
    add_norms(b);
}

void stage_backward_weight(struct stage *stage, unsigned slot_index, unsigned unit, float *gradient)
{
    const struct stage_slot *slot = stage_slot_of(stage, slot_index);
    unsigned i = index_of(stage, slot, unit);
    struct backward b = backward_of(stage, slot, i, NULL);
    const struct recording_key key = {.place = stage_weight_place(stage, slot_index, i),
                                      .gradient = gradient};

    assert(stage_splits_unit(stage, unit));
    b.gradient = gradient;
    b.norms = slot->norms[i];
    b.d_stream = slot->streams[i + 1];
    while (recordings_next(stage->recordings, &key)) {
        if (b.layout->kind == UNIT_EMBEDDING)
            backward_embedding(&b, slot->tokens);
        else
            backward_weights(&b, b.d_stream);
    }
}
