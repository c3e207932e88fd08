/*
 * Bound the time from the publication of a plan until its workers run. A worker first gets its
 * state from the seed, a checkpoint or its peers, in time proportional to the bytes. Then it opens
 * its links. The leader gives a generation up after this time without progress. Workers that read
 * their state report progress (worker/session/start_watch.h), so the leader waits for a disk of any
 * speed. If state comes from memory, workers wait for each other for the same time.
 */
#pragma once

#include <stdint.h>

#include "elastic/job/job_model.h"
#include "elastic/plan/plan_layout.h"

/* Lowest rate at which a worker that does not hang gets its state. Random numbers on one core of a
 * loaded machine are three times as fast, and so is a network file system. */
#define START_BYTES_PER_SECOND ((uint64_t)16 << 20)

/**
 * start_time_ns() - return the longest time from the publication of @layout until its workers are
 * linked
 */
uint64_t start_time_ns(const struct plan_layout *layout, const struct job_model *model,
                       uint64_t failure_timeout_ns);
