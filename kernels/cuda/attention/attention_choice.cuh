/*
 * The choice between cuDNN and our own kernels for each shape of attention.
 *
 * cuDNN computes a direction of a shape in bf16 if its library is found, one of its deterministic
 * engines takes the graph within kernel_attention_workspace() bytes (attention_cudnn.cuh), and the
 * plan passes a trial (attention_trial.cuh): its results equal those of our own kernels up to
 * rounding, with the same bits every time. Our own kernels compute everything else, and describe()
 * gives the reason. So the choice is a function of the shape, the kind of device and the library,
 * as exactness requires. If memory is too short for the trial, nothing is chosen and the stage
 * fails.
 *
 * The library is libcudnn.so.9 on the system's library path, or the file in FIRN_CUDNN_LIBRARY; an
 * empty name switches cuDNN off. A shape's workspace belongs to the device and stays in place until
 * the device closes.
 */
#pragma once

#include "kernels/cuda/attention/attention.cuh"

struct attention_choices; /* opaque: the choices of a device */

/** attention_choices_version() - return the version of cuDNN; 0: not found, or switched off */
size_t attention_choices_version(void);

/** attention_choices_new() - make the choices of a device. Return: 0; -ENOMEM; -EIO: cuDNN is
 * present and refuses the device */
int attention_choices_new(struct kernel_device *device, struct attention_choices **ret_choices,
                          struct error *error);
/** attention_choices_free() - free the choices; NULL allowed */
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
