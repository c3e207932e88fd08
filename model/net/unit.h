/*
 * Units: the smallest pieces of a model that can move between workers. Unit 0 is the embedding,
 * then each layer l gives an attention sublayer (1 + 2l) and an MLP sublayer (2 + 2l), and the
 * last unit is the head (final norm and logits). Only the residual stream (B, T, C) crosses a cut.
 *
 * A unit's parameters, gradients and moments are each one flat f32 array of unit_layout.count
 * elements: its tensors in order, each padded with zeros to a multiple of 16 elements. Padding
 * stays zero through every operation, so the flat array can be reduced, moved and hashed whole.
 *
 * A tensor has a name and a shape, which depend on the family, and a part in the unit's work, by
 * which the computation finds it. Families differ only in the set of parts and in the number of
 * tensors of a part.
 *
 * With a tied head the head unit has its own copy of the token table, "the mirror". Embedding and
 * head reduce their gradients separately. Then both add embedding + head in that order and take the
 * same optimizer step, so the two copies stay equal to the bit. While tied, only the embedding's
 * copy counts in norms and is stored in checkpoints. The mirror's name is "lm_head.weight", also
 * after freezing unties them and it becomes an independent table.
 */
#pragma once

#include <stdint.h>

#include "model/net/spec.h"

enum unit_kind { UNIT_EMBEDDING, UNIT_ATTENTION, UNIT_MLP, UNIT_HEAD };

/* Purpose of a tensor. */
enum unit_part {
    UNIT_TOKENS,      /* embedding (V,C) */
    UNIT_POSITIONS,   /* embedding (T,C) */
    UNIT_NORM_WEIGHT, /* all other units (C) */
    UNIT_NORM_BIAS,
    UNIT_Q_NORM, /* attention (D): weights of the norms of query heads and of key heads */
    UNIT_K_NORM,
    UNIT_IN_WEIGHT, /* from the norm into the sublayer: q|k|v, the MLP's first matrix, gate|up */
    UNIT_IN_BIAS,
    UNIT_OUT_WEIGHT, /* from the sublayer into the residual stream */
    UNIT_OUT_BIAS,
    UNIT_TABLE, /* head (V,C) */
};

#define UNIT_TENSORS_MAX  8
#define UNIT_TENSOR_ALIGN 16 /* elements */
#define TENSOR_NAME_SIZE  64

struct unit_tensor {
    char name[TENSOR_NAME_SIZE]; /* Hugging Face's: "transformer.h.3.attn.c_attn.weight" */
    /* Tensors of one part are adjacent without padding, in order: together one (sum of rows,
     * columns) matrix. */
    enum unit_part part;
    unsigned rank;
    size_t shape[2];
    size_t offset; /* elements, in the unit's flat array */
    size_t count;  /* elements without padding */
    bool decay;    /* weight decay applies (matrices and tables yes, norms and biases no) */
    bool mirror; /* the head's token table when model_spec.tied: a copy of unit 0's first tensor */
};

struct unit_layout {
    enum unit_kind kind;
    unsigned layer; /* of attention and MLP */
    unsigned tensor_count;
    struct unit_tensor tensors[UNIT_TENSORS_MAX];
    size_t count; /* elements of the flat array, padding included */
};

/** model_unit_count() - return 2 * layers + 2 */
unsigned model_unit_count(const struct model_spec *spec);

/** model_unit_layout() - compute the layout of @unit, below model_unit_count() */
void model_unit_layout(const struct model_spec *spec, unsigned unit,
                       struct unit_layout *ret_layout);

/** model_unit_part() - return the first tensor of @part; NULL: the unit has none */
const struct unit_tensor *model_unit_part(const struct unit_layout *layout, enum unit_part part);

/** model_part_is_norm() - return whether @part is the weight of a norm, which starts as ones */
static inline bool model_part_is_norm(enum unit_part part)
{
    return part == UNIT_NORM_WEIGHT || part == UNIT_Q_NORM || part == UNIT_K_NORM;
}

/* Widths of a sublayer's successive rows: norm (N,C), wide (N,W), mixed (N,M), then C again.
 * Attention: q|k|v, then its output; MLP: before and after the activation. */
struct unit_widths {
    size_t wide, mixed;
};
/** model_unit_widths() - return the widths of @kind, UNIT_ATTENTION or UNIT_MLP */
struct unit_widths model_unit_widths(const struct model_spec *spec, enum unit_kind kind);

/* In bf16, rows of logits are whole 128-byte lines. So they are aligned for matrix units and
 * 16-byte accesses even for a vocabulary such as GPT-2's 50,257. */
#define MODEL_LOGITS_ALIGN 64 /* elements */

/** model_logits_stride() - return the elements from one row of logits to the next: the vocabulary,
 * rounded up
 */
size_t model_logits_stride(const struct model_spec *spec);

/** model_frozen_units() - return the number of frozen units when @frozen_layers layers are frozen:
 * 0, or the embedding and both sublayers of each frozen layer */
unsigned model_frozen_units(const struct model_spec *spec, unsigned frozen_layers);

/**
 * model_unit_initialize() - initialize one unit of any family as GPT-2 does, equally on every
 * layout
 * @thread_count: threads that share the work, including the caller; no value depends on it
 * @ret_parameters: host memory, f32, layout.count elements
 *
 * normal(0, 0.02); projections into the residual stream scaled by 1/sqrt(2 * layers); position
 * table normal(0, 0.01); biases 0, norm weights 1. Philox keyed by (seed, unit, tensor).
 */
#define MODEL_INITIALIZE_THREADS_MAX 64
void model_unit_initialize(const struct model_spec *spec, unsigned unit, uint64_t seed,
                           unsigned thread_count, float *ret_parameters);

/* Cost of one micro-batch on one unit, for the planner. */
struct unit_cost {
    double forward_flops, backward_flops;
    size_t parameter_bytes;  /* parameters alone, f32 */
    size_t activation_bytes; /* kept from forward to backward, for one micro-batch */
    size_t boundary_bytes;   /* size of the residual stream that leaves the unit */
};
void model_unit_cost(const struct model_spec *spec, unsigned unit, unsigned batch,
                     struct unit_cost *ret_cost);
