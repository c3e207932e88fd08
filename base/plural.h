/* Plurals of English nouns in messages: "1 slot", "2 slots". */
#pragma once

#include <stdint.h>

/** plural() - return "s" unless @count is one */
static inline const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}
