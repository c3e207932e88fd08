/* The common parts of the oracles of all families; see model_oracle.h. */
#pragma once

#include <stddef.h>

#include "model/net/unit.h"

struct oracle {
    struct model_spec spec;
    double *const *parameters; /* flat, by unit */
};

/** oracle_tensor() - return the tensor of @unit whose name ends with @name */
const double *oracle_tensor(const struct oracle *oracle, unsigned unit, const char *name);

/**
 * oracle_attend() - compute one query head of one sequence
 * @q, @k, @v: its columns in the first row, rows @stride apart
 * @output: the same columns, rows @width apart
 */
void oracle_attend(double *output, size_t width, const double *q, const double *k, const double *v,
                   size_t stride, size_t context, size_t size);
