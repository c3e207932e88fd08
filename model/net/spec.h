/* The shape of a transformer: its family and sizes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

enum model_family { MODEL_GPT2, MODEL_LLAMA };

/* How the rotary embedding's frequencies follow from its base when the context is longer than in
 * the first training. */
enum model_rope { MODEL_ROPE_PLAIN, MODEL_ROPE_LINEAR, MODEL_ROPE_LLAMA3 };

struct model_rope_scaling {
    enum model_rope type;
    double factor; /* factor of the wavelengths: of all, or with llama3 of the long ones */
    /* llama3 only: a wave with fewer turns in the original context than low_frequency_factor is
     * long; a wave with more turns than high_frequency_factor is unchanged. */
    double low_frequency_factor, high_frequency_factor;
    unsigned original_context;
};

struct model_spec {
    enum model_family family;
    unsigned layers, width, heads, context, vocab;
    bool tied; /* the head's weight is the token embedding's, until freezing unties them */
    /* Llama only; GPT-2 has fixed values, see below. */
    unsigned kv_heads;   /* heads of keys and values: divides heads */
    unsigned head_width; /* columns of a head; heads * head_width need not be the width */
    unsigned hidden;     /* columns inside the MLP */
    bool qkv_bias;       /* queries, keys and values have biases, as in Qwen2 */
    bool qk_norm; /* each head of queries and keys has an RMS norm before the rotary embedding, as
                     in Qwen3 */
    double rope_theta; /* base of the rotary embedding's frequencies */
    struct model_rope_scaling rope_scaling;
    double norm_epsilon; /* of RMS norms */
};

/* Limits of specs from outside. */
#define MODEL_LAYERS_MAX  256
#define MODEL_WIDTH_MAX   65536
#define MODEL_HIDDEN_MAX  1048576
#define MODEL_CONTEXT_MAX 1048576
#define MODEL_VOCAB_MAX   1048576
#define MODEL_UNITS_MAX   (2 * MODEL_LAYERS_MAX + 2)

/** model_spec_check() - check the values. Return: 0, or -EINVAL with the key and the reason
 * ("model.heads: ...") */
int model_spec_check(const struct model_spec *spec, struct error *error) CHECK_RESULT;

/** model_family_named() - parse "gpt2" or "llama"; -EINVAL with the valid names */
int model_family_named(const char *name, enum model_family *ret_family,
                       struct error *error) CHECK_RESULT;

/* Return the columns of one head, and the heads of keys and values, of either family. */
static inline unsigned model_head_width(const struct model_spec *spec)
{
    return spec->family == MODEL_LLAMA ? spec->head_width : spec->width / spec->heads;
}

static inline unsigned model_kv_heads(const struct model_spec *spec)
{
    return spec->family == MODEL_LLAMA ? spec->kv_heads : spec->heads;
}
