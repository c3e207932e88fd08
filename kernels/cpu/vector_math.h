/* Exponentials on sixteen lanes (vector.h): libm's functions take one number at a time and are too
 * slow. */
#pragma once

#include "kernels/cpu/vector.h"

/**
 * vec_exp() - compute e^x within 1 unit in the last place
 *
 * Cody and Waite: x = n ln 2 + r with |r| <= ln 2 / 2; e^r by a minimax polynomial made for this
 * interval (relative error 2^-28); the result is 2^n e^r. Below -87 (e^-87 is near the smallest
 * normal number) the result is 0, above 88 it is e^88, which no caller reaches; NaN stays NaN.
 */
static inline vec vec_exp(vec x)
{
    /* Added to a small number, it rounds it to an integer and leaves it in the low bits. */
    const vec rounder = vec_set(0x1.8p23f);
    const vec lowest = vec_set(-87.0f), highest = vec_set(88.0f);

    vec clamped = vec_min(highest, vec_max(lowest, x));
    vec shifted = vec_fma(clamped, vec_set(0x1.715476p+0f), rounder);
    vec n = vec_sub(shifted, rounder);
    vec r = vec_fma(n, vec_set(-0x1.62e400p-1f), clamped); /* ln 2 in two parts, high then low */
    r = vec_fma(n, vec_set(-0x1.7f7d1cp-20f), r);

    vec p = vec_set(0x1.6a234ep-10f);
    p = vec_fma(p, r, vec_set(0x1.123a6cp-7f));
    p = vec_fma(p, r, vec_set(0x1.5558f4p-5f));
    p = vec_fma(p, r, vec_set(0x1.55549p-3f));
    p = vec_fma(p, r, vec_set(0x1.fffffcp-2f));
    p = vec_fma(p, vec_mul(r, r), r);
    vec power = vec_power_of_two(shifted);
    vec result = vec_fma(p, power, power);
    return vec_if_less(x, lowest, vec_zero(), result);
}

/**
 * vec_sigmoid() - compute s(x) = 1 / (1 + e^-x) and its complement 1 - s(x), both without
 * cancellation
 */
static inline void vec_sigmoid(vec x, vec *ret_value, vec *ret_complement)
{
    vec e = vec_exp(vec_sub(vec_zero(), vec_abs(x)));
    vec larger = vec_div(vec_set(1.0f), vec_add(vec_set(1.0f), e));
    vec smaller = vec_mul(e, larger);

    *ret_value = vec_if_less(x, vec_zero(), smaller, larger);
    *ret_complement = vec_if_less(x, vec_zero(), larger, smaller);
}
