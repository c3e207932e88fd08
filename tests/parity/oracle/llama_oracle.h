/* The parts of the oracle that are specific to Llama; see model_oracle.h. */
#pragma once

#include "parity/oracle/oracle_parts.h"

/** llama_norm() - compute RMSNorm of all rows */
void llama_norm(const struct oracle *oracle, double *output, const double *input,
                const double *weight);

/* stream (T,C) += attention sublayer */
void llama_attention(const struct oracle *oracle, unsigned unit, double *stream);

/* stream (T,C) += MLP sublayer */
void llama_mlp(const struct oracle *oracle, unsigned unit, double *stream);
