#include "base/hex.h"

#include <assert.h>

static const char digits[] = "0123456789abcdef";

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

void hex_text(uint64_t value, unsigned digit_count, char *ret_text)
{
    assert(digit_count >= 1 && digit_count <= 16);
    for (unsigned i = 0; i < digit_count; i++)
        ret_text[i] = digits[(value >> (4 * (digit_count - 1 - i))) & 15];
    ret_text[digit_count] = '\0';
}

bool hex_parse(const char *text, unsigned digit_count, uint64_t *ret_value)
{
    assert(digit_count >= 1 && digit_count <= 16);
    uint64_t value = 0;
    for (unsigned i = 0; i < digit_count; i++) {
        int digit = digit_value(text[i]); /* the terminating zero is no digit either */
        if (digit < 0)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *ret_value = value;
    return true;
}
