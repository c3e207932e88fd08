/*
 * An optional moment of the monotonic clock, without a special value that means never.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* All zero: not set. */
struct instant {
    bool is_set;
    uint64_t ns; /* 0 unless set */
};

static inline struct instant instant_at(uint64_t now_ns)
{
    return (struct instant){.is_set = true, .ns = now_ns};
}

static inline void instant_clear(struct instant *instant)
{
    *instant = (struct instant){0};
}

/** instant_note() - set @instant to now, unless it is set: the first time counts */
static inline void instant_note(struct instant *instant, uint64_t now_ns)
{
    if (!instant->is_set)
        *instant = instant_at(now_ns);
}
