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
    size_t square;         /* rows, columns and inner dimension of the square product */
    void *a, *b, *c;       /* activations, room for activation_count */
    float *f32[4];         /* room for f32_count */
    size_t activation_count, f32_count; /* elements; multiples of DEVICE_RIG_DRAWN */
    float *drawn;  /* DEVICE_RIG_DRAWN random numbers, on the device: buffers are filled from it */
    float *angles; /* (T,D) of the rotary embedding, on the device */
    int32_t *tokens; /* N, on the device */
    double peak_flops, square_flops, copy_bytes;
};

/* Random numbers that are drawn. Buffers repeat them. */
#define DEVICE_RIG_DRAWN ((size_t)1 << 20)

void device_rig_stop(const char *what) __attribute__((noreturn));
/** device_rig_describe() - print the libraries and algorithms that the device uses, for the shapes
 * so far */
void device_rig_describe(const struct device_rig *rig);
/** device_rig_wait() - wait for the device; if it has failed, end the program with its error */
void device_rig_wait(const struct device_rig *rig);
void *device_rig_memory(const struct device_rig *rig, size_t size_bytes);

/** device_rig_host_tokens() - return rig->rows tokens of the vocabulary in host memory, to free */
int32_t *device_rig_host_tokens(const struct device_rig *rig);
/** device_rig_make_buffers() - allocate the buffers; device_operations() fills them */
void device_rig_make_buffers(struct device_rig *rig);
void device_rig_release_buffers(struct device_rig *rig);

/**
 * device_rig_fill() - fill all buffers anew with random numbers
 *
 * A device needs less power for zeros, constants and NaN than for numbers, and then computes
 * faster. So each rate is measured on freshly filled buffers.
 */
void device_rig_fill(const struct device_rig *rig);
/**
 * device_rig_check() - end the program if the numbers of a buffer are not finite
 * @line: the name of the line that is measured
 * @fresh: whether device_rig_fill() has just filled the buffer
 */
void device_rig_check(const struct device_rig *rig, const char *line, bool fresh);

/**
 * device_operations() - measure each operation's rate beside its reference: a plain copy for
 * memory-bound operations, the model's largest product for products
 *
 * Fills peak_flops, square_flops and copy_bytes. Operations whose shape the device does not know
 * are left out.
 */
void device_operations(struct device_rig *rig);
