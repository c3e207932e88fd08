/* What model/stage.c lays out and stage_forward.c and stage_backward.c compute on. */
#pragma once

#include "model/stage.h"

/* Positions of tensors in the layouts of model/unit.c. */
enum { EMBEDDING_TOKENS = 0, EMBEDDING_POSITIONS = 1 };
enum { NORM_WEIGHT = 0, NORM_BIAS = 1 }; /* of all other units */
enum { BLOCK_IN_WEIGHT = 2, BLOCK_IN_BIAS, BLOCK_OUT_WEIGHT, BLOCK_OUT_BIAS };
enum { HEAD_TABLE = 2 };

/* What one unit keeps of one micro-batch from forward to backward, beside its input. */
struct activations {
    void *norm;         /* (N,C); all but the embedding */
    float *mean, *rstd; /* (N) */
    void *wide;         /* attention: q|k|v (N,3C); MLP: before GELU (N,4C) */
    void *mixed;        /* attention: its output (N,C); MLP: after GELU (N,4C) */
    float *log_sum;     /* attention: (B,H,T) */
    void *logits;       /* head: (N,V); their gradient after a forward with keep */
    float *losses;      /* head: (N) */
};

struct stage_slot {
    int32_t *tokens, *targets;       /* (B,T); of the embedding, of the head */
    void **streams;                  /* unit_count + 1; [i] enters unit i. NULL: no such stream */
    struct activations *activations; /* unit_count; of units that are computed again: not used */
    bool kept;                       /* the last forward kept what backward needs */
};

struct stage {
    const struct kernel *kernel;
    struct kernel_device *device;
    struct model_spec spec;
    unsigned first_unit, unit_count, batch, slot_count;
    size_t rows; /* N = B * T */

    enum stage_recompute recompute;

    struct unit_layout *layouts; /* unit_count */
    struct stage_slot *slots;
    struct activations again[UNIT_HEAD]; /* by kind: what a unit that keeps nothing works in */
    void *scratch;                       /* (N,C) */
    void *scratch_wide;                  /* (N,4C) */
    void *stream_gradient; /* (N,C); of the output, and on the way down of each unit's output */
    void *input_gradient;  /* (N,C); NULL when the stage begins with the embedding */
    float *host_losses;    /* (N), host memory; only with the head */
    void *memory;          /* all of the device buffers above */
};

/** stage_recomputes() - whether sublayers of @kind keep nothing but their input */
static inline bool stage_recomputes(enum stage_recompute recompute, enum unit_kind kind)
{
    return (kind == UNIT_ATTENTION && recompute != STAGE_KEEP_ALL) ||
           (kind == UNIT_MLP && recompute == STAGE_RECOMPUTE_ALL);
}

/** stage_activations() - where unit @index of the stage keeps what it makes of @slot */
static inline const struct activations *stage_activations(const struct stage *stage,
                                                          const struct stage_slot *slot,
                                                          unsigned index)
{
    enum unit_kind kind = stage->layouts[index].kind;
    return stage_recomputes(stage->recompute, kind) ? &stage->again[kind]
                                                    : &slot->activations[index];
}

/** stage_weight() - tensor @index of a unit's flat weights */
static inline const void *stage_weight(const struct stage *stage, const struct unit_layout *layout,
                                       const void *weights, unsigned index)
{
    return (const char *)weights + layout->tensors[index].offset * stage->kernel->activation_size;
}

/**
 * stage_compute_again() - what unit @index of the stage made of @slot in forward, made once more
 *
 * Into stage_activations(); without the projection into the residual stream, which nobody needs.
 */
void stage_compute_again(struct stage *stage, const struct stage_slot *slot, unsigned index,
                         const void *weights);

/** stage_slot_of() - bounds-checked */
struct stage_slot *stage_slot_of(struct stage *stage, unsigned slot);

static inline struct kernel_attention stage_attention_shape(const struct stage *stage)
{
    return (struct kernel_attention){.batch = stage->batch,
                                     .context = stage->spec.context,
                                     .width = stage->spec.width,
                                     .heads = stage->spec.heads,
                                     .kv_heads = stage->spec.heads};
}

static inline struct kernel_linear stage_block_shape(const struct stage *stage, size_t in,
                                                     size_t out)
{
    return (struct kernel_linear){
        .rows = stage->rows, .in = in, .out = out, .layout = KERNEL_WEIGHT_IN_OUT};
}

static inline struct kernel_linear stage_head_shape(const struct stage *stage)
{
    return (struct kernel_linear){.rows = stage->rows,
                                  .in = stage->spec.width,
                                  .out = stage->spec.vocab,
                                  .layout = KERNEL_WEIGHT_OUT_IN};
}
