/* Run forward through a stage: each unit reads the residual stream before it and writes the
 * next. */
#include "model/net/stage.h"
#include "model/net/stage_private.h"

static const struct stage_gate NO_GATE = {0};

/* Context of one unit's forward: its tensors, streams and kept activations. */
struct forward {
    const struct stage *stage;
    const struct unit_layout *layout;
    const void *weights;
    const void *input; /* (N,C) */
    void *output;      /* (N,C) */
    const struct activations *kept;
    bool normed; /* the unit below has already computed this unit's norm */
};

static struct forward forward_of(const struct stage *stage, const struct stage_slot *slot,
                                 unsigned index, unsigned sample, const void *weights)
{
    return (struct forward){.stage = stage,
                            .layout = &stage->layouts[index],
                            .weights = weights,
                            .input = stage_stream_of_sample(stage, slot, index, sample),
                            .output = stage_stream_of_sample(stage, slot, index + 1, sample),
                            .kept = stage_activations(stage, slot, index)};
}

static const void *weight(const struct forward *f, enum unit_part part)
{
    return stage_weight(f->stage, f->layout, f->weights, part);
}

static void forward_embedding(const struct forward *f, const int32_t *tokens)
{
    const struct stage *s = f->stage;
    s->kernel->embedding_forward(s->device, f->output, tokens, weight(f, UNIT_TOKENS),
                                 weight(f, UNIT_POSITIONS), s->batch, s->spec.context,
                                 s->spec.width);
}

/* Compute the norm of @input or, with a branch, of @sum = @input + @branch. */
static void make_norm(const struct forward *f, void *sum, const void *input, const void *branch)
{
    const struct stage *s = f->stage;

    if (stage_has_rms_norm(s))
        s->kernel->rmsnorm_forward(s->device, f->kept->norm, f->kept->rstd, sum, input, branch,
                                   weight(f, UNIT_NORM_WEIGHT), (float)s->spec.norm_epsilon,
                                   s->rows, s->spec.width);
    else
        s->kernel->layernorm_forward(s->device, f->kept->norm, f->kept->mean, f->kept->rstd, sum,
                                     input, branch, weight(f, UNIT_NORM_WEIGHT),
                                     weight(f, UNIT_NORM_BIAS), s->rows, s->spec.width);
}

static void forward_norm(const struct forward *f)
{
    if (!f->normed)
        make_norm(f, NULL, f->input, NULL);
}

/*
 * output = input + projection of the sublayer's result. If the unit above is in the same stage, its
 * norm kernel computes the sum too, with the same bits.
 */
static void forward_projection(const struct forward *f, struct forward *above)
{
    const struct stage *s = f->stage;
    size_t mixed = model_unit_widths(&s->spec, f->layout->kind).mixed;

    s->kernel->linear_forward(s->device, s->scratch, f->kept->mixed, weight(f, UNIT_OUT_WEIGHT),
                              weight(f, UNIT_OUT_BIAS), stage_block_shape(s, mixed, s->spec.width));
    if (!above) {
        s->kernel->residual(s->device, f->output, f->input, s->scratch, s->rows * s->spec.width);
        return;
    }
    make_norm(above, f->output, f->input, s->scratch);
    above->normed = true;
}

static struct kernel_linear in_shape(const struct forward *f)
{
    const struct stage *s = f->stage;
    return stage_block_shape(s, s->spec.width, model_unit_widths(&s->spec, f->layout->kind).wide);
}

const void *stage_attention_input(const struct stage *s, const struct unit_layout *layout,
                                  const void *weights, void *wide)
{
    struct kernel_attention shape = stage_attention_shape(s);
    void *qkv = s->spec.qk_norm ? s->normed_heads : wide;

    if (s->spec.qk_norm)
        s->kernel->headnorm_forward(
            s->device, qkv, s->head_rstd, wide, stage_weight(s, layout, weights, UNIT_Q_NORM),
            stage_weight(s, layout, weights, UNIT_K_NORM), (float)s->spec.norm_epsilon, shape);
    if (s->rotary_angles)
        s->kernel->rotary_forward(s->device, qkv, s->rotary_angles, shape);
    return qkv;
}

