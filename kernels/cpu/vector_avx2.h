/* vector.h with AVX2 and FMA: a vec is two registers, and every operation is done on both. */
#pragma once

#include <immintrin.h>

typedef struct {
    __m256 low, high;
} vec;

/* Sixteen f64 lanes for sums of squares. */
typedef struct {
    __m256d quarter[4];
} vec_double;

static inline vec vec_set(float value)
{
    return (vec){_mm256_set1_ps(value), _mm256_set1_ps(value)};
}

static inline vec vec_load(const float *from)
{
    return (vec){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}

static inline void vec_store(float *to, vec a)
{
    _mm256_storeu_ps(to, a.low);
    _mm256_storeu_ps(to + 8, a.high);
}

/* All bits in the first @count of the lanes that begin with lane @first. */
static inline __m256i vec_mask(unsigned count, int first)
{
    __m256i lane =
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane);
}

static inline __m256 vec_load_half(const float *from, __m256i mask, float fill)
{
    return _mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(from, mask),
                            _mm256_castsi256_ps(mask));
}

static inline vec vec_load_first(const float *from, unsigned count, float fill)
{
    return (vec){vec_load_half(from, vec_mask(count, 0), fill),
                 vec_load_half(from + 8, vec_mask(count, 8), fill)};
}

static inline void vec_store_first(float *to, vec a, unsigned count)
{
    _mm256_maskstore_ps(to, vec_mask(count, 0), a.low);
    _mm256_maskstore_ps(to + 8, vec_mask(count, 8), a.high);
}

static inline vec vec_keep_first(vec a, unsigned count)
{
    return (vec){_mm256_and_ps(a.low, _mm256_castsi256_ps(vec_mask(count, 0))),
                 _mm256_and_ps(a.high, _mm256_castsi256_ps(vec_mask(count, 8)))};
}

static inline vec vec_add(vec a, vec b)
{
    return (vec){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

static inline vec vec_sub(vec a, vec b)
{
    return (vec){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}

static inline vec vec_mul(vec a, vec b)
{
    return (vec){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

static inline vec vec_div(vec a, vec b)
{
    return (vec){_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}

/* a * b + c, rounded once */
static inline vec vec_fma(vec a, vec b, vec c)
{
    return (vec){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

static inline vec vec_sqrt(vec a)
{
    return (vec){_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)};
}

/* returns b if either is NaN */
static inline vec vec_max(vec a, vec b)
{
    return (vec){_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

static inline vec vec_min(vec a, vec b)
{
    return (vec){_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}

static inline vec vec_abs(vec a)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (vec){_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}

/* a < b ? yes : no */
static inline vec vec_if_less(vec a, vec b, vec yes, vec no)
{
    return (vec){
        _mm256_blendv_ps(no.low, yes.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
        _mm256_blendv_ps(no.high, yes.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)),
    };
}

static inline __m256 vec_power_of_two_half(__m256 a)
{
    __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(a), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(127 << 23)));
}

/* 2^n, with n in the low bits of @a's representation: see vec_exp() */
static inline vec vec_power_of_two(vec a)
{
    return (vec){vec_power_of_two_half(a.low), vec_power_of_two_half(a.high)};
}

/* Lane l with l + 8, then l + 4, l + 2 and l + 1. */
static inline float vec_sum(vec a)
{
    __m256 eight = _mm256_add_ps(a.low, a.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float vec_highest(vec a)
{
    __m256 eight = _mm256_max_ps(a.low, a.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline vec_double vec_double_zero(void)
{
    __m256d zero = _mm256_setzero_pd();
    return (vec_double){{zero, zero, zero, zero}};
}

static inline __m256d vec_double_add_square(__m256d sum, __m128 a)
{
    __m256d wide = _mm256_cvtps_pd(a);
    return _mm256_fmadd_pd(wide, wide, sum);
}

/* The square of an f32 is exact in f64, so fma and mul-add are the same here. */
static inline vec_double vec_double_add_squares(vec_double sum, vec a)
{
    sum.quarter[0] = vec_double_add_square(sum.quarter[0], _mm256_castps256_ps128(a.low));
    sum.quarter[1] = vec_double_add_square(sum.quarter[1], _mm256_extractf128_ps(a.low, 1));
    sum.quarter[2] = vec_double_add_square(sum.quarter[2], _mm256_castps256_ps128(a.high));
    sum.quarter[3] = vec_double_add_square(sum.quarter[3], _mm256_extractf128_ps(a.high, 1));
    return sum;
}

static inline double vec_double_sum(vec_double a)
{
    __m256d four = _mm256_add_pd(_mm256_add_pd(a.quarter[0], a.quarter[2]),
                                 _mm256_add_pd(a.quarter[1], a.quarter[3]));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
