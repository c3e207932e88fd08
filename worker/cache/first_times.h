/* The first durations of a repeated operation, whose median judges it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FIRST_TIMES 15

struct first_times {
    uint64_t ns[FIRST_TIMES];
    unsigned count;
};

static inline bool first_times_are_known(const struct first_times *times)
{
    return times->count == FIRST_TIMES;
}

static inline void first_times_note(struct first_times *times, uint64_t took_ns)
{
    if (!first_times_are_known(times))
        times->ns[times->count++] = took_ns;
}

/** first_times_median_ms() - return the median in milliseconds; first_times_are_known() must
 * hold */
double first_times_median_ms(const struct first_times *times);
