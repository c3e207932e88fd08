/* Operations on one row of numbers that several kernels share. */
#pragma once

#include "kernels/cpu/vector.h"

/** row_add() - compute to = a + b; @to may be either */
static inline void row_add(float *to, const float *a, const float *b, size_t count)
{
    for (size_t c = 0; c < count; c += VEC_LANES) {
        vec left = vec_load_part(a + c, count - c, 0.0f);
        vec right = vec_load_part(b + c, count - c, 0.0f);
        vec_store_part(to + c, vec_add(left, right), count - c);
    }
}

/** row_stream() - return row @row of the residual stream before a norm: of @input if @branch is
 * NULL, else of @sum, whose row becomes the sum of @input and @branch */
static inline const float *row_stream(float *sum, const float *input, const float *branch,
                                      size_t row, size_t width)
{
    size_t at = row * width;

    if (!branch)
        return input + at;
    row_add(sum + at, input + at, branch + at, width);
    return sum + at;
}

/** row_scale() - multiply the row by @factor */
static inline void row_scale(float *row, float factor, size_t count)
{
    for (size_t c = 0; c < count; c += VEC_LANES) {
        vec x = vec_load_part(row + c, count - c, 0.0f);
        vec_store_part(row + c, vec_mul(x, vec_set(factor)), count - c);
    }
}

/** row_highest() - return the highest element; -INFINITY for an empty row */
static inline float row_highest(const float *row, size_t count)
{
    vec highest = vec_set(-INFINITY);
    for (size_t c = 0; c < count; c += VEC_LANES)
        highest = vec_max(highest, vec_load_part(row + c, count - c, -INFINITY));
    return vec_highest(highest);
}

/** row_dot() - return the sum of the products */
static inline float row_dot(const float *a, const float *b, size_t count)
{
    vec sum = vec_zero();
    for (size_t c = 0; c < count; c += VEC_LANES) {
        vec left = vec_load_part(a + c, count - c, 0.0f);
        sum = vec_fma(left, vec_load_part(b + c, count - c, 0.0f), sum);
    }
    return vec_sum(sum);
}

/**
 * row_rmsnorm() - compute output = x rstd weight; return rstd, one over the root of the mean square
 * of x
 */
static inline float row_rmsnorm(float *output, const float *x, const float *weight, float epsilon,
                                size_t count)
{
    float rstd = 1.0f / sqrtf(row_dot(x, x, count) / (float)count + epsilon);

    for (size_t c = 0; c < count; c += VEC_LANES) {
        size_t left = count - c;
        vec normal = vec_mul(vec_load_part(x + c, left, 0.0f), vec_set(rstd));
        vec_store_part(output + c, vec_mul(normal, vec_load_part(weight + c, left, 0.0f)), left);
    }
    return rstd;
}

/**
 * row_rmsnorm_backward() - compute, with n = x rstd and g = d_output weight: d_input = before +
 *     rstd (g - n times mean over the row of g n)
 * @before: NULL for zeros; it and @d_output may each be the memory of d_input
 */
static inline void row_rmsnorm_backward(float *d_input, const float *before, const float *d_output,
                                        const float *x, const float *weight, float rstd,
                                        size_t count)
{
    vec scale = vec_set(rstd), gn_sum = vec_zero();

    for (size_t c = 0; c < count; c += VEC_LANES) {
        size_t left = count - c;
        vec normal = vec_mul(vec_load_part(x + c, left, 0.0f), scale);
        vec g =
            vec_mul(vec_load_part(d_output + c, left, 0.0f), vec_load_part(weight + c, left, 0.0f));
        gn_sum = vec_fma(g, normal, gn_sum);
    }
    vec gn_mean = vec_set(vec_sum(gn_sum) / (float)count);
    for (size_t c = 0; c < count; c += VEC_LANES) {
        size_t left = count - c;
        vec normal = vec_mul(vec_load_part(x + c, left, 0.0f), scale);
        vec g =
            vec_mul(vec_load_part(d_output + c, left, 0.0f), vec_load_part(weight + c, left, 0.0f));
        vec base = before ? vec_load_part(before + c, left, 0.0f) : vec_zero();
        vec_store_part(d_input + c, vec_fma(vec_sub(g, vec_mul(normal, gn_mean)), scale, base),
                       left);
    }
}
