/* Forward through a stage: each unit reads the residual stream before it and writes the next. */
#include "model/stage.h"
#include "model/stage_private.h"

/* One unit at work: its tensors, its streams, what it keeps. */
struct forward {
    const struct stage *stage;
    const struct unit_layout *layout;
    const void *weights;
    const void *input; /* (N,C) */
    void *output;      /* (N,C) */
    const struct activations *kept;
};

static const void *tensor(const struct forward *f, unsigned index)
{
    return stage_weight(f->stage, f->layout, f->weights, index);
}

static void forward_embedding(const struct forward *f, const int32_t *tokens)
{
    const struct stage *s = f->stage;
    s->kernel->embedding_forward(s->device, f->output, tokens, tensor(f, EMBEDDING_TOKENS),
                                 tensor(f, EMBEDDING_POSITIONS), s->batch, s->spec.context,
                                 s->spec.width);
}

static void forward_norm(const struct forward *f)
{
    const struct stage *s = f->stage;
    s->kernel->layernorm_forward(s->device, f->kept->norm, f->kept->mean, f->kept->rstd, f->input,
                                 tensor(f, NORM_WEIGHT), tensor(f, NORM_BIAS), s->rows,
                                 s->spec.width);
}

/* output = input + projection of what the sublayer made */
static void forward_projection(const struct forward *f, size_t in)
{
    const struct stage *s = f->stage;
    s->kernel->linear_forward(s->device, s->scratch, f->kept->mixed, tensor(f, BLOCK_OUT_WEIGHT),
                              tensor(f, BLOCK_OUT_BIAS), stage_block_shape(s, in, s->spec.width));
    s->kernel->residual(s->device, f->output, f->input, s->scratch, s->rows * s->spec.width);
}

/* Attention up to what its projection takes. */
static void mix_attention(const struct forward *f)
{
    const struct stage *s = f->stage;
    size_t width = s->spec.width;

    forward_norm(f);
    s->kernel->linear_forward(s->device, f->kept->wide, f->kept->norm, tensor(f, BLOCK_IN_WEIGHT),
                              tensor(f, BLOCK_IN_BIAS), stage_block_shape(s, width, 3 * width));
    s->kernel->attention_forward(s->device, f->kept->mixed, f->kept->log_sum, f->kept->wide,
                                 stage_attention_shape(s));
}

static void mix_mlp(const struct forward *f)
{
    const struct stage *s = f->stage;
    size_t width = s->spec.width;

    forward_norm(f);
    s->kernel->linear_gelu_forward(s->device, f->kept->mixed, f->kept->wide, f->kept->norm,
                                   tensor(f, BLOCK_IN_WEIGHT), tensor(f, BLOCK_IN_BIAS),
                                   stage_block_shape(s, width, 4 * width));
}

static void forward_head(const struct forward *f)
{
    const struct stage *s = f->stage;

    forward_norm(f);
    s->kernel->linear_forward(s->device, f->kept->logits, f->kept->norm, tensor(f, HEAD_TABLE),
                              NULL, stage_head_shape(s));
}

/* The losses; with @keep the logits become their gradient. */
static void forward_loss(const struct forward *f, const int32_t *targets, bool keep,
                         float loss_scale)
{
    const struct stage *s = f->stage;

    if (keep)
        s->kernel->cross_entropy_fused(s->device, f->kept->losses, f->kept->logits, targets,
                                       loss_scale, s->rows, s->spec.vocab);
    else
        s->kernel->cross_entropy_forward(s->device, f->kept->losses, f->kept->logits, targets,
                                         s->rows, s->spec.vocab);
}

void stage_compute_again(struct stage *stage, const struct stage_slot *slot, unsigned index,
                         const void *weights)
{
    const struct forward f = {.stage = stage,
                              .layout = &stage->layouts[index],
                              .weights = weights,
                              .input = slot->streams[index],
                              .kept = stage_activations(stage, slot, index)};
    if (f.layout->kind == UNIT_ATTENTION)
        mix_attention(&f);
    else
        mix_mlp(&f);
}

void stage_forward(struct stage *stage, unsigned slot_index, void *const *weights,
                   const int32_t *tokens, const int32_t *targets, bool keep, float loss_scale)
{
    struct stage_slot *slot = stage_slot_of(stage, slot_index);
    bool has_loss = slot->targets != NULL && targets != NULL;

    assert(slot->tokens == NULL || tokens != NULL);
    assert(slot->targets == NULL || targets != NULL || !keep);
    if (slot->tokens != NULL)
        stage->kernel->upload(stage->device, slot->tokens, tokens, stage->rows * sizeof(int32_t));
    if (has_loss)
        stage->kernel->upload(stage->device, slot->targets, targets, stage->rows * sizeof(int32_t));
    slot->kept = keep;

    for (unsigned i = 0; i < stage->unit_count; i++) {
        struct forward f = {.stage = stage,
                            .layout = &stage->layouts[i],
                            .weights = weights[i],
                            .input = slot->streams[i],
                            .output = slot->streams[i + 1],
                            .kept = stage_activations(stage, slot, i)};
        switch (f.layout->kind) {
        case UNIT_EMBEDDING:
            forward_embedding(&f, slot->tokens);
            break;
        case UNIT_ATTENTION:
            mix_attention(&f);
            forward_projection(&f, stage->spec.width);
            break;
        case UNIT_MLP:
            mix_mlp(&f);
            forward_projection(&f, 4 * (size_t)stage->spec.width);
            break;
        case UNIT_HEAD:
            forward_head(&f);
            if (has_loss)
                forward_loss(&f, slot->targets, keep, loss_scale);
            break;
        }
    }
}
