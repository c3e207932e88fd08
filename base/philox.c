/*
 * Everything here must give the same bits on every machine. Integers do; for the normal deviates
 * the trap is libm, which picks FMA variants by processor and may differ in the last place between
 * releases. So logarithm (base/logarithm.h), sine and cosine are small series of our own, made of
 * additions, multiplications, divisions and square roots, which IEEE 754 rounds in exactly one way
 * (the build forbids contraction into FMA).
 */
#include "base/philox.h"

#include <assert.h>
#include <math.h>

#include "base/compiler.h"
#include "base/logarithm.h"

#define ROUND_COUNT 10

struct philox_key philox_key_make(uint64_t seed, uint64_t stream)
{
    struct philox_key seed_key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    const uint64_t counter_high = 0x6b6579; /* "key": apart from all data counters of this seed */
    uint32_t words[4];
    philox_block(seed_key, stream, counter_high, words);
    return (struct philox_key){{words[0], words[1]}};
}

void philox_block(struct philox_key key, uint64_t counter_low, uint64_t counter_high,
                  uint32_t ret_words[4])
{
    uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
    uint32_t k0 = key.word[0], k1 = key.word[1];
    for (unsigned round = 0; round < ROUND_COUNT; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53 * c0;
        uint64_t product1 = (uint64_t)0xCD9E8D57 * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product0;
        k0 += 0x9E3779B9; /* the golden ratio and sqrt(3) - 1: Weyl sequences of round keys */
        k1 += 0xBB67AE85;
    }
    ret_words[0] = c0;
    ret_words[1] = c1;
    ret_words[2] = c2;
    ret_words[3] = c3;
}

/* Sine and cosine of 2 pi turn / 2^32: the quadrant is exact, and inside it |x| <= pi / 4. */
static void turn_series(uint32_t turn, double *ret_sine, double *ret_cosine)
{
    unsigned quadrant = (unsigned)(((uint64_t)turn + (1u << 29)) >> 30);
    int64_t rest = (int64_t)turn - ((int64_t)quadrant << 30);
    double x = (double)rest * (M_PI_2 / (1u << 30)), x2 = x * x;
    double sine = 1, cosine = 1;
    for (int k = 8; k >= 1; k--) {
        sine = 1 - sine * x2 / (2 * k * (2 * k + 1));
        cosine = 1 - cosine * x2 / (2 * k * (2 * k - 1));
    }
    sine *= x;
    switch (quadrant & 3) {
    case 0:
        *ret_sine = sine, *ret_cosine = cosine;
        break;
    case 1:
        *ret_sine = cosine, *ret_cosine = -sine;
        break;
    case 2:
        *ret_sine = -sine, *ret_cosine = -cosine;
        break;
    default:
        *ret_sine = -cosine, *ret_cosine = sine;
        break;
    }
}

/* Box and Muller: two words make two independent standard normals. */
static void normal_pair(uint32_t radius_word, uint32_t angle_word, double ret_pair[2])
{
    double uniform = (radius_word + 0.5) * 0x1p-32; /* inside (0, 1), never at its ends */
    double radius = sqrt(-2 * logarithm(uniform));
    double sine, cosine;
    turn_series(angle_word, &sine, &cosine);
    ret_pair[0] = radius * cosine;
    ret_pair[1] = radius * sine;
}

void philox_fill_normal(struct philox_key key, uint64_t counter_high, float mean, float deviation,
                        float *ret_values, size_t count)
{
    for (size_t i = 0; i < count; i += 4) {
        uint32_t words[4];
        double normals[4];
        philox_block(key, i / 4, counter_high, words);
        normal_pair(words[0], words[1], normals);
        normal_pair(words[2], words[3], normals + 2);
        size_t used = MIN(count - i, (size_t)4);
        for (size_t j = 0; j < used; j++)
            ret_values[i + j] = (float)((double)mean + (double)deviation * normals[j]);
    }
}

/* Half the width of the smallest even power of two that holds @count values; at least one bit. */
static unsigned feistel_half_bits(uint64_t count)
{
    unsigned half_bits = 1;
    while (half_bits < 32 && (count - 1) >> (2 * half_bits) != 0)
        half_bits++;
    return half_bits;
}

static uint64_t feistel(struct philox_key key, uint64_t value, unsigned half_bits)
{
    const unsigned rounds = 8;
    const uint64_t tag = 0x7065726d00; /* "perm": apart from all other counters of this key */
    uint32_t mask = (uint32_t)(((uint64_t)1 << half_bits) - 1);
    uint32_t left = (uint32_t)(value >> half_bits), right = (uint32_t)value & mask;
    for (unsigned round = 0; round < rounds; round++) {
        uint32_t words[4];
        philox_block(key, right, tag | round, words);
        uint32_t next = left ^ (words[0] & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << half_bits | right;
}

uint64_t philox_permute(struct philox_key key, uint64_t index, uint64_t count)
{
    assert(index < count);
    unsigned half_bits = feistel_half_bits(count);
    uint64_t image = index;
    do
        image = feistel(key, image, half_bits); /* at most four times on average */
    while (image >= count);
    return image;
}
