#include "parity/oracle/gradient.h"

#include <stdio.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/differences.h"
#include "parity/oracle/tensor.h"

#define STEP 1e-5

double gradient_at(gradient_function function, const void *context, double *element)
{
    double kept = *element;

    *element = kept + STEP;
    double above = function(context);
    *element = kept - STEP;
    double below = function(context);
    *element = kept;
    return (above - below) / (2 * STEP);
}

double weighted_sum(const double *values, const double *weights, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] * weights[i];
    return sum;
}

void assert_gradient_as(const char *name, gradient_function function, const void *context,
                        double *elements, const float *actual, const double *before, size_t count,
                        size_t every, double tolerance)
{
    struct differences d = {.name = name, .count = count};
    char rule[96];

    tolerance = backend_tolerance(tolerance);
    for (size_t i = 0; i < count;
         i += i + 1 < count && i + every >= count ? count - 1 - i : every) {
        double expected = gradient_at(function, context, &elements[i]) + (before ? before[i] : 0);
        differences_add(&d, i, (double)actual[i], expected,
                        tensor_off((double)actual[i], expected, tolerance));
    }
    snprintf(rule, sizeof(rule), "every %zu. to be the finite difference within %.1e", every,
             tolerance);
    differences_judge(&d, rule);
}
