/*
 * The definition of every operation of kernels/kernel.h, in f64 and as plainly as it can be
 * written. The oracle shares no code with the code under test. There is no backward here: gradients
 * are checked against finite differences of these functions (gradient.h). Letters as in kernel.h.
 */
#pragma once

#include "kernels/kernel.h"

/* position_table may be NULL */
void oracle_embedding(double *output, const int32_t *tokens, const double *token_table,
                      const double *position_table, size_t batch, size_t context, size_t width);

/* mean and rstd may be NULL */
void oracle_layernorm(double *output, double *mean, double *rstd, const double *input,
                      const double *weight, const double *bias, size_t rows, size_t width);

/* rstd may be NULL */
void oracle_rmsnorm(double *output, double *rstd, const double *input, const double *weight,
                    double epsilon, size_t rows, size_t width);

/* bias may be NULL */
void oracle_linear(double *output, const double *input, const double *weight, const double *bias,
                   struct kernel_linear shape);

/* log_sum may be NULL */
void oracle_attention(double *output, double *log_sum, const double *qkv,
                      struct kernel_attention shape);

/* turned (B,T,C+2KD) from qkv, with base theta: the angle of pair c at position t is
   t theta^(-2c/D) */
void oracle_rotary(double *turned, const double *qkv, double theta, struct kernel_attention shape);

void oracle_gelu(double *output, const double *input, size_t count);

void oracle_swiglu(double *output, const double *gate_up, size_t rows, size_t width);

/* a target of -1: the row has no loss */
void oracle_cross_entropy(double *losses, const double *logits, const int32_t *targets, size_t rows,
                          size_t vocab);

void oracle_adamw(double *parameter, double *first_moment, double *second_moment,
                  const double *gradient, size_t count, const struct kernel_adamw *options);
