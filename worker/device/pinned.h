/*
 * Pinned memory of the host that generations hand on to each other.
 *
 * Problem: the system pins about 3 GiB a second, in the pause between two generations. What a
 * generation needs (sums of units, activations at its ends) has few sizes, which the job decides
 * and not the layout. Design: what is given back waits here for the next one that wants exactly
 * this size. What a whole generation left lying goes back to the system when it ends, so a pool
 * never keeps more than two generations took.
 *
 * What is taken holds whatever lay there before.
 */
#pragma once

#include "kernels/kernel.h"

struct pinned;

/** pinned_new() - empty; @device is borrowed. -ENOMEM */
int pinned_new(const struct kernel *kernel, struct kernel_device *device,
               struct pinned **ret_pool) CHECK_RESULT;
/** pinned_free() - everything has been given back; NULL allowed */
void pinned_free(struct pinned *pool);

/** pinned_kernel(), pinned_device() - what it was made with */
const struct kernel *pinned_kernel(const struct pinned *pool);
struct kernel_device *pinned_device(const struct pinned *pool);

/** pinned_take() - from the pool, else from the system. -ENOMEM */
int pinned_take(struct pinned *pool, size_t size_bytes, void **ret_memory) CHECK_RESULT;
/** pinned_give() - nothing of the device's queues uses it any more; NULL allowed */
void pinned_give(struct pinned *pool, void *memory);

/** pinned_turn() - a generation ends: what it has not used goes back to the system */
void pinned_turn(struct pinned *pool);
