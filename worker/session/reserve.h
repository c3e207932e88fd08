/*
 * Memory for a generation, taken while the worker is prepared for it.
 *
 * Problem: pages that the process has never touched arrive at a few hundred megabytes a second on
 * some machines, and a GPU stands still while it allocates. A worker that took its memory after the
 * switch stopped the training of all others for seconds. Design: on PREPARE a fresh worker, which
 * has nothing else to do, takes what worker/step/memory.h counts for its rank. The switch then
 * finds it.
 *
 * The time it takes grows with the size of the state, as the time that the leader allows does
 * (elastic/planner/start_time.h). A reservation is a convenience: where it fails nothing is kept,
 * and the generation itself says what is missing.
 */
#pragma once

#include "worker/session/trainer.h"

/** reserve_memory() - for this worker's rank in @plan, if it computes there and holds no state;
 * what was reserved for an earlier plan and is not in this one is let go */
void reserve_memory(struct trainer *trainer, const struct plan *plan);
