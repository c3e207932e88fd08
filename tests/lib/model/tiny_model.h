/*
 * A small model of each kind, and its gradients. Its parameters are large enough that every part of
 * it matters: at GPT-2's own initialization attention is nearly uniform and biases are zero.
 */
#pragma once

#include <stdint.h>

#include "kernels/kernel.h"
#include "model/net/stage.h"

#define TINY_BATCH   2
#define TINY_UNITS   6
#define TINY_CONTEXT 16
#define TINY_ROWS    (TINY_BATCH * TINY_CONTEXT)
#define TINY_VOCAB   61
#define TINY_MICROS  3 /* micro-batches of data */
#define TINY_STREAM  77

enum tiny_kind { TINY_GPT2, TINY_LLAMA, TINY_LLAMA3, TINY_LINEAR, TINY_QWEN2, TINY_QWEN3 };

struct tiny_model {
    const struct model_spec *spec;
    const struct kernel *kernel;
    struct kernel_device *device;
    struct unit_layout layouts[TINY_UNITS];
    float *host_parameters[TINY_UNITS];                    /* the same values as on the device */
    float *parameters[TINY_UNITS], *gradients[TINY_UNITS]; /* device */
    void *weights[TINY_UNITS]; /* device; the parameters if activations are f32 */
    int32_t tokens[TINY_MICROS][TINY_ROWS], targets[TINY_MICROS][TINY_ROWS];
};

/** tiny_open_on() - make the model of @spec on the first device of @kernel */
void tiny_open_on(struct tiny_model *tiny, const struct model_spec *spec,
                  const struct kernel *kernel);

/** tiny_open() - make the model of @kind on the processor */
void tiny_open(struct tiny_model *tiny, enum tiny_kind kind);

/** tiny_close() - free the model */
void tiny_close(struct tiny_model *tiny);

/** tiny_stage() - make a stage of some of the model's units; @slots: micro-batches in flight */
struct stage *tiny_stage(struct tiny_model *tiny, unsigned first_unit, unsigned unit_count,
                         unsigned slots);

/** tiny_zero_gradients() - set the gradients of all units to zero */
void tiny_zero_gradients(struct tiny_model *tiny);

/* The gradients on the host, from malloc(). */
float *tiny_gradient(struct tiny_model *tiny, unsigned unit);
