/*
 * How long a slot stays out of service whose workers died again and again, and how it comes back.
 *
 * What killed them may have been the slot, or something that has passed: nobody can tell without
 * another try. A job that waits for slots at night must not wait for a person, so the slot is
 * offered again by itself after SLOT_BACKOFF_TIMEOUTS_MIN failure time-outs (5 minutes of 1.5 s).
 * It is on probation then: one death soon after a start puts it out again, for twice as long each
 * time, up to SLOT_BACKOFF_TIMEOUTS_MAX (4 hours). When it has been in service for
 * SLOT_BACKOFF_TIMEOUTS_GOOD (an hour), all is forgotten.
 *
 * Pure: the caller has the clock. To lose this, as when firnd is started anew, is to trust the
 * slot.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SLOT_BACKOFF_TIMEOUTS_MIN  200
#define SLOT_BACKOFF_TIMEOUTS_MAX  9600
#define SLOT_BACKOFF_TIMEOUTS_GOOD 2400

/* Of one slot; all zero: nothing speaks against it. */
struct slot_backoff {
    uint64_t pause_ns; /* the last one; 0: there was none, or it is forgotten */
    uint64_t until_ns; /* out of service: tried again then. On probation: forgotten then */
    bool is_out;
};

/** slot_backoff_take_out() - its workers have died: out of service. Return: until when */
uint64_t slot_backoff_take_out(struct slot_backoff *probation, uint64_t now_ns,
                               uint64_t failure_timeout_ns);

/** slot_backoff_try() - true when its pause is over: in service from now on, on probation */
bool slot_backoff_try(struct slot_backoff *probation, uint64_t now_ns, uint64_t failure_timeout_ns);

/** slot_backoff_watches() - in service on probation: one death is enough */
bool slot_backoff_watches(const struct slot_backoff *probation, uint64_t now_ns);
