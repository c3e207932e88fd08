/*
 * A device with buffers of a model's shapes, for bench-device: its operations one by one, and steps
 * of the whole model. Everything that fails ends the program.
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
    float *f32[4];         /* elements each, or what the largest weight or table has */
    int32_t *tokens;       /* N, on the device */
    double peak_flops, copy_bytes;
};

void device_rig_stop(const char *what) __attribute__((noreturn));
/** device_rig_describe() - prints what the device computes with, of the shapes so far */
void device_rig_describe(const struct device_rig *rig);
/** device_rig_wait() - ends the program, with that, where the device has failed */
void device_rig_wait(const struct device_rig *rig);
void *device_rig_memory(const struct device_rig *rig, size_t size_bytes);

/**
 * device_operations() - each operation's rate beside its floor: that of a plain copy for what goes
 * through memory, that of the model's largest product for what multiplies
 *
 * Fills peak_flops and copy_bytes. Operations whose shape the device does not know are left out.
 */
void device_operations(struct device_rig *rig);
