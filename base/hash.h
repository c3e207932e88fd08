/* Checksums and digests: CRC32C (ISA-L), XXH3-128 (xxHash), and their hexadecimal texts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct hash128 {
    uint64_t high, low;
};

#define HASH128_TEXT_SIZE 33 /* 32 hexadecimal digits, high word first, and the zero */

/**
 * hash_crc32c() - compute the Castagnoli CRC in the standard reflected form; @crc is 0 or the value
 * so far
 */
uint32_t hash_crc32c(uint32_t crc, const void *data, size_t size_bytes);
/** hash_crc32c_join() - return the CRC of A followed by B, from their CRCs and the size of B */
uint32_t hash_crc32c_join(uint32_t crc_a, uint32_t crc_b, uint64_t size_b_bytes);

struct hash128 hash_xxh3(const void *data, size_t size_bytes);

struct hash_stream;                        /* an XXH3-128 in progress */
struct hash_stream *hash_stream_new(void); /* NULL when out of memory */
void hash_stream_free(struct hash_stream *stream);
void hash_stream_reset(struct hash_stream *stream); /* back to the initial state */
void hash_stream_add(struct hash_stream *stream, const void *data, size_t size_bytes);
struct hash128 hash_stream_result(const struct hash_stream *stream);

void hash128_text(struct hash128 hash, char ret_text[HASH128_TEXT_SIZE]);
bool hash128_parse(const char *text, struct hash128 *ret_hash);
bool hash128_equal(struct hash128 a, struct hash128 b);
