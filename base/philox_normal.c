/*
 * Normal deviates in bulk.
 *
 * Problem: a model of 124M parameters needs as many normals, and scalar code takes half a minute of
 * one core for them. The result must still have the same bits on every machine: libm picks FMA
 * variants by processor and may differ in the last place between releases.
 *
 * Design: Box and Muller over batches, written as loops over arrays of fixed size, which the
 * compiler turns into vectors at the processor's level. The logarithm (the series of
 * base/logarithm.c), sine and cosine use only additions, multiplications, divisions and square
 * roots, which IEEE 754 rounds in exactly one way in vectors and scalars alike; the build forbids
 * contraction into FMA. So the level changes only the speed, not the bits.
 */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/philox.h"

#define BLOCKS     32u                   /* Philox blocks in a batch */
#define PAIRS      (2u * BLOCKS)         /* two pairs of normals per block */
#define VALUES     (2u * PAIRS)          /* of a batch */
#define MAGIC_WORD 0x4330000000000000ull /* as a double: 2^52; the last bit counts 1 */
#define MAGIC      0x1p52

static inline double double_of(uint64_t word)
{
    double value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

static inline uint64_t word_of(double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof(word));
    return word;
}

/* Run philox_block() on the counters from @counter_low on; pair p of block b is in [2 b + p]. */
__attribute__((always_inline)) static inline void fill_words(struct philox_key key,
                                                             uint64_t counter_low,
                                                             uint64_t counter_high,
                                                             uint32_t *radius, uint32_t *angle)
{
    uint32_t c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        c0[i] = (uint32_t)(counter_low + i);
        c1[i] = (uint32_t)((counter_low + i) >> 32);
        c2[i] = (uint32_t)counter_high;
        c3[i] = (uint32_t)(counter_high >> 32);
    }
    uint32_t k0 = key.word[0], k1 = key.word[1];
    for (unsigned round = 0; round < PHILOX_ROUNDS; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            uint64_t product0 = (uint64_t)PHILOX_MULTIPLIER_0 * c0[i];
            uint64_t product1 = (uint64_t)PHILOX_MULTIPLIER_1 * c2[i];
            c0[i] = (uint32_t)(product1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)product1;
            c2[i] = (uint32_t)(product0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)product0;
        }
        k0 += PHILOX_WEYL_0;
        k1 += PHILOX_WEYL_1;
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        radius[2 * i] = c0[i];
        angle[2 * i] = c1[i];
        radius[2 * i + 1] = c2[i];
        angle[2 * i + 1] = c3[i];
    }
}

/* Compute sqrt(-2 ln u) of u = (word + 1/2) / 2^32, which is never 0 or 1. The steps are those of
 * logarithm(), in the same order. */
__attribute__((always_inline)) static inline void fill_radii(const uint32_t *words, double *radii)
{
    static const double coefficients[] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                                          1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
    double mantissa[PAIRS], exponent[PAIRS];
    const uint64_t root = word_of(M_SQRT2);
    for (unsigned i = 0; i < PAIRS; i++) {
        double uniform = (double_of(MAGIC_WORD | words[i]) - MAGIC + 0.5) * 0x1p-32;
        uint64_t word = word_of(uniform);
        uint64_t fraction = (word & 0xFFFFFFFFFFFFFull) | (uint64_t)1023 << 52;
        /* 1 above sqrt(2), which is halved into (sqrt(1/2), sqrt(2)]; positive doubles are in the
           order of their words, and the difference of two below 2^63 has its sign on top. */
        uint64_t above = (root - fraction) >> 63;
        mantissa[i] = double_of(fraction - (above << 52));
        exponent[i] = double_of(MAGIC_WORD | ((word >> 52) + above)) - MAGIC - 1023;
    }
    for (unsigned i = 0; i < PAIRS; i++) {
        double s = (mantissa[i] - 1) / (mantissa[i] + 1), s2 = s * s, sum = 0;
        for (int k = (int)ARRAY_COUNT(coefficients) - 1; k >= 0; k--)
            sum = sum * s2 + coefficients[k];
        radii[i] = sqrt(-2 * (exponent[i] * M_LN2 + 2 * s * sum));
    }
}

/* Compute sine and cosine of 2 pi word / 2^32. The quadrant is exact, and |x| <= pi / 4 inside
 * it. */
