/*
 * Second implementations of whole models: in double, one token after another, without any of firn's
 * kernels. They share with the code under test only the names and offsets of tensors. The parts of
 * one family lie in gpt2_oracle.h and llama_oracle.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "parity/oracle/gpt2_oracle.h"
#include "parity/oracle/llama_oracle.h"

/* logits (T,V) of one sequence of T tokens */
void oracle_logits(const struct oracle *oracle, const int32_t *tokens, double *ret_logits);

/* The sum of the token losses of @batch sequences. */
double oracle_loss_sum(const struct oracle *oracle, const int32_t *tokens, const int32_t *targets,
                       size_t batch);
