#include "parity/gradient.h"

#include "parity/tensor.h"

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

void assert_gradient(gradient_function function, const void *context, double *elements,
                     const float *actual, const double *before, size_t count, size_t every,
                     double tolerance)
{
    for (size_t i = 0; i < count;
         i += i + 1 < count && i + every >= count ? count - 1 - i : every) {
        double expected = gradient_at(function, context, &elements[i]) + (before ? before[i] : 0);
        assert_near(&actual[i], &expected, 1, tolerance);
    }
}
