/*
 * Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3" (SC 2011). A value depends only on key and counter, so any worker can make any part of
 * any stream. Initialization and shuffling are therefore equal on every layout.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PHILOX_ROUNDS       10
#define PHILOX_MULTIPLIER_0 0xD2511F53u
#define PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define PHILOX_WEYL_0       0x9E3779B9u /* the golden ratio, */
#define PHILOX_WEYL_1       0xBB67AE85u /* sqrt(3) - 1: Weyl sequences of round keys */

struct philox_key {
    uint32_t word[2];
};

/** philox_key_make() - make the key of a (seed, stream) pair; streams are small named constants */
struct philox_key philox_key_make(uint64_t seed, uint64_t stream);

/** philox_block() - make four independent 32-bit words for one 128-bit counter */
void philox_block(struct philox_key key, uint64_t counter_low, uint64_t counter_high,
                  uint32_t ret_words[4]);

/**
 * philox_fill_normal() - fill with f32 normal(mean, deviation); value i uses counter (i / 4, high)
 */
void philox_fill_normal(struct philox_key key, uint64_t counter_high, float mean, float deviation,
                        float *ret_values, size_t count);

/**
 * philox_fill_normal_part() - fill values [@first, @first + @count) of philox_fill_normal(), so
 * that threads can share the work
 * @first: a multiple of 4
 * @level: vector level, 0 (portable) to philox_normal_levels() - 1; the same bits at each level
 */
void philox_fill_normal_part(struct philox_key key, uint64_t counter_high, float mean,
                             float deviation, unsigned level, size_t first, float *ret_values,
                             size_t count);
/**
 * philox_normal_levels() - return the number of levels of this processor; the last one is the
 * fastest
 */
unsigned philox_normal_levels(void);

/**
 * philox_permute() - return the image of @index under a keyed permutation of [0, count)
 *
 * A Feistel network over the next even power of two is repeated until the image is inside the range
 * (cycle walking), so the order of an epoch needs no memory. count >= 1, index < count.
 */
uint64_t philox_permute(struct philox_key key, uint64_t index, uint64_t count);
