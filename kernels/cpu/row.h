/* What several operations do to one row of numbers. */
#pragma once

#include "kernels/cpu/vector.h"

/** row_add() - to = a + b; @to may be either */
static inline void row_add(float *to, const float *a, const float *b, size_t count)
{
    for (size_t c = 0; c < count; c += VEC_LANES) {
        vec left = vec_load_part(a + c, count - c, 0.0f);
        vec right = vec_load_part(b + c, count - c, 0.0f);
        vec_store_part(to + c, vec_add(left, right), count - c);
    }
}

/** row_stream() - row @row of the residual stream before a norm: of @input, or of @sum, which
    becomes the sum of @input and @branch; @branch may be NULL */
static inline const float *row_stream(float *sum, const float *input, const float *branch,
                                      size_t row, size_t width)
{
    size_t at = row * width;

    if (!branch)
        return input + at;
    row_add(sum + at, input + at, branch + at, width);
    return sum + at;
}

/** row_scale() - row *= factor */
static inline void row_scale(float *row, float factor, size_t count)
{
    for (size_t c = 0; c < count; c += VEC_LANES) {
        vec x = vec_load_part(row + c, count - c, 0.0f);
        vec_store_part(row + c, vec_mul(x, vec_set(factor)), count - c);
    }
}

/** row_highest() - -INFINITY for an empty row */
static inline float row_highest(const float *row, size_t count)
{
    vec highest = vec_set(-INFINITY);
    for (size_t c = 0; c < count; c += VEC_LANES)
        highest = vec_max(highest, vec_load_part(row + c, count - c, -INFINITY));
    return vec_highest(highest);
}

/** row_dot() - the sum of the products */
static inline float row_dot(const float *a, const float *b, size_t count)
{
    vec sum = vec_zero();
    for (size_t c = 0; c < count; c += VEC_LANES) {
        vec left = vec_load_part(a + c, count - c, 0.0f);
        sum = vec_fma(left, vec_load_part(b + c, count - c, 0.0f), sum);
    }
    return vec_sum(sum);
}
