/*
 * Compute the pause before a retry: longer each time, and different on every node.
 *
 * A thousand nodes lose their store at the same moment. If all retried after the same pause, the
 * retries would arrive as one wave, each too late for the deadlines of the wave before, and a slow
 * store would never answer any node in time. So a pause is drawn from the upper half of a span that
 * doubles, by a generator that the node's name seeds: a simulation that repeats a seed repeats the
 * pauses too.
 */
#pragma once

#include <stdint.h>

struct backoff {
    uint64_t min_ns, max_ns;
    uint64_t span_ns; /* the next pause is at most this */
    uint64_t random;  /* state of the generator */
};

/** backoff_init() - the first pause is from (@min_ns / 2, @min_ns], later ones at most @max_ns;
 * @identity: unique to this backoff, seeds its generator */
void backoff_init(struct backoff *backoff, uint64_t min_ns, uint64_t max_ns, const char *identity);
/** backoff_next() - return the pause before the next retry */
uint64_t backoff_next(struct backoff *backoff);
/** backoff_reset() - begin with short pauses again, after a success */
void backoff_reset(struct backoff *backoff);
/** backoff_spread() - return a random delay from 0 to @span_ns, for actions that all nodes would
 * take at once */
uint64_t backoff_spread(struct backoff *backoff, uint64_t span_ns);
