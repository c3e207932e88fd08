/*
 * Generate text from a trained model: draw tokens one after another, each from the model's
 * prediction for the last `context` tokens. This is for inspecting a model, not for serving: every
 * token recomputes the used part of the window, with at most as much padding. (Kept keys and values
 * would be useless once the window slides, because every position moves; and products of one row
 * take other paths through a BLAS than training did.)
 *
 * The tokens are a function of parameters, prompt and options alone (Philox keyed by the seed and
 * the position), so a sample of a resumed run can be compared with that of an undisturbed one.
 */
#pragma once

#include "kernels/kernel.h"
#include "model/net/spec.h"

struct generate_options {
    const struct kernel *kernel;
    struct kernel_device *device;
    const struct model_spec *spec;
    void *const *weights;  /* model_unit_count() flat device arrays (model/net/stage.h), borrowed */
    const int32_t *prompt; /* host memory, borrowed for the call */
    size_t prompt_count;   /* >= 1; only the last `context` tokens count */
    size_t count;          /* tokens to generate */
    double temperature;    /* 0: always the likeliest token, the lowest of equals */
    unsigned top_k;        /* draw among the k likeliest; 0: among all */
    uint64_t seed;
};

/** generate_callback - take one token; false stops the generation */
typedef bool (*generate_callback)(int32_t token, void *context);

/**
 * generate() - call @callback with each new token, in order, on the calling thread
 *
 * Return: 0 also when the callback stopped it; -EINVAL (empty prompt, a prompt token outside the
 * vocabulary, temperature negative or not finite), -ENOMEM, -EDOM (the
 * model predicts NaN), or the device's failure. Tokens already handed to the callback stay valid.
 */
int generate(const struct generate_options *options, generate_callback callback, void *context,
             struct error *error) CHECK_RESULT;
