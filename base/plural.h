/* "1 slot", "2 slots": the letter that makes an English noun several. */
#pragma once

#include <stdint.h>

/** plural() - "s" unless @count is one */
static inline const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}
