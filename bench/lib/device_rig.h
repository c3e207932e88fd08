/*
 * A device with buffers of a model's shapes, for bench-device: single operations, and steps of the
 * whole model. Any failure ends the program.
 */
#pragma once

#include "model/net/stage.h"

struct device_rig {
    const struct kernel *kernel;
    struct kernel_device *device;
    struct model_spec spec;
    unsigned batch, rounds;
    size_t rows, elements; /* N; N x 4C: the largest flat buffer */
    void *a, *b, *c;       /* activations, room for N x max(4C, V) */
    float *f32[4];         /* elements each; at least the largest weight or table */
    int32_t *tokens;       /* N, on the device */
    double peak_flops, copy_bytes;
};

void device_rig_stop(const char *what) __attribute__((noreturn));
/** device_rig_describe() - print the libraries and algorithms that the device uses, for the shapes
 * so far */
void device_rig_describe(const struct device_rig *rig);
/** device_rig_wait() - wait for the device; when it has failed, end the program with its error */
void device_rig_wait(const struct device_rig *rig);
void *device_rig_memory(const struct device_rig *rig, size_t size_bytes);

/**
 * device_operations() - measure each operation's rate beside its reference: a plain copy for
 * memory-bound operations, the model's largest product for products
 *
 * Fills peak_flops and copy_bytes. Operations whose shape the device does not know are left out.
 */
void device_operations(struct device_rig *rig);
