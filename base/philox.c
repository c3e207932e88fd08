#include "base/philox.h"

#include <assert.h>

#include "base/compiler.h"

struct philox_key philox_key_make(uint64_t seed, uint64_t stream)
{
    struct philox_key seed_key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    const uint64_t counter_high = 0x6b6579; /* "key": distinct from all data counters of this
                                               seed */
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
    for (unsigned round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t product0 = (uint64_t)PHILOX_MULTIPLIER_0 * c0;
        uint64_t product1 = (uint64_t)PHILOX_MULTIPLIER_1 * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product0;
        k0 += PHILOX_WEYL_0;
        k1 += PHILOX_WEYL_1;
    }
    ret_words[0] = c0;
    ret_words[1] = c1;
    ret_words[2] = c2;
    ret_words[3] = c3;
}

/* Return half the bits of the smallest even power of two that holds @count values; at least 1. */
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
    const uint64_t tag = 0x7065726d00; /* "perm": distinct from all other counters of this key */
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
