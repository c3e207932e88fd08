#include "base/hash.h"

#include <isa-l/crc.h>
#include <stdlib.h>
/* The plain functions of a distribution's library use SSE2. The dispatched functions use the
 * processor's best instructions and are five times as fast, with the same result. */
#ifdef __x86_64__
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "base/hex.h"

#define CRC_PIECE_BYTES ((size_t)1 << 30) /* ISA-L counts in int */

uint32_t hash_crc32c(uint32_t crc, const void *data, size_t size_bytes)
{
    /* ISA-L gives and takes the bare shift register; the standard inverts it before and after. */
    uint32_t state = ~crc;
    const uint8_t *at = data;
    while (size_bytes > 0) {
        size_t piece = MIN(size_bytes, CRC_PIECE_BYTES);
        state = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)piece, state);
        at += piece;
        size_bytes -= piece;
    }
    return ~state;
}

/*
 * A CRC is a polynomial over GF(2), reflected: the highest bit is x^0. Appending B to A multiplies
 * A's CRC by x^(8 * size of B), modulo the CRC's polynomial. The inversions at both ends cancel.
 */
#define CRC_POLYNOMIAL 0x82F63B78u
#define CRC_ONE        (1u << 31)
#define CRC_X8         (1u << 23)

static uint32_t crc_multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a != 0; a <<= 1) {
        if (a & CRC_ONE)
            product ^= b;
        b = b & 1 ? b >> 1 ^ CRC_POLYNOMIAL : b >> 1;
    }
    return product;
}

uint32_t hash_crc32c_join(uint32_t crc_a, uint32_t crc_b, uint64_t size_b_bytes)
{
    uint32_t shift = CRC_ONE, power = CRC_X8;
    for (; size_b_bytes != 0; size_b_bytes >>= 1) {
        if (size_b_bytes & 1)
            shift = crc_multiply(shift, power);
        power = crc_multiply(power, power);
    }
    return crc_multiply(shift, crc_a) ^ crc_b;
}

static struct hash128 from_xxhash(XXH128_hash_t hash)
{
    return (struct hash128){hash.high64, hash.low64};
}

struct hash128 hash_xxh3(const void *data, size_t size_bytes)
{
    return from_xxhash(XXH3_128bits(data, size_bytes));
}

struct hash_stream {
    XXH3_state_t *state; /* separate, because it needs a larger alignment than malloc's */
};

struct hash_stream *hash_stream_new(void)
{
    struct hash_stream *stream = malloc(sizeof(*stream));
    if (!stream)
        return NULL;
    stream->state = XXH3_createState();
    if (!stream->state) {
        free(stream);
        return NULL;
    }
    XXH3_128bits_reset(stream->state);
    return stream;
}

void hash_stream_free(struct hash_stream *stream)
{
    if (!stream)
        return;
    XXH3_freeState(stream->state);
    free(stream);
}

void hash_stream_reset(struct hash_stream *stream)
{
    XXH3_128bits_reset(stream->state);
}

void hash_stream_add(struct hash_stream *stream, const void *data, size_t size_bytes)
{
    if (size_bytes > 0)
        XXH3_128bits_update(stream->state, data, size_bytes);
}

struct hash128 hash_stream_result(const struct hash_stream *stream)
{
    return from_xxhash(XXH3_128bits_digest(stream->state));
}

void hash128_text(struct hash128 hash, char ret_text[HASH128_TEXT_SIZE])
{
    hex_text(hash.high, 16, ret_text);
    hex_text(hash.low, 16, ret_text + 16);
}

bool hash128_parse(const char *text, struct hash128 *ret_hash)
{
    struct hash128 hash;
    if (!hex_parse(text, 16, &hash.high) || !hex_parse(text + 16, 16, &hash.low))
        return false;
    if (text[HASH128_TEXT_SIZE - 1] != '\0')
        return false;
    *ret_hash = hash;
    return true;
}

bool hash128_equal(struct hash128 a, struct hash128 b)
{
    return a.high == b.high && a.low == b.low;
}