/* Compute attention up to the input of its projection. */
static void mix_attention(const struct forward *f)
{
    const struct stage *s = f->stage;

    forward_norm(f);
    s->kernel->linear_forward(s->device, f->kept->wide, f->kept->norm, weight(f, UNIT_IN_WEIGHT),
                              weight(f, UNIT_IN_BIAS), in_shape(f));
    const void *qkv = stage_attention_input(s, f->layout, f->weights, f->kept->wide);
    s->kernel->attention_forward(s->device, f->kept->mixed, f->kept->log_sum, qkv,
                                 stage_attention_shape(s));
}

static void mix_mlp(const struct forward *f)
{
    const struct stage *s = f->stage;

    forward_norm(f);
    if (s->spec.family == MODEL_GPT2) {
        s->kernel->linear_gelu_forward(s->device, f->kept->mixed, f->kept->wide, f->kept->norm,
                                       weight(f, UNIT_IN_WEIGHT), weight(f, UNIT_IN_BIAS),
                                       in_shape(f));
        return;
    }
    s->kernel->linear_forward(s->device, f->kept->wide, f->kept->norm, weight(f, UNIT_IN_WEIGHT),
                              NULL, in_shape(f));
    s->kernel->swiglu_forward(s->device, f->kept->mixed, f->kept->wide, s->rows, s->spec.hidden);
}

static void forward_head(const struct forward *f)
{
    const struct stage *s = f->stage;

    forward_norm(f);
    s->kernel->linear_forward(s->device, f->kept->logits, f->kept->norm, weight(f, UNIT_TABLE),
                              NULL, stage_head_shape(s));
}

/* Compute the losses; if the slot is kept, replace the logits by their gradient. */
static void forward_loss(const struct stage *s, const struct stage_slot *slot, float loss_scale)
{
    const struct activations *head = stage_activations(s, slot, s->unit_count - 1);

    if (slot->kept)
        s->kernel->cross_entropy_fused(s->device, head->losses, head->logits, slot->targets,
                                       loss_scale, s->rows, s->spec.vocab,
                                       model_logits_stride(&s->spec));
    else
        s->kernel->cross_entropy_forward(s->device, head->losses, head->logits, slot->targets,
                                         s->rows, s->spec.vocab, model_logits_stride(&s->spec));
}

void stage_compute_again(struct stage *stage, const struct stage_slot *slot, unsigned index,
                         const void *weights)
{
    const struct forward f = forward_of(stage, slot, index, 0, weights);

    if (f.layout->kind == UNIT_ATTENTION)
        mix_attention(&f);
    else
        mix_mlp(&f);
}

/* Run forward of @f. @above: the unit above in the same run, whose norm is computed with the sum,
 * or NULL
 */
static void forward_unit(const struct forward *f, struct forward *above, const int32_t *tokens)
{
    switch (f->layout->kind) {
    case UNIT_EMBEDDING:
        forward_embedding(f, tokens);
        break;
    case UNIT_ATTENTION:
        mix_attention(f);
        forward_projection(f, above);
        break;
    case UNIT_MLP:
        mix_mlp(f);
        forward_projection(f, above);
        break;
    case UNIT_HEAD:
        forward_head(f);
        break;
    }
}

static bool passes(const struct stage_gate *gate, unsigned unit)
{
    return !gate->passes || gate->passes(gate->context, unit);
}

/* Run units [@first, @end). @stage has the rows of all samples of the slot, or only of the
 * @sample-th. Each unit computes the norm of the unit above, with that unit's weights. Return
 * false: @gate ended the run */
