#include "membership/base64.h"

#include <errno.h>

#include "base/checked.h"

static const char alphabet[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_append(struct bytes *text, const void *data, size_t size_bytes)
{
    const uint8_t *at = data;
    size_t before = text->size_bytes;
    for (size_t i = 0; i < size_bytes; i += 3) {
        size_t left = size_bytes - i;
        uint32_t group = (uint32_t)at[i] << 16 | (uint32_t)(left > 1 ? at[i + 1] : 0) << 8 |
                         (uint32_t)(left > 2 ? at[i + 2] : 0);
        char quad[4] = {alphabet[group >> 18], alphabet[group >> 12 & 63],
                        left > 1 ? alphabet[group >> 6 & 63] : '=',
                        left > 2 ? alphabet[group & 63] : '='};
        int r = bytes_append(text, quad, sizeof(quad));
        if (r < 0) {
            text->size_bytes = before;
            return r;
        }
    }
    return 0;
}

size_t base64_decoded_bytes(size_t length)
{
    return length / 4 * 3;
}

/* 0 to 63, or -1 for a byte outside the alphabet. */
static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* One group of four: 1 to 3 bytes out, 0 when it is malformed. */
static size_t decode_quad(const char quad[4], bool last, uint8_t ret_bytes[3])
{
    size_t padding = quad[3] != '=' ? 0 : quad[2] != '=' ? 1 : 2;
    if (padding > 0 && !last)
        return 0;
    uint32_t group = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i < 4 - padding ? digit(quad[i]) : 0;
        if (value < 0)
            return 0;
        group = group << 6 | (uint32_t)value;
    }
    if (group & ((1u << 8 * padding) - 1)) /* two texts must not mean the same bytes */
        return 0;
    ret_bytes[0] = (uint8_t)(group >> 16);
    if (padding < 2)
        ret_bytes[1] = (uint8_t)(group >> 8);
    if (padding < 1)
        ret_bytes[2] = (uint8_t)group;
    return 3 - padding;
}

bool base64_decode(const char *text, size_t length, void *ret_data, size_t *ret_size_bytes)
{
    if (length % 4 != 0)
        return false;
    uint8_t *out = ret_data;
    size_t size_bytes = 0;
    for (size_t i = 0; i < length; i += 4) {
        size_t decoded = decode_quad(text + i, i + 4 == length, out + size_bytes);
        if (decoded == 0)
            return false;
        size_bytes += decoded;
    }
    *ret_size_bytes = size_bytes;
    return true;
}
