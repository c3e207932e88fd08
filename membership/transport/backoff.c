#include "membership/transport/backoff.h"

#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) */
static uint64_t draw(struct backoff *backoff)
{
    uint64_t z = backoff->random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

void backoff_init(struct backoff *backoff, uint64_t min_ns, uint64_t max_ns, const char *identity)
{
    *backoff = (struct backoff){.min_ns = min_ns,
                                .max_ns = max_ns,
                                .span_ns = min_ns,
                                .random = hash_xxh3(identity, strlen(identity)).low};
}

uint64_t backoff_spread(struct backoff *backoff, uint64_t span_ns)
{
    return span_ns == UINT64_MAX ? draw(backoff) : draw(backoff) % (span_ns + 1);
}

uint64_t backoff_next(struct backoff *backoff)
{
    uint64_t half_ns = backoff->span_ns / 2;
    uint64_t pause_ns = backoff->span_ns - backoff_spread(backoff, half_ns);
    backoff->span_ns =
        MIN(backoff->span_ns + MIN(backoff->span_ns, backoff->max_ns), backoff->max_ns);
    return pause_ns;
}

void backoff_reset(struct backoff *backoff)
{
    backoff->span_ns = backoff->min_ns;
}
