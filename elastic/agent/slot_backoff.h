/*
 * Decide how long a slot stays out of service after repeated deaths of its workers, and how it
 * comes back.
 *
 * The cause of the deaths may be the slot, or a fault that has passed: only another try can tell. A
 * job that waits for slots at night must not wait for a person, so the slot is offered again
 * without one after TIMEOUTS_SLOT_BACKOFF_MIN failure timeouts (5 minutes at 1.5 s). The slot is
 * then on probation: one death soon after a start takes it out again, each time for twice as long,
 * up to TIMEOUTS_SLOT_BACKOFF_MAX (4 hours). After TIMEOUTS_SLOT_BACKOFF_GOOD in service (an hour)
 * the deaths are forgotten.
 *
 * Pure: the caller has the clock. A restarted firnd loses this state, and so trusts the slot.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The back-off of one slot; all zero: no deaths are remembered. */
struct slot_backoff {
    uint64_t pause_ns; /* the last pause; 0: none, or forgotten */
    uint64_t until_ns; /* out of service: end of the pause. On probation: end of the probation */
    bool is_out;
};

/** slot_backoff_take_out() - take the slot out of service after its workers died. Return: the end
 * of the pause */
uint64_t slot_backoff_take_out(struct slot_backoff *backoff, uint64_t now_ns,
                               uint64_t failure_timeout_ns);

/** slot_backoff_try() - put the slot in service on probation if its pause is over. Return: whether
 * it was put in service by this call */
bool slot_backoff_try(struct slot_backoff *backoff, uint64_t now_ns, uint64_t failure_timeout_ns);

/** slot_backoff_watches() - return whether the slot is in service on probation, so that one death
 * is enough */
bool slot_backoff_watches(const struct slot_backoff *backoff, uint64_t now_ns);
