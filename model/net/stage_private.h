/* The buffers of a stage, laid out by stage.c for stage_forward.c and stage_backward.c. */
#pragma once

#include "model/net/recordings.h"
#include "model/net/stage.h"

/* The activations of one micro-batch that one unit keeps from forward to backward, besides its
 * input. */
struct activations {
    void *norm;         /* (N,C); all but the embedding */
    float *mean, *rstd; /* (N); an RMS norm has no mean */
    void *wide; /* (N,W) of struct unit_widths: q|k|v, after the rotary embedding unless their heads
                   have norms; or the MLP before its activation */
    void *mixed;    /* (N,M): attention's output, or the MLP after its activation */
    float *log_sum; /* attention: (B,H,T) */
    void *logits; /* head: (N,V), rows model_logits_stride() apart; after a forward with keep, their
                     gradient */
    float *losses; /* head: (N) */
};

struct stage_slot {
    int32_t *tokens, *targets; /* (B,T); for the embedding, for the head */
    void **streams; /* unit_count + 1; [i] enters unit i. NULL: no such stream. Between frozen
                       units: the shared ones */
    struct activations *activations; /* unit_count; not used for recomputed units */
    float **norms; /* unit_count: gradients of each unit's norms, if backward is split */
    bool kept;     /* the last forward kept the activations for backward */
};

/* Units that keep nothing from forward to backward, and the buffers that they share. */
struct stage_shared {
    enum stage_recompute recompute;
    unsigned frozen;                         /* units, from the first one on */
    bool splits;                             /* stage_options.splits */
    struct activations again[UNIT_HEAD + 1]; /* by kind; the head's only if backward is split */
    void *frozen_streams[2];                 /* (T,C) each; alternate between frozen units */
    float *unread_norms; /* of any unit: discarded gradients, if backward is split */
};

struct stage {
    const struct kernel *kernel;
    struct kernel_device *device;
    struct model_spec spec;
    unsigned first_unit, unit_count, batch, slot_count;
    size_t rows; /* N = B * T */

    struct stage_shared shared;

    struct unit_layout *layouts; /* unit_count */
    struct stage_slot *slots;
    void *scratch;        /* (N, stage_scratch_width()) */
    void *scratch_wide;   /* (N, stage_scratch_wide_width()) */
    float *rotary_angles; /* (T,D) f32; NULL without a rotary embedding */
    void *normed_heads; /* (N,W) of attention: q|k|v after norms of heads and the rotary embedding;
                           NULL without such norms */
    float *head_rstd;   /* (N,H+K) */
    void *stream_gradient; /* (N,C); gradient of each unit's output, from the last unit down */
    void *input_gradient;  /* (N,C); NULL when the stage begins with the embedding */
    float *host_losses;    /* (N), host memory; only with the head */
    struct kernel_event *computed; /* the results that the host waits for are computed */
    struct stage_gate gate;        /* passes NULL: none */
    struct recordings *recordings; /* recorded kernel calls of forward and backward */
    const void **recorded_weights; /* unit_count: weights of the recorded forwards */
    void *memory;                  /* memory of all device buffers above, if the stage owns it */
};

/** stage_recomputes() - return whether sublayers of @kind keep only their input */
static inline bool stage_recomputes(enum stage_recompute recompute, enum unit_kind kind)
{
    return (kind == UNIT_ATTENTION && recompute != STAGE_KEEP_ALL) ||
           (kind == UNIT_MLP && recompute == STAGE_RECOMPUTE_ALL);
}

/** stage_activations() - return the activations of unit @index for @slot */
static inline const struct activations *stage_activations(const struct stage *stage,
                                                          const struct stage_slot *slot,
                                                          unsigned index)
{
    enum unit_kind kind = stage->layouts[index].kind;
    bool shared = index < stage->shared.frozen || (kind == UNIT_HEAD && stage->shared.splits) ||
                  stage_recomputes(stage->shared.recompute, kind);
    return shared ? &stage->shared.again[kind] : &slot->activations[index];
}

/** stage_weight() - return the weights of @part in a unit's flat weights; NULL: the unit has
 * none */
static inline const void *stage_weight(const struct stage *stage, const struct unit_layout *layout,
                                       const void *weights, enum unit_part part)
{
    const struct unit_tensor *tensor = model_unit_part(layout, part);
    return !tensor ? NULL : (const char *)weights + tensor->offset * stage->kernel->activation_size;
}

/** stage_has_rms_norm() - return true for RMS norm, false for layer norm */
static inline bool stage_has_rms_norm(const struct stage *stage)
{
    return stage->spec.family == MODEL_LLAMA;
}

/* Return the columns of the scratch buffers, which hold the gradients of a sublayer's rows in
 * backward. */
static inline size_t stage_scratch_width(const struct model_spec *spec)
{
    return MAX((size_t)spec->width, model_unit_widths(spec, UNIT_ATTENTION).mixed);
}

