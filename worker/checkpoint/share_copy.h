/*
 * The host's copy of the state that a share of a checkpoint is written from, where the state lies
 * in memory of a device.
 *
 * At a boundary the copy queue begins to bring the share's tensors into pinned memory, beside the
 * next step's computations; the optimizer waits for the queue, the writer
 * (checkpoint/write/writer.h) begins when all is there and may take its time. Copies are cut into
 * pieces, so that what the links need gets its turn on the same engine. The memory is as large as
 * the share, taken once a generation.
 */
#pragma once

#include "kernels/kernel.h"

struct share_copy;

/** share_copy_new() - without memory yet; -ENOMEM */
int share_copy_new(const struct kernel *kernel, struct kernel_device *device,
                   struct share_copy **ret_copy) CHECK_RESULT;
void share_copy_free(struct share_copy *copy); /* NULL allowed; waits for copies under way */

/** share_copy_reserve() - room for @size_bytes and @tensor_count beginnings; what is there is lost
 * when it has to grow. -ENOMEM */
int share_copy_reserve(struct share_copy *copy, size_t size_bytes,
                       unsigned tensor_count) CHECK_RESULT;
/** share_copy_fits() - share_copy_reserve() of as much would change nothing */
bool share_copy_fits(const struct share_copy *copy, size_t size_bytes, unsigned tensor_count);

/** share_copy_begin() - forget the last share; what is added next is as the compute queue leaves it
 * now */
void share_copy_begin(struct share_copy *copy);
/** share_copy_add() - where @count elements at @on_device will be; NULL: not reserved */
const float *share_copy_add(struct share_copy *copy, const float *on_device, size_t count);
/** share_copy_end() - all of the share is added */
void share_copy_end(struct share_copy *copy);

/** share_copy_passed(), share_copy_wait() - all of the share is there, and the device's memory may
 * change */
bool share_copy_passed(const struct share_copy *copy);
void share_copy_wait(const struct share_copy *copy);
