/*
 * How long a generation may take from its plan until its workers run. A worker first gets its
 * state, from the seed, a checkpoint or its peers, which takes as long as there are bytes; then
 * links are opened. Whoever needs longer than that hangs. One answer for the leader, which gives a
 * generation up after it, and for workers, which wait so long for each other.
 */
#pragma once

#include "elastic/job/job_spec.h"
#include "elastic/plan/plan.h"

/* Bytes of state a second that no worker falls below unless it hangs: a loaded machine making
 * random numbers on one core reaches three times as many, and so does a network file system. */
#define START_BYTES_PER_SECOND ((uint64_t)16 << 20)

/** start_time_ns() - from the publication of @plan to its workers being linked, at most */
uint64_t start_time_ns(const struct plan *plan, const struct job_spec *spec,
                       uint64_t failure_timeout_ns);
