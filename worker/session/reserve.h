/*
 * Memory for the next generation, taken before the switch.
 *
 * Problem: fresh pages arrive at a few hundred megabytes per second on some machines, and a GPU
 * idles while it allocates. A worker that allocated after the switch stopped the training of all
 * others for seconds.
 *
 * Design: the memory that worker/step/memory.h counts for a rank is taken while nobody waits for
 * it. A fresh worker is idle, and takes it on PREPARE. A worker that trains takes it on a separate
 * thread as soon as it has the plan, and announces the plan only then, so that the switch waits and
 * the training does not. This applies to host memory alone: a device may not have room for both
 * generations. A worker has the memory of both at every switch, and now a little earlier.
 *
 * The time for this grows with the size of the state, as does the time that the leader allows
 * (elastic/planner/start_time.h). A reservation is optional: if it fails it is dropped, and the
 * generation itself reports the lack of memory.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "elastic/plan/plan.h"

struct trainer;

/* The memory that a training worker takes for the next generation; all zero: none. */
struct reserve {
    uint64_t generation; /* 0: none */
    bool *units;         /* owned, per unit of the model: taken, and trained or not */
    bool *trained;
    size_t arena_bytes, size_bytes; /* of the arena then; of all memory taken */
    pthread_t thread;
    bool running;         /* the thread is not joined yet */
    bool cancelled, done; /* atomic */
};

/** reserve_memory() - on PREPARE, reserve for this worker's rank in @plan, if it computes there and
 * holds no state; reservations for an earlier plan that @plan does not need are freed */
void reserve_memory(struct trainer *trainer, const struct plan *plan);

/** reserve_is_ready() - on the main thread, between two micro-batches or steps: return whether this
 * rank's memory for @plan, the next one, is taken; the first call begins to take it */
bool reserve_is_ready(struct trainer *trainer, const struct plan *plan);

/** reserve_end() - stop the thread and wait for it; the memory it has taken stays reserved. Call it
 * before the units or the arena change */
void reserve_end(struct trainer *trainer);

/** reserve_let_go() - free the reserved units that @rank of @layout does not keep */
void reserve_let_go(struct trainer *trainer, const struct plan_layout *layout, unsigned rank);
