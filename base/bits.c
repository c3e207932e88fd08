#include "base/bits.h"

#include <string.h>

#include "base/hex.h"

void bits64_text(double value, char ret_text[BITS64_TEXT_SIZE])
{
    uint64_t word;
    memcpy(&word, &value, sizeof(word));
    hex_text(word, BITS64_TEXT_SIZE - 1, ret_text);
}

bool bits64_parse(const char *text, double *ret_value)
{
    uint64_t word;
    if (!hex_parse(text, BITS64_TEXT_SIZE - 1, &word) || text[BITS64_TEXT_SIZE - 1] != '\0')
        return false;
    memcpy(ret_value, &word, sizeof(word));
    return true;
}
