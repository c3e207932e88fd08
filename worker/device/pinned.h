/*
 * A pool of pinned host memory that generations pass on to each other.
 *
 * Problem: the system pins about 3 GiB a second, in the pause between two generations. The buffers
 * of a generation (sums of units, activations at its ends) have few sizes, which depend on the job
 * and not on the layout. Design: a returned buffer stays in the pool for the next request of
 * exactly its size. Buffers unused for a whole generation go back to the system at its end, so a
 * pool never keeps more than two generations have taken.
 *
 * A buffer from pinned_take() is not zeroed.
 */
#pragma once

#include "kernels/kernel.h"

struct pinned;

/** pinned_new() - create an empty pool; @device is borrowed. -ENOMEM */
int pinned_new(const struct kernel *kernel, struct kernel_device *device,
               struct pinned **ret_pool) CHECK_RESULT;
/** pinned_free() - free the pool, to which all buffers have been returned; NULL allowed */
void pinned_free(struct pinned *pool);

/** pinned_kernel(), pinned_device() - return the arguments of pinned_new() */
const struct kernel *pinned_kernel(const struct pinned *pool);
struct kernel_device *pinned_device(const struct pinned *pool);

/** pinned_take() - take a buffer from the pool, else from the system. -ENOMEM */
int pinned_take(struct pinned *pool, size_t size_bytes, void **ret_memory) CHECK_RESULT;
/** pinned_give() - return a buffer that no queue of the device uses any more; NULL allowed */
void pinned_give(struct pinned *pool, void *memory);

/** pinned_turn() - end a generation: give buffers that it has not used back to the system */
void pinned_turn(struct pinned *pool);
