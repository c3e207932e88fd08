#include "elastic/plan/plan_links.h"

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool plan_key_bytes(const char *key, uint8_t ret_key[PLAN_KEY_SIZE])
{
    for (unsigned i = 0; i < PLAN_KEY_SIZE; i++) {
        int high = hex_digit(key[2 * i]), low = high < 0 ? -1 : hex_digit(key[2 * i + 1]);
        if (low < 0)
            return false;
        ret_key[i] = (uint8_t)(high << 4 | low);
    }
    return key[2 * PLAN_KEY_SIZE] == '\0';
}
