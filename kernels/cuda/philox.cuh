/* Philox4x32-10 on the device: the words of base/philox.h's philox_block(), and stochastic rounding
 * with them. */
#pragma once

#include "kernels/cuda/platform.cuh"

struct philox_words {
    uint32_t word[2];
};

struct philox_words_4 {
    uint32_t word[4];
};

__host__ __device__ inline philox_words_4 philox_device(philox_words key, uint64_t counter_low,
                                                        uint64_t counter_high)
{
    uint32_t c0 = (uint32_t)counter_low, c1 = (uint32_t)(counter_low >> 32);
    uint32_t c2 = (uint32_t)counter_high, c3 = (uint32_t)(counter_high >> 32);
    uint32_t k0 = key.word[0], k1 = key.word[1];
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53 * c0, product1 = (uint64_t)0xCD9E8D57 * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return {{c0, c1, c2, c3}};
}

/* Round up with the probability of the part cut off; keep infinities and NaN. */
__host__ __device__ inline bfloat round_stochastically(float x, uint32_t random)
{
    uint32_t bits = bits_as<uint32_t>(x);
    if ((bits & 0x7f800000) == 0x7f800000)
        return to_bfloat(x);
    return {(uint16_t)((bits + (random & 0xffff)) >> 16)};
}
