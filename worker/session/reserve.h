/*
 * Memory for a generation, allocated while the worker is prepared for it.
 *
 * Problem: fresh pages arrive at a few hundred megabytes per second on some machines, and a GPU
 * stands still while it allocates. A worker that allocated after the switch stopped the training of
 * all others for seconds. Design: on PREPARE a fresh worker, which is idle, allocates the memory
 * that worker/step/memory.h counts for its rank. The switch then finds it ready.
 *
 * The time for this grows with the size of the state, as does the time that the leader allows
 * (elastic/planner/start_time.h). A reservation is optional: if it fails it is dropped, and the
 * generation itself reports the lack of memory.
 */
#pragma once

#include "worker/session/trainer.h"

/** reserve_memory() - reserve for this worker's rank in @plan, if it computes there and holds no
 * state; reservations for an earlier plan that @plan does not need are freed */
void reserve_memory(struct trainer *trainer, const struct plan *plan);
