/* The real clock, read from the kernel. */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static uint64_t read_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now); /* cannot fail: both clocks exist on every Linux */
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t real_monotonic_ns(void *context)
{
    (void)context;
    return read_ns(CLOCK_MONOTONIC);
}

static uint64_t real_realtime_ns(void *context)
{
    (void)context;
    return read_ns(CLOCK_REALTIME);
}

const struct clock *clock_real(void)
{
    static const struct clock clock = {real_monotonic_ns, real_realtime_ns, NULL};
    return &clock;
}

uint64_t clock_monotonic_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_unix_ns(void)
{
    return read_ns(CLOCK_REALTIME);
}
