/*
 * The host copy of a share of a checkpoint, if the state is in device memory.
 *
 * At a boundary the copy queue begins to copy the share's tensors to pinned memory, beside the next
 * step's computations. The optimizer waits for the queue; the writer (checkpoint/write/writer.h)
 * begins when the copy is complete and has no time limit. Copies are cut into pieces, so that
 * copies for the links get their turn on the same engine. The memory is as large as the share,
 * allocated once per generation.
 */
#pragma once

#include "kernels/kernel.h"

struct share_copy;

/** share_copy_new() - create without pinned memory; -ENOMEM */
int share_copy_new(const struct kernel *kernel, struct kernel_device *device,
                   struct share_copy **ret_copy) CHECK_RESULT;
void share_copy_free(struct share_copy *copy); /* NULL allowed; waits for copies in flight */

/** share_copy_reserve() - make room for @size_bytes and @tensor_count tensors; the content is lost
 * when the memory grows. -ENOMEM */
int share_copy_reserve(struct share_copy *copy, size_t size_bytes,
                       unsigned tensor_count) CHECK_RESULT;
/** share_copy_fits() - true if share_copy_reserve() with these arguments would change nothing */
bool share_copy_fits(const struct share_copy *copy, size_t size_bytes, unsigned tensor_count);

/** share_copy_begin() - drop the last share and begin one; tensors are copied as the compute queue
 * leaves them now */
void share_copy_begin(struct share_copy *copy);
/** share_copy_add() - copy @count elements at @on_device; return their host address; NULL: full */
const float *share_copy_add(struct share_copy *copy, const float *on_device, size_t count);
/** share_copy_end() - end the share: all tensors are added */
void share_copy_end(struct share_copy *copy);

/** share_copy_passed(), share_copy_wait() - poll or wait until the copy is complete and the device
 * memory may change */
bool share_copy_passed(const struct share_copy *copy);
void share_copy_wait(const struct share_copy *copy);
