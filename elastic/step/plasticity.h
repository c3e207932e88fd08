/*
 * How much a layer still changes: Egeria's plasticity (Wang et al., EuroSys 2023), and the rule
 * that freezes a layer when it has calmed down.
 *
 * Egeria compares the outputs of a layer with those of a lagging copy of the model, by a loss that
 * preserves similarities: which inputs look alike to the layer. The similarities are all that it
 * needs of the copy's outputs, so they are what is kept, instead of the copy: the cosines between
 * PLASTICITY_ROWS rows of the first micro-batch of the validation data, which is the same at every
 * measurement. Plasticity is the mean squared difference of the cosines to those of the measurement
 * before. Only the lowest trained layer is measured; what is below it does not change, so the
 * difference is its own. It costs nothing beside an evaluation and a few dot products.
 *
 * A layer freezes when its plasticity has been at most `tolerance` of the largest one that any
 * layer has shown, in `patience` measurements in a row. The first measurement of a layer gives no
 * plasticity. Everything is a function of committed records, so it has equal bits on every layout.
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

struct plasticity {
    bool has_before;
    double before[STEP_RECORD_PAIRS]; /* similarities of the layer at the last measurement */
    double last;                      /* of the last measurement; negative: it compared nothing */
    double most;                      /* the largest one of any layer */
    unsigned calm;                    /* measurements in a row within the tolerance */
};

/** plasticity_init() - set the state before any measurement */
void plasticity_init(struct plasticity *plasticity);

/**
 * plasticity_similarities() - compute the cosines between @rows, each pair once
 * @rows: PLASTICITY_ROWS x @width, on the host
 * @ret_similarities: known values of a step_record; 0 for a row of zeros
 */
void plasticity_similarities(const float *rows, size_t width, double *ret_similarities);

/**
 * plasticity_measured() - account for @similarities of the lowest trained layer
 *
 * Return: true if the layer is to freeze; then plasticity_next_layer() follows
 */
bool plasticity_measured(struct plasticity *plasticity, const double *similarities,
                         double tolerance, unsigned patience);

/** plasticity_next_layer() - another layer is the lowest trained one */
void plasticity_next_layer(struct plasticity *plasticity);

/** plasticity_encode() - encode the state with values as bits; new reference, NULL when out of
 * memory */
json_t *plasticity_encode(const struct plasticity *plasticity);
/** plasticity_decode() - decode the state; -EINVAL names the key */
int plasticity_decode(const json_t *tree, struct plasticity *ret_plasticity,
                      struct error *error) CHECK_RESULT;
