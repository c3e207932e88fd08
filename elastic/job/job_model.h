/*
 * The section `model` of a job: the sizes and the kind of the transformer, and its first
 * parameters.
 */
#pragma once

#include <stdbool.h>

#include "elastic/job/job_text.h"

enum job_rope { JOB_ROPE_PLAIN, JOB_ROPE_LINEAR, JOB_ROPE_LLAMA3 }; /* model.rope_scaling.type */

/* The scaling of the rotary embedding to contexts longer than those of pretraining. */
struct job_rope_scaling {
    enum job_rope type;
    double factor, low_frequency_factor, high_frequency_factor;
    unsigned original_context;
};

struct job_model {
    char family[JOB_WORD_SIZE]; /* "gpt2", "llama" */
    unsigned layers, width, heads, context, vocab;
    bool tied;
    unsigned kv_heads, head_width, hidden; /* with gpt2 these follow from the others */
    bool qkv_bias, qk_norm;
    double rope_theta, norm_epsilon;
    struct job_rope_scaling rope_scaling;
    char from[JOB_PATH_SIZE]; /* folder with the first parameters; empty: from the seed */
};

/** job_model_is_llama() - return whether the family is llama; otherwise it is gpt2 */
bool job_model_is_llama(const struct job_model *model);

/** job_model_unit_count() - return the number of units of the model: 2 * layers + 2 */
unsigned job_model_unit_count(const struct job_model *model);

/** job_model_frozen_units() - return the number of units in @frozen_layers frozen layers: the
 * embedding freezes with the first one */
unsigned job_model_frozen_units(unsigned frozen_layers);
