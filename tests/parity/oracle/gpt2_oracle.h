/* The parts of the oracle that are specific to GPT-2; see model_oracle.h. */
#pragma once

#include <stddef.h>

#include "parity/oracle/oracle_parts.h"

/** gpt2_norm() - compute LayerNorm of all rows */
void gpt2_norm(double *output, const double *input, const double *weight, const double *bias,
               size_t width);

/* stream (T,C) += attention sublayer */
void gpt2_attention(const struct oracle *oracle, unsigned unit, double *stream);

/* stream (T,C) += MLP sublayer */
void gpt2_mlp(const struct oracle *oracle, unsigned unit, double *stream);
