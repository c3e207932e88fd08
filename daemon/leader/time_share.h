/*
 * Limit the share of its time that a leader spends on decisions. firnd has one thread: leases,
 * heartbeats and HTTP wait while it decides. Decisions for hundreds of jobs on thousands of nodes
 * take seconds, so they are spread: at most a burst in one turn of the loop, and half of the time
 * on average.
 */
#pragma once

#include <stdint.h>

/* All zero: no time was spent. */
struct time_share {
    uint64_t debt_ns; /* time spent and not yet paid for, as of `as_of_ns` */
    uint64_t as_of_ns;
};

/** time_share_spend() - note that a decision that ended at @now_ns took @took_ns */
void time_share_spend(struct time_share *share, uint64_t took_ns, uint64_t now_ns);
/** time_share_free_ns() - return when the next decision may begin; at most @now_ns: at once */
uint64_t time_share_free_ns(const struct time_share *share, uint64_t now_ns);
