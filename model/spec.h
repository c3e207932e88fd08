/* What a transformer looks like: the family and its sizes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

enum model_family { MODEL_GPT2 };

struct model_spec {
    enum model_family family;
    unsigned layers, width, heads, context, vocab;
    bool tied; /* the head's weight is the token embedding's, until freezing unties them */
};

/* Bounds on what is accepted from outside. */
#define MODEL_LAYERS_MAX  256
#define MODEL_WIDTH_MAX   65536
#define MODEL_CONTEXT_MAX 1048576
#define MODEL_VOCAB_MAX   1048576
#define MODEL_UNITS_MAX   (2 * MODEL_LAYERS_MAX + 2)

/** model_spec_check() - 0, or -EINVAL with the key and the reason ("model.heads: ...") */
int model_spec_check(const struct model_spec *spec, struct error *error) CHECK_RESULT;
