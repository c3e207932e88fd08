/* What a transformer looks like: the family and its sizes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

enum model_family { MODEL_GPT2, MODEL_LLAMA };

struct model_spec {
    enum model_family family;
    unsigned layers, width, heads, context, vocab;
    bool tied; /* the head's weight is the token embedding's, until freezing unties them */
    /* Llama's alone; GPT-2 has fixed ones, see below. */
    unsigned kv_heads;   /* of keys and values: divides heads */
    unsigned head_width; /* columns of a head; heads * head_width need not be the width */
    unsigned hidden;     /* columns inside the MLP */
    double rope_theta;   /* base of the rotary embedding's frequencies */
    double norm_epsilon; /* of RMS norms */
};

/* Bounds on what is accepted from outside. */
#define MODEL_LAYERS_MAX  256
#define MODEL_WIDTH_MAX   65536
#define MODEL_HIDDEN_MAX  1048576
#define MODEL_CONTEXT_MAX 1048576
#define MODEL_VOCAB_MAX   1048576
#define MODEL_UNITS_MAX   (2 * MODEL_LAYERS_MAX + 2)

/** model_spec_check() - 0, or -EINVAL with the key and the reason ("model.heads: ...") */
int model_spec_check(const struct model_spec *spec, struct error *error) CHECK_RESULT;

/** model_family_named() - "gpt2", "llama"; -EINVAL with the names that there are */
int model_family_named(const char *name, enum model_family *ret_family,
                       struct error *error) CHECK_RESULT;

/* Columns of one head, and heads of keys and values, of either family. */
static inline unsigned model_head_width(const struct model_spec *spec)
{
    return spec->family == MODEL_LLAMA ? spec->head_width : spec->width / spec->heads;
}

static inline unsigned model_kv_heads(const struct model_spec *spec)
{
    return spec->family == MODEL_LLAMA ? spec->kv_heads : spec->heads;
}
