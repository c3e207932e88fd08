/*
 * The measure of a layer's change: Egeria's plasticity (Wang et al., EuroSys 2023), and the rule
 * that freezes a layer when its plasticity no longer falls.
 *
 * Egeria compares the outputs of a layer with those of a lagging copy of the model, by a loss that
 * preserves similarities: which inputs look alike to the layer. It needs only the similarities of
 * the copy's outputs, so these are kept instead of the copy: the cosines between PLASTICITY_ROWS
 * rows that the layer's MLP adds to the stream, in the first micro-batch of the validation data,
 * which is the same at every measurement. Plasticity is the mean squared difference between the
 * cosines of this and of the previous measurement. Only the lowest trained layer is measured: the
 * layers below it are frozen, so the difference is its own (without layers below it, also the
 * embedding's). The cost is an evaluation and a few dot products.
 *
 * The plasticity of a layer falls while the layer converges, and is stationary from then on, except
 * for noise of a factor of two. So the mean of the last `patience` values is compared with the mean
 * of as many values before: a layer is calm when they differ by at most `tolerance` of the larger,
 * after at least 2 x patience + 1 measurements, and then it freezes. A measurement that equals the
 * previous one in every bit does not count: its steps were skipped (train.on_nan), or the learning
 * rate is 0. All of this is a function of committed records, with equal bits on every layout.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/step/step_record.h"

#define PLASTICITY_ROWS 16u
static_assert(PLASTICITY_ROWS * (PLASTICITY_ROWS - 1) / 2 == STEP_RECORD_PAIRS,
              "every pair of rows has one similarity");

#define PLASTICITY_PATIENCE_MAX 16u

struct plasticity {
    bool has_before;
    double before[STEP_RECORD_PAIRS]; /* similarities of the layer at the last measurement */
    unsigned count;                   /* of values, at most the room for them */
    double values[2 * PLASTICITY_PATIENCE_MAX]; /* the newest first */
    double shown; /* the value of the last measurement, also after a freeze; 0: it gave none */
};

/** plasticity_init() - set the state before the first measurement of a layer */
void plasticity_init(struct plasticity *plasticity);

/**
 * plasticity_similarities() - compute the cosines between the differences of @rows and @inputs,
 * each pair once
 * @inputs, @rows: the stream before and after the layer's MLP, PLASTICITY_ROWS x @width each, on
 * the host
 * @ret_similarities: STEP_RECORD_PAIRS known values of a record; 0 for a row of zeros
 */
void plasticity_similarities(const float *inputs, const float *rows, size_t width,
                             double *ret_similarities);

/** plasticity_take() - add a measurement, @similarities */
void plasticity_take(struct plasticity *plasticity, const double *similarities);

/** plasticity_is_calm() - return whether the layer is to freeze
 * @patience: 1 to PLASTICITY_PATIENCE_MAX */
bool plasticity_is_calm(const struct plasticity *plasticity, unsigned patience, double tolerance);

/** plasticity_next_layer() - restart with the next layer */
void plasticity_next_layer(struct plasticity *plasticity);

/** plasticity_encode() - encode the state with values as bits; new reference, NULL when out of
 * memory */
json_t *plasticity_encode(const struct plasticity *plasticity);
/** plasticity_decode() - decode the state; -EINVAL names the key */
int plasticity_decode(const json_t *tree, struct plasticity *ret_plasticity,
                      struct error *error) CHECK_RESULT;
