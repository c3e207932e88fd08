#include "base/bytes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

#define CAPACITY_MIN_BYTES 256

void bytes_done(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}

void bytes_forget(struct bytes *bytes)
{
    if (bytes->data)
        explicit_bzero(bytes->data, bytes->capacity_bytes);
    bytes_done(bytes);
}

/* Reserve room for @size_bytes more; doubling keeps a long series of appends linear. */
static int reserve(struct bytes *bytes, size_t size_bytes)
{
    size_t needed, doubled;
    if (checked_add(bytes->size_bytes, size_bytes, &needed))
        return -ENOMEM;
    if (needed <= bytes->capacity_bytes)
        return 0;
    if (checked_multiply(bytes->capacity_bytes, 2, &doubled))
        doubled = needed;
    size_t capacity = MAX(MAX(needed, doubled), (size_t)CAPACITY_MIN_BYTES);
    uint8_t *data = realloc(bytes->data, capacity);
    if (!data)
        return -ENOMEM;
    bytes->data = data;
    bytes->capacity_bytes = capacity;
    return 0;
}

int bytes_append(struct bytes *bytes, const void *data, size_t size_bytes)
{
    if (size_bytes == 0)
        return 0;
    int status = reserve(bytes, size_bytes);
    if (status < 0)
        return status;
    memcpy(bytes->data + bytes->size_bytes, data, size_bytes);
    bytes->size_bytes += size_bytes;
    return 0;
}

int bytes_append_format(struct bytes *bytes, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    /* vsnprintf needs room for a zero, which is not counted. */
    int status = length < 0 ? -ENOMEM : reserve(bytes, (size_t)length + 1);
    if (status == 0) {
        vsnprintf((char *)bytes->data + bytes->size_bytes, (size_t)length + 1, format, again);
        bytes->size_bytes += (size_t)length;
    }
    va_end(again);
    return status;
}

void bytes_consume(struct bytes *bytes, size_t size_bytes)
{
    size_t dropped = MIN(size_bytes, bytes->size_bytes);
    bytes->size_bytes -= dropped;
    if (dropped > 0 && bytes->size_bytes > 0)
        memmove(bytes->data, bytes->data + dropped, bytes->size_bytes);
}

/* Byte by byte is correct on every byte order, and compilers emit one load or store for it. */

uint16_t bytes_get_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

uint32_t bytes_get_u32(const uint8_t *at)
{
    return (uint32_t)bytes_get_u16(at) | (uint32_t)bytes_get_u16(at + 2) << 16;
}

uint64_t bytes_get_u64(const uint8_t *at)
{
    return (uint64_t)bytes_get_u32(at) | (uint64_t)bytes_get_u32(at + 4) << 32;
}

void bytes_put_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

void bytes_put_u32(uint8_t *at, uint32_t value)
{
    bytes_put_u16(at, (uint16_t)value);
    bytes_put_u16(at + 2, (uint16_t)(value >> 16));
}

void bytes_put_u64(uint8_t *at, uint64_t value)
{
    bytes_put_u32(at, (uint32_t)value);
    bytes_put_u32(at + 4, (uint32_t)(value >> 32));
}