static inline size_t stage_scratch_wide_width(const struct model_spec *spec)
{
    return MAX(model_unit_widths(spec, UNIT_ATTENTION).wide,
               model_unit_widths(spec, UNIT_MLP).mixed);
}

/**
 * stage_compute_again() - recompute the activations of unit @index for @slot
 *
 * Writes stage_activations(), without the projection into the residual stream, which backward does
 * not need.
 */
void stage_compute_again(struct stage *stage, const struct stage_slot *slot, unsigned index,
                         const void *weights);

/**
 * stage_attention_input() - return q|k|v as attention's input, from @wide, the output of the
 * product
 *
 * The rotary embedding turns queries and keys in place, in @wide. If their heads have norms, @wide
 * stays unchanged, because backward needs it: the result goes into a buffer that all units and
 * slots share. Backward recomputes it, which costs a pass over the rows but no memory per
 * micro-batch.
 */
const void *stage_attention_input(const struct stage *stage, const struct unit_layout *layout,
                                  const void *weights, void *wide);

/* Return whether tensors of @part belong to norms, whose gradients are computed with the
 * input's. */
static inline bool stage_is_of_norm(enum unit_part part)
{
    return model_part_is_norm(part) || part == UNIT_NORM_BIAS;
}

/** stage_norm_offset() - return the offset, in elements, of the @index-th tensor of a unit among
 * the gradients of its norms, each aligned as in the unit's array */
static inline size_t stage_norm_offset(const struct unit_layout *layout, unsigned index)
{
    size_t offset = 0;

    for (unsigned i = 0; i < index; i++)
        if (stage_is_of_norm(layout->tensors[i].part))
            offset += (layout->tensors[i].count + UNIT_TENSOR_ALIGN - 1) / UNIT_TENSOR_ALIGN *
                      UNIT_TENSOR_ALIGN;
    return offset;
}

/** stage_norms_count() - return the number of elements of the gradients of a unit's norms */
static inline size_t stage_norms_count(const struct unit_layout *layout)
{
    return stage_norm_offset(layout, layout->tensor_count);
}

/* Places of recordings: for each slot its forward, then backward of each unit, then the weights'
 * part of each unit. After all slots: the frozen units' forward of each sample of each slot. */
static inline unsigned stage_forward_place(const struct stage *stage, unsigned slot)
{
    return slot * (2 * stage->unit_count + 1);
}

static inline unsigned stage_frozen_place(const struct stage *stage, unsigned slot, unsigned sample)
{
    return stage_forward_place(stage, stage->slot_count) + slot * stage->batch + sample;
}

static inline unsigned stage_backward_place(const struct stage *stage, unsigned slot,
                                            unsigned index)
{
    return stage_forward_place(stage, slot) + 1 + index;
}

static inline unsigned stage_weight_place(const struct stage *stage, unsigned slot, unsigned index)
{
    return stage_backward_place(stage, slot, stage->unit_count + index);
}

/** stage_stream_of_sample() - return one sample's part of stream @index, which a frozen unit reads
 * or writes. The first and the last of these streams have all samples of the slot */
static inline void *stage_stream_of_sample(const struct stage *stage, const struct stage_slot *slot,
                                           unsigned index, unsigned sample)
{
    bool whole = index == 0 || index == stage->shared.frozen;
    char *stream = slot->streams[index];

    return stream && whole ? stream + sample * stage_sample_bytes(stage) : stream;
}

/** stage_slot_of() - return the slot; @slot is bounds-checked */
struct stage_slot *stage_slot_of(struct stage *stage, unsigned slot);

static inline struct kernel_attention stage_attention_of(const struct model_spec *spec,
                                                         unsigned batch)
{
    return (struct kernel_attention){.batch = batch,
                                     .context = spec->context,
                                     .width = (size_t)spec->heads * model_head_width(spec),
                                     .heads = spec->heads,
                                     .kv_heads = model_kv_heads(spec)};
}

static inline struct kernel_attention stage_attention_shape(const struct stage *stage)
{
    return stage_attention_of(&stage->spec, stage->batch);
}

static inline struct kernel_linear stage_block_shape(const struct stage *stage, size_t in,
                                                     size_t out)
{
    bool conv = stage->spec.family == MODEL_GPT2;
    return (struct kernel_linear){.rows = stage->rows,
                                  .in = in,
                                  .out = out,
                                  .layout = conv ? KERNEL_WEIGHT_IN_OUT : KERNEL_WEIGHT_OUT_IN};
}

static inline struct kernel_linear stage_head_shape(const struct stage *stage)
{
    return (struct kernel_linear){.rows = stage->rows,
                                  .in = stage->spec.width,
                                  .out = stage->spec.vocab,
                                  .layout = KERNEL_WEIGHT_OUT_IN,
                                  .out_stride = model_logits_stride(&stage->spec)};
}
