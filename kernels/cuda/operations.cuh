/* The operations of kernels/kernel.h on a GPU, for activations of type T: float or bfloat. Each is
 * instantiated for both in its own file; table.cu makes the tables. */
#pragma once

#include "kernels/cuda/device.cuh"

template <typename T>
void cuda_embedding_forward(struct kernel_device *device, void *output, const int32_t *tokens,
                            const void *token_table, const void *position_table, size_t batch,
                            size_t context, size_t width);
template <typename T>
void cuda_embedding_backward(struct kernel_device *device, float *d_token_table,
                             float *d_position_table, const void *d_output, const int32_t *tokens,
                             size_t batch, size_t context, size_t width);
template <typename T>
void cuda_layernorm_forward(struct kernel_device *device, void *output, float *mean, float *rstd,
                            void *sum, const void *input, const void *branch, const void *weight,
                            const void *bias, size_t rows, size_t width);
template <typename T>
void cuda_layernorm_backward(struct kernel_device *device, void *d_input, float *d_weight,
                             float *d_bias, const void *d_output, const void *input,
                             const void *weight, const float *mean, const float *rstd, size_t rows,
                             size_t width);
template <typename T>
void cuda_rmsnorm_forward(struct kernel_device *device, void *output, float *rstd, void *sum,
                          const void *input, const void *branch, const void *weight, float epsilon,
                          size_t rows, size_t width);
template <typename T>
void cuda_rmsnorm_backward(struct kernel_device *device, void *d_input, float *d_weight,
                           const void *d_output, const void *input, const void *weight,
                           const float *rstd, size_t rows, size_t width);
template <typename T>
void cuda_linear_forward(struct kernel_device *device, void *output, const void *input,
                         const void *weight, const void *bias, struct kernel_linear shape);
template <typename T>
void cuda_linear_gelu_forward(struct kernel_device *device, void *output, void *before,
                              const void *input, const void *weight, const void *bias,
                              struct kernel_linear shape);
template <typename T>
void cuda_linear_backward(struct kernel_device *device, void *d_input, float *d_weight,
                          float *d_bias, const void *d_output, const void *input,
                          const void *weight, struct kernel_linear shape);
template <typename T>
void cuda_linear_gelu_backward(struct kernel_device *device, void *d_before, float *d_weight,
                               float *d_bias, const void *d_output, const void *input,
                               const void *before, const void *weight, struct kernel_linear shape);
template <typename T>
int cuda_attention_prepare(struct kernel_device *device, struct kernel_attention shape);
template <typename T>
void cuda_attention_forward(struct kernel_device *device, void *output, float *log_sum,
                            const void *qkv, struct kernel_attention shape);
template <typename T>
void cuda_attention_backward(struct kernel_device *device, void *d_qkv, const void *d_output,
                             const void *output, const float *log_sum, const void *qkv,
                             struct kernel_attention shape);
template <typename T>
void cuda_headnorm_forward(struct kernel_device *device, void *output, float *rstd, const void *qkv,
                           const void *q_weight, const void *k_weight, float epsilon,
                           struct kernel_attention shape);
template <typename T>
void cuda_headnorm_backward(struct kernel_device *device, void *d_qkv, float *d_q_weight,
                            float *d_k_weight, const void *qkv, const void *q_weight,
                            const void *k_weight, const float *rstd,
                            struct kernel_attention shape);
template <typename T>
void cuda_rotary_forward(struct kernel_device *device, void *qkv, const float *angles,
                         struct kernel_attention shape);
template <typename T>
void cuda_rotary_backward(struct kernel_device *device, void *d_qkv, const float *angles,
                          struct kernel_attention shape);
template <typename T>
void cuda_gelu_forward(struct kernel_device *device, void *output, const void *input, size_t count);
template <typename T>
void cuda_gelu_backward(struct kernel_device *device, void *d_input, const void *d_output,
                        const void *input, size_t count);
template <typename T>
void cuda_swiglu_forward(struct kernel_device *device, void *output, const void *gate_up,
                         size_t rows, size_t width);
template <typename T>
void cuda_swiglu_backward(struct kernel_device *device, void *d_gate_up, const void *d_output,
                          const void *gate_up, size_t rows, size_t width);
template <typename T>
void cuda_residual(struct kernel_device *device, void *output, const void *a, const void *b,
                   size_t count);
template <typename T>
void cuda_cross_entropy_forward(struct kernel_device *device, float *losses, const void *logits,
                                const int32_t *targets, size_t rows, size_t vocab, size_t stride);
template <typename T>
void cuda_cross_entropy_fused(struct kernel_device *device, float *losses, void *logits,
                              const int32_t *targets, float scale, size_t rows, size_t vocab,
                              size_t stride);
template <typename T>
void cuda_weights(struct kernel_device *device, void *weights, const float *parameters,
                  size_t count);
template <typename T>
void cuda_values(struct kernel_device *device, float *values, const void *activations,
                 size_t count);

/* f32 for every type of activations */
template <typename T>
void cuda_adamw(struct kernel_device *device, const struct kernel_adamw_tensor *tensors,
                size_t tensor_count, const struct kernel_adamw *options);
void cuda_norms_squared(struct kernel_device *device, const struct kernel_flat_tensor *tensors,
                        size_t tensor_count, double *ret_sums);
void cuda_digests(struct kernel_device *device, const struct kernel_flat_tensor *tensors,
                  size_t tensor_count, uint64_t *ret_digests);
void cuda_tree_add(struct kernel_device *device, float *output, const float *a, const float *b,
                   size_t count);
