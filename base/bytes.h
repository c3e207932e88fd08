/* Growable byte buffer, and bounded little-endian reading. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct bytes {
    uint8_t *data;
    size_t size_bytes;
    size_t capacity_bytes;
};

void bytes_done(struct bytes *bytes);
/**
 * bytes_forget() - free a buffer that holds a password or a token: the memory is cleared first.
 * Memory left by a reallocation of an append is not cleared.
 */
void bytes_forget(struct bytes *bytes);

/** bytes_append() - append @data. Return: 0 or -ENOMEM (buffer unchanged) */
int bytes_append(struct bytes *bytes, const void *data, size_t size_bytes) CHECK_RESULT;
int bytes_append_format(struct bytes *bytes, const char *format, ...)
    __attribute__((format(printf, 2, 3))) CHECK_RESULT;
/** bytes_consume() - drop the first @size_bytes, at most the size of the buffer */
void bytes_consume(struct bytes *bytes, size_t size_bytes);

uint16_t bytes_get_u16(const uint8_t *at);
uint32_t bytes_get_u32(const uint8_t *at);
uint64_t bytes_get_u64(const uint8_t *at);
void bytes_put_u16(uint8_t *at, uint16_t value);
void bytes_put_u32(uint8_t *at, uint32_t value);
void bytes_put_u64(uint8_t *at, uint64_t value);
