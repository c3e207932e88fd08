/*
 * The choice between cuDNN and our own kernels for each shape of attention.
 *
 * cuDNN computes a direction of a shape in bf16 where its library is found, an engine of it that is
 * deterministic takes the graph within kernel_attention_workspace() bytes (attention_cudnn.cuh), and a
 * trial of that plan went well (attention_trial.cuh): it gives what our own kernels give, up to
 * rounding, and the same bits every time. Our own kernels compute everything else, and describe()
 * gives the reason. So the choice is a function of the shape, the kind of device and the library,
 * as exactness demands; where memory is too short for the trial nothing is chosen, and the stage
 * fails.
 *
 * The library is libcudnn.so.9 on the system's library path, or the file in FIRN_CUDNN_LIBRARY; an
 * empty name switches cuDNN off. A shape's workspace is the device's and stays where it is until
 * the end.
 */
#pragma once

#include "kernels/cuda/attention/attention.cuh"

struct attention_choices; /* opaque: of a device */

/** attention_choices_version() - return the version of cuDNN; 0: not found, or switched off */
size_t attention_choices_version(void);

/** attention_choices_new() - return 0; -ENOMEM; -EIO: cuDNN is present and refuses the device */
int attention_choices_new(struct kernel_device *device, struct attention_choices **ret_choices,
                          struct error *error);
/** attention_choices_free() - NULL allowed */
void attention_choices_free(struct attention_choices *choices);

/** attention_choose() - choose for a shape; the choice of a shape never changes. Return: 0;
 * -ENOMEM: nothing was chosen; -EIO: cuDNN failed on this machine; -ENOSPC: too many shapes. After
 * the last two the device has failed with the reason */
int attention_choose(struct kernel_device *device, const attention_view &view);

/** attention_chosen_forward() - run forward on cuDNN; false: nothing was done, use our own kernels
 */
bool attention_chosen_forward(struct kernel_device *device, bfloat *output, float *log_sum,
                              const bfloat *qkv, const attention_view &view);
/** attention_chosen_backward() - run backward on cuDNN; true: done, and @delta is overwritten */
bool attention_chosen_backward(struct kernel_device *device, bfloat *d_qkv, const bfloat *d_output,
                               const bfloat *output, float *delta, const float *log_sum,
                               const bfloat *qkv, const attention_view &view);

/** attention_describe() - write one line per shape, cut off at @size */
void attention_describe(const struct kernel_device *device, char *ret_text, size_t size);