static bool forward_units(const struct stage *stage, const struct stage_slot *slot, unsigned sample,
                          unsigned first, unsigned end, void *const *weights,
                          const struct stage_gate *gate)
{
    const int32_t *tokens = slot->tokens ? slot->tokens + sample * stage->spec.context : NULL;
    struct forward f = forward_of(stage, slot, first, sample, weights[first]), above;

    if (!passes(gate, first))
        return false;
    for (unsigned i = first; i < end; i++, f = above) {
        bool last = i + 1 == end;
        if (!last && !passes(gate, i + 1))
            return false;
        above = last ? f : forward_of(stage, slot, i + 1, sample, weights[i + 1]);
        forward_unit(&f, last ? NULL : &above, tokens);
    }
    return true;
}

static struct stage one_sample_of(const struct stage *stage)
{
    struct stage one = *stage;

    one.batch = 1;
    one.rows = stage->spec.context;
    return one;
}

/* Forget recordings when weights have moved: recordings of a forward have the addresses of all
 * weights, but the key has only the first. */
static void follow_weights(struct stage *stage, void *const *weights)
{
    for (unsigned i = 0; i < stage->unit_count; i++)
        if (stage->recorded_weights[i] != weights[i]) {
            recordings_forget(stage->recordings);
            for (unsigned k = 0; k < stage->unit_count; k++)
                stage->recorded_weights[k] = weights[k];
        }
}

static void forward_recorded(struct stage *stage, unsigned slot_index,
                             const struct stage_slot *slot, void *const *weights)
{
    const struct recording_key key = {.place = stage_forward_place(stage, slot_index),
                                      .weights = weights[0]};

    follow_weights(stage, weights);
    while (recordings_next(stage->recordings, &key))
        (void)forward_units(stage, slot, 0, stage->shared.frozen, stage->unit_count, weights,
                            &NO_GATE);
}

void stage_set_gate(struct stage *stage, const struct stage_gate *gate)
{
    stage->gate = gate ? *gate : NO_GATE;
}

void stage_forward_frozen(struct stage *stage, unsigned slot_index, unsigned sample, unsigned from,
                          void *const *weights, const int32_t *tokens)
{
    const struct recording_key key = {.place = stage_frozen_place(stage, slot_index, sample),
                                      .weights = weights[from]};
    const struct stage_slot *slot = stage_slot_of(stage, slot_index);
    const struct stage one = one_sample_of(stage);
    size_t context = stage->spec.context;

    assert(from < stage->shared.frozen && sample < stage->batch);
    assert(!slot->tokens || tokens);
    if (slot->tokens && from == 0)
        stage->kernel->upload(stage->device, slot->tokens + sample * context, tokens,
                              context * sizeof(int32_t));
    follow_weights(stage, weights);
    while (recordings_next(stage->recordings, &key))
        (void)forward_units(&one, slot, sample, from, stage->shared.frozen, weights, &NO_GATE);
}

/* The losses are not recorded: with a mask, their scale changes in every step. */
void stage_forward(struct stage *stage, unsigned slot_index, void *const *weights,
                   const int32_t *tokens, const int32_t *targets, bool keep, float loss_scale)
{
    struct stage_slot *slot = stage_slot_of(stage, slot_index);
    bool has_loss = slot->targets && targets;

    assert(!slot->tokens || tokens);
    assert(!slot->targets || targets || !keep);
    slot->kept = keep;
    if (stage->shared.frozen == stage->unit_count)
        return;
    if (slot->tokens && stage->shared.frozen == 0)
        stage->kernel->upload(stage->device, slot->tokens, tokens, stage->rows * sizeof(int32_t));
    if (has_loss)
        stage->kernel->upload(stage->device, slot->targets, targets, stage->rows * sizeof(int32_t));
    if (keep && !stage->gate.passes)
        forward_recorded(stage, slot_index, slot, weights);
    else if (!forward_units(stage, slot, 0, stage->shared.frozen, stage->unit_count, weights,
                            &stage->gate)) /* evaluation is rare */
        return;
    if (has_loss)
        forward_loss(stage, slot, loss_scale);
}
