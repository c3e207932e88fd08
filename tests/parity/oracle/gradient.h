/*
 * Finite differences: the gradient of a scalar function of f64 inputs, one element at a time. The
 * function is an oracle's output weighted by an output gradient, so that one number stands for the
 * whole backward pass. Central differences in f64 leave about nine good digits.
 */
#pragma once

#include <stddef.h>

typedef double (*gradient_function)(const void *context);

/** gradient_at() - d function / d *element; the element is put back */
double gradient_at(gradient_function function, const void *context, double *element);

/** weighted_sum() - sum of values times weights */
double weighted_sum(const double *values, const double *weights, size_t count);

/**
 * assert_gradient() - Check that @actual minus @before is the gradient of @function with respect to
 * @elements @before: the content that an accumulating operation found, or NULL @every: check each
 * @every-th element, beginning with the first, and the last element
 */
#define assert_gradient(function, context, elements, actual, before, count, every, tolerance)      \
    assert_gradient_as(#actual, function, context, elements, actual, before, count, every,         \
                       tolerance)
void assert_gradient_as(const char *name, gradient_function function, const void *context,
                        double *elements, const float *actual, const double *before, size_t count,
                        size_t every, double tolerance);
