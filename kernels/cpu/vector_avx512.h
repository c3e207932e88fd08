/* vector.h with AVX-512: a vec is one register. */
#pragma once

#include <immintrin.h>

typedef __m512 vec;

/* Sixteen f64 lanes for sums of squares. */
typedef struct {
    __m512d low, high;
} vec_double;

static inline vec vec_set(float value)
{
    return _mm512_set1_ps(value);
}

static inline vec vec_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

static inline void vec_store(float *to, vec a)
{
    _mm512_storeu_ps(to, a);
}

static inline __mmask16 vec_mask(unsigned count)
{
    return (__mmask16)((1u << count) - 1);
}

static inline vec vec_load_first(const float *from, unsigned count, float fill)
{
    return _mm512_mask_loadu_ps(vec_set(fill), vec_mask(count), from);
}

static inline void vec_store_first(float *to, vec a, unsigned count)
{
    _mm512_mask_storeu_ps(to, vec_mask(count), a);
}

static inline vec vec_keep_first(vec a, unsigned count)
{
    return _mm512_maskz_mov_ps(vec_mask(count), a);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c, rounded once */
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vec vec_sqrt(vec a)
{
    return _mm512_sqrt_ps(a);
}

/* returns b if either is NaN */
static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

static inline vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

static inline vec vec_abs(vec a)
{
    return _mm512_abs_ps(a);
}

/* a < b ? yes : no */
static inline vec vec_if_less(vec a, vec b, vec yes, vec no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}

/* 2^n, with n in the low bits of @a's representation: see vec_exp() */
static inline vec vec_power_of_two(vec a)
{
    __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(a), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(127 << 23)));
}

static inline __m256 vec_high(vec a)
{
    return _mm512_extractf32x8_ps(a, 1);
}

/* Lane l with l + 8, then l + 4, l + 2 and l + 1. */
static inline float vec_sum(vec a)
{
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), vec_high(a));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float vec_highest(vec a)
{
    __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), vec_high(a));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline vec_double vec_double_zero(void)
{
    return (vec_double){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

/* The square of an f32 is exact in f64, so fma and mul-add are the same here. */
static inline vec_double vec_double_add_squares(vec_double sum, vec a)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    __m512d high = _mm512_cvtps_pd(vec_high(a));
    sum.low = _mm512_fmadd_pd(low, low, sum.low);
    sum.high = _mm512_fmadd_pd(high, high, sum.high);
    return sum;
}

static inline double vec_double_sum(vec_double a)
{
    __m512d eight = _mm512_add_pd(a.low, a.high);
    __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
