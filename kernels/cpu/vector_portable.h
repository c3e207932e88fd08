/*
 * vector.h in plain C: the definition with which the other two must agree, and the fallback for
 * processors without AVX2. Without an fma instruction, fmaf() is a slow library call. It is used
 * anyway, because the result must not depend on the machine.
 */
#pragma once

typedef struct {
    float lane[VEC_LANES];
} vec;

/* Sixteen f64 lanes for sums of squares. */
typedef struct {
    double lane[VEC_LANES];
} vec_double;

#define VEC_EACH(expression)                                                                       \
    vec result_;                                                                                   \
    for (unsigned l = 0; l < VEC_LANES; l++)                                                       \
        result_.lane[l] = (expression);                                                            \
    return result_

static inline vec vec_set(float value)
{
    VEC_EACH(value);
}

static inline vec vec_load(const float *from)
{
    VEC_EACH(from[l]);
}

static inline void vec_store(float *to, vec a)
{
    memcpy(to, a.lane, sizeof(a.lane));
}

static inline vec vec_load_first(const float *from, unsigned count, float fill)
{
    VEC_EACH(l < count ? from[l] : fill);
}

static inline void vec_store_first(float *to, vec a, unsigned count)
{
    memcpy(to, a.lane, count * sizeof(a.lane[0]));
}

static inline vec vec_keep_first(vec a, unsigned count)
{
    VEC_EACH(l < count ? a.lane[l] : 0.0f);
}

static inline vec vec_add(vec a, vec b)
{
    VEC_EACH(a.lane[l] + b.lane[l]);
}

static inline vec vec_sub(vec a, vec b)
{
    VEC_EACH(a.lane[l] - b.lane[l]);
}

static inline vec vec_mul(vec a, vec b)
{
    VEC_EACH(a.lane[l] * b.lane[l]);
}

static inline vec vec_div(vec a, vec b)
{
    VEC_EACH(a.lane[l] / b.lane[l]);
}

/* a * b + c, rounded once */
static inline vec vec_fma(vec a, vec b, vec c)
{
    VEC_EACH(fmaf(a.lane[l], b.lane[l], c.lane[l]));
}

static inline vec vec_sqrt(vec a)
{
    VEC_EACH(sqrtf(a.lane[l]));
}

/* returns b if either is NaN */
static inline vec vec_max(vec a, vec b)
{
    VEC_EACH(a.lane[l] > b.lane[l] ? a.lane[l] : b.lane[l]);
}

static inline vec vec_min(vec a, vec b)
{
    VEC_EACH(a.lane[l] < b.lane[l] ? a.lane[l] : b.lane[l]);
}

static inline vec vec_abs(vec a)
{
    VEC_EACH(fabsf(a.lane[l]));
}

/* a < b ? yes : no */
static inline vec vec_if_less(vec a, vec b, vec yes, vec no)
{
    VEC_EACH(a.lane[l] < b.lane[l] ? yes.lane[l] : no.lane[l]);
}

/* 2^n, with n in the low bits of @a's representation: see vec_exp() */
static inline vec vec_power_of_two(vec a)
{
    uint32_t bits[VEC_LANES];
    memcpy(bits, a.lane, sizeof(bits));
    for (unsigned l = 0; l < VEC_LANES; l++)
        bits[l] = (bits[l] << 23) + (127u << 23);
    memcpy(a.lane, bits, sizeof(bits));
    return a;
}

/* Lane l with l + 8, then l + 4, l + 2 and l + 1. */
static inline float vec_sum(vec a)
{
    for (unsigned step = VEC_LANES / 2; step > 0; step /= 2)
        for (unsigned l = 0; l < step; l++)
            a.lane[l] += a.lane[l + step];
    return a.lane[0];
}

static inline float vec_highest(vec a)
{
    for (unsigned step = VEC_LANES / 2; step > 0; step /= 2)
        for (unsigned l = 0; l < step; l++)
            a.lane[l] = a.lane[l] > a.lane[l + step] ? a.lane[l] : a.lane[l + step];
    return a.lane[0];
}

static inline vec_double vec_double_zero(void)
{
    return (vec_double){{0.0}};
}

/* The square of an f32 is exact in f64, so fma and mul-add are the same here. */
static inline vec_double vec_double_add_squares(vec_double sum, vec a)
{
    for (unsigned l = 0; l < VEC_LANES; l++)
        sum.lane[l] += (double)a.lane[l] * (double)a.lane[l];
    return sum;
}

static inline double vec_double_sum(vec_double a)
{
    for (unsigned step = VEC_LANES / 2; step > 0; step /= 2)
        for (unsigned l = 0; l < step; l++)
            a.lane[l] += a.lane[l + step];
    return a.lane[0];
}
