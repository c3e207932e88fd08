/*
 * The operations of one level of vector instructions (levels.h). The build sets CPU_LEVEL:
 * portable, avx2 or avx512; OPERATION(x) is the name of x at that level.
 */
#pragma once

#include "kernels/cpu/device.h"

#define OPERATION_PASTE(level, name)  cpu_##level##_##name
#define OPERATION_EXPAND(level, name) OPERATION_PASTE(level, name)
#define OPERATION(name)               OPERATION_EXPAND(CPU_LEVEL, name)

void OPERATION(embedding_forward)(struct kernel_device *device, void *output, const int32_t *tokens,
                                  const void *token_table, const void *position_table, size_t batch,
                                  size_t context, size_t width);
void OPERATION(embedding_backward)(struct kernel_device *device, float *d_token_table,
                                   float *d_position_table, const void *d_output,
                                   const int32_t *tokens, size_t batch, size_t context,
                                   size_t width);
void OPERATION(layernorm_forward)(struct kernel_device *device, void *output, float *mean,
                                  float *rstd, void *sum, const void *input, const void *branch,
                                  const void *weight, const void *bias, size_t rows, size_t width);
void OPERATION(layernorm_backward)(struct kernel_device *device, void *d_input, float *d_weight,
                                   float *d_bias, const void *d_output, const void *input,
                                   const void *weight, const float *mean, const float *rstd,
                                   size_t rows, size_t width);
void OPERATION(rmsnorm_forward)(struct kernel_device *device, void *output, float *rstd, void *sum,
                                const void *input, const void *branch, const void *weight,
                                float epsilon, size_t rows, size_t width);
void OPERATION(rmsnorm_backward)(struct kernel_device *device, void *d_input, float *d_weight,
                                 const void *d_output, const void *input, const void *weight,
                                 const float *rstd, size_t rows, size_t width);
void OPERATION(linear_forward)(struct kernel_device *device, void *output, const void *input,
                               const void *weight, const void *bias, struct kernel_linear shape);
void OPERATION(linear_gelu_forward)(struct kernel_device *device, void *output, void *before,
                                    const void *input, const void *weight, const void *bias,
                                    struct kernel_linear shape);
void OPERATION(linear_backward)(struct kernel_device *device, void *d_input, float *d_weight,
                                float *d_bias, const void *d_output, const void *input,
                                const void *weight, struct kernel_linear shape);
void OPERATION(attention_forward)(struct kernel_device *device, void *output, float *log_sum,
                                  const void *qkv, struct kernel_attention shape);
void OPERATION(attention_backward)(struct kernel_device *device, void *d_qkv, const void *d_output,
                                   const void *output, const float *log_sum, const void *qkv,
                                   struct kernel_attention shape);
void OPERATION(headnorm_forward)(struct kernel_device *device, void *output, float *rstd,
                                 const void *qkv, const void *q_weight, const void *k_weight,
                                 float epsilon, struct kernel_attention shape);
void OPERATION(headnorm_backward)(struct kernel_device *device, void *d_qkv, float *d_q_weight,
                                  float *d_k_weight, const void *qkv, const void *q_weight,
                                  const void *k_weight, const float *rstd,
                                  struct kernel_attention shape);
void OPERATION(rotary_forward)(struct kernel_device *device, void *qkv, const float *angles,
                               struct kernel_attention shape);
void OPERATION(rotary_backward)(struct kernel_device *device, void *d_qkv, const float *angles,
                                struct kernel_attention shape);
void OPERATION(gelu_forward)(struct kernel_device *device, void *output, const void *input,
                             size_t count);
void OPERATION(linear_gelu_backward)(struct kernel_device *device, void *d_before, float *d_weight,
                                     float *d_bias, const void *d_output, const void *input,
                                     const void *before, const void *weight,
                                     struct kernel_linear shape);
void OPERATION(gelu_backward)(struct kernel_device *device, void *d_input, const void *d_output,
                              const void *input, size_t count);
void OPERATION(swiglu_forward)(struct kernel_device *device, void *output, const void *gate_up,
                               size_t rows, size_t width);
void OPERATION(swiglu_backward)(struct kernel_device *device, void *d_gate_up, const void *d_output,
                                const void *gate_up, size_t rows, size_t width);
void OPERATION(residual)(struct kernel_device *device, void *output, const void *a, const void *b,
                         size_t count);
void OPERATION(cross_entropy_forward)(struct kernel_device *device, float *losses,
                                      const void *logits, const int32_t *targets, size_t rows,
                                      size_t vocab, size_t stride);
void OPERATION(cross_entropy_fused)(struct kernel_device *device, float *losses, void *logits,
                                    const int32_t *targets, float scale, size_t rows, size_t vocab,
                                    size_t stride);
void OPERATION(adamw)(struct kernel_device *device, const struct kernel_adamw_tensor *tensors,
                      size_t tensor_count, const struct kernel_adamw *options);
void OPERATION(weights)(struct kernel_device *device, void *weights, const float *parameters,
                        size_t count);
void OPERATION(values)(struct kernel_device *device, float *values, const void *activations,
                       size_t count);
void OPERATION(norms_squared)(struct kernel_device *device,
                              const struct kernel_flat_tensor *tensors, size_t tensor_count,
                              double *ret_sums);
void OPERATION(digests)(struct kernel_device *device, const struct kernel_flat_tensor *tensors,
                        size_t tensor_count, uint64_t *ret_digests);
void OPERATION(tree_add)(struct kernel_device *device, float *output, const float *a,
                         const float *b, size_t count);

extern const struct kernel OPERATION(kernel);
