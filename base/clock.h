/* Time as a table of functions, so that a simulator can be the clock. */
#pragma once

#include <stdint.h>

#define NS_PER_SECOND 1000000000ull
#define NS_PER_MS     1000000ull
#define NS_PER_US     1000ull

struct clock {
    uint64_t (*monotonic_ns)(void *context); /* decisions and deadlines use only this */
    uint64_t (*realtime_ns)(void *context);  /* for users: log lines, metrics */
    void *context;
};

/** clock_real() - return the clock of CLOCK_MONOTONIC and CLOCK_REALTIME */
const struct clock *clock_real(void);

/** clock_monotonic_ns() - return the monotonic time of the real clock */
uint64_t clock_monotonic_ns(void);
/** clock_unix_ns() - return the time of day of the real clock, for texts that people read */
uint64_t clock_unix_ns(void);
