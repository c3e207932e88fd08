#include "base/size_words.h"

#include <stdio.h>

#include "base/compiler.h"

const char *size_words(uint64_t size_bytes, char text[SIZE_WORDS_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)size_bytes;
    unsigned unit = 0;

    while (value >= (unit ? 1023.95 : 1024) && unit + 1 < ARRAY_COUNT(units)) {
        value /= 1024;
        unit++;
    }
    snprintf(text, SIZE_WORDS_SIZE, "%.*f %s", unit ? 1 : 0, value, units[unit]);
    return text;
}