__attribute__((always_inline)) static inline void fill_directions(const uint32_t *words,
                                                                  double *sines, double *cosines)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        uint32_t quadrant = (words[i] + (1u << 29)) >> 30;
        int32_t rest = (int32_t)(words[i] - (quadrant << 30));
        double x = (double)rest * (M_PI_2 / (1u << 30)), x2 = x * x;
        double sine = 1, cosine = 1;
        for (int k = 8; k >= 1; k--) {
            sine = 1 - sine * x2 / (2 * k * (2 * k + 1));
            cosine = 1 - cosine * x2 / (2 * k * (2 * k - 1));
        }
        uint64_t along = word_of(sine * x), across = word_of(cosine);
        uint64_t swapped = 0 - (uint64_t)(quadrant & 1); /* all bits, or none */
        uint64_t difference = (along ^ across) & swapped;
        uint64_t sine_sign = (uint64_t)(quadrant >> 1 & 1) << 63;
        uint64_t cosine_sign = (uint64_t)((quadrant ^ quadrant >> 1) & 1) << 63;
        sines[i] = double_of(along ^ difference ^ sine_sign);
        cosines[i] = double_of(across ^ difference ^ cosine_sign);
    }
}

__attribute__((always_inline)) static inline void fill_batch(struct philox_key key,
                                                             uint64_t counter_low,
                                                             uint64_t counter_high, double mean,
                                                             double deviation, float *ret_values)
{
    uint32_t radius_words[PAIRS], angle_words[PAIRS];
    double radii[PAIRS], sines[PAIRS], cosines[PAIRS];
    fill_words(key, counter_low, counter_high, radius_words, angle_words);
    fill_radii(radius_words, radii);
    fill_directions(angle_words, sines, cosines);
    for (unsigned i = 0; i < PAIRS; i++) {
        ret_values[2 * i] = (float)(mean + deviation * (radii[i] * cosines[i]));
        ret_values[2 * i + 1] = (float)(mean + deviation * (radii[i] * sines[i]));
    }
}

typedef void (*batch_filler)(struct philox_key key, uint64_t counter_low, uint64_t counter_high,
                             double mean, double deviation, float *ret_values);

static void fill_batch_portable(struct philox_key key, uint64_t counter_low, uint64_t counter_high,
                                double mean, double deviation, float *ret_values)
{
    fill_batch(key, counter_low, counter_high, mean, deviation, ret_values);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void fill_batch_avx2(struct philox_key key,
                                                            uint64_t counter_low,
                                                            uint64_t counter_high, double mean,
                                                            double deviation, float *ret_values)
{
    fill_batch(key, counter_low, counter_high, mean, deviation, ret_values);
}

__attribute__((target("avx512f,avx512dq,avx512vl"))) static void fill_batch_avx512(
    struct philox_key key, uint64_t counter_low, uint64_t counter_high, double mean,
    double deviation, float *ret_values)
{
    fill_batch(key, counter_low, counter_high, mean, deviation, ret_values);
}
#endif

static const batch_filler fillers[] = {
    fill_batch_portable,
#ifdef __x86_64__
    fill_batch_avx2,
    fill_batch_avx512,
#endif
};

unsigned philox_normal_levels(void)
{
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2"))
        return 1;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl")
               ? 3
               : 2;
#endif
    return 1;
}

void philox_fill_normal_part(struct philox_key key, uint64_t counter_high, float mean,
                             float deviation, unsigned level, size_t first, float *ret_values,
                             size_t count)
{
    assert(first % 4 == 0 && level < philox_normal_levels());
    while (count > 0) {
        float batch[VALUES];
        size_t used = MIN(count, (size_t)VALUES);
        fillers[level](key, first / 4, counter_high, (double)mean, (double)deviation,
                       used == VALUES ? ret_values : batch);
        if (used < VALUES)
            memcpy(ret_values, batch, used * sizeof(float));
        ret_values += used;
        first += used;
        count -= used;
    }
}

void philox_fill_normal(struct philox_key key, uint64_t counter_high, float mean, float deviation,
                        float *ret_values, size_t count)
{
    philox_fill_normal_part(key, counter_high, mean, deviation, philox_normal_levels() - 1, 0,
                            ret_values, count);
}
