/*
 * Which shapes of attention cuDNN computes, and which our own kernels do.
 *
 * cuDNN computes a direction of a shape in bf16 where its library is found, an engine of it that is
 * deterministic takes the graph within CHOICE_WORKSPACE_MAX bytes (attention_cudnn.cuh), and a
 * trial went well: a small problem with the same heads gives what our own kernels give, up to
 * rounding, and the same bits twice. Everything else stays with our own kernels, and describe()
 * says why. So the choice is a function of the shape, the kind of device and the library, as
 * exactness demands; where memory is too short for the trial nothing is chosen, and the stage
 * fails.
 *
 * The library is libcudnn.so.9 where the system looks, or what FIRN_CUDNN_LIBRARY names; an empty
 * name switches it off. A shape's workspace is the device's and stays where it is until the end.
 */
#pragma once

#include "kernels/cuda/attention.cuh"

/* Of what firnd leaves to the driver and the libraries. */
#define CHOICE_WORKSPACE_MAX ((size_t)256 << 20)

struct attention_choices; /* opaque: of a device */

/** attention_choices_version() - of the cuDNN that is found, 0: none, or switched off */
size_t attention_choices_version(void);

/** attention_choices_new() - -ENOMEM; -EIO: cuDNN is there and does not take the device */
int attention_choices_new(struct kernel_device *device, struct attention_choices **ret_choices,
                          struct error *error);
/** attention_choices_free() - NULL allowed */
void attention_choices_free(struct attention_choices *choices);

/** attention_choose() - 0, or -ENOMEM; a shape that was chosen for before keeps its choice */
int attention_choose(struct kernel_device *device, const attention_view &view);

/** attention_chosen_forward() - false: nothing was done, our own kernels shall */
bool attention_chosen_forward(struct kernel_device *device, bfloat *output, float *log_sum,
                              const bfloat *qkv, const attention_view &view);
/** attention_chosen_backward() - @delta is overwritten where it says true */
bool attention_chosen_backward(struct kernel_device *device, bfloat *d_qkv, const bfloat *d_output,
                               const bfloat *output, float *delta, const float *log_sum,
                               const bfloat *qkv, const attention_view &view);

/** attention_describe() - a line a shape, cut off at @size */
void attention_describe(const struct kernel_device *device, char *ret_text, size_t size);
