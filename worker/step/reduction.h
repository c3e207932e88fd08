/*
 * The all-reduce of one stage across its replicas (comm/reduce/reduce.h), one unit at a time: begun
 * as soon as backward has passed the unit, finished at the end of the step.
 *
 * Gradients are on the device, and the sums are made there if the carrier can move device memory.
 * Otherwise each unit has host copies of its subtrees, the sums are made on the copies, and the
 * complete sum is copied back. Both round additions of f32 the same way, so the bits are the same.
 * With one replica the gradients stay on the device.
 */
#pragma once

#include "worker/step/engine.h"

struct reduction;

/** reduction_new() - create the reduction for the trained units of the engine's stage; the engine
 * has its gradients and send queue. -ENOMEM */
int reduction_new(struct engine *engine, struct reduction **ret_reduction) CHECK_RESULT;
/** reduction_on_device() - true if the sums of @engine, which has its routes, are made on the
 * device */
bool reduction_on_device(const struct engine *engine);
/** reduction_room_bytes() - return the arena bytes that reduction_new() takes for @rank if sums are
 * made on the device: room for the other replicas' sums, for each unit from @trained_from on.
 * SIZE_MAX: overflow, or no memory for the calculation */
size_t reduction_room_bytes(const struct state *state, const struct plan_layout *layout,
                            unsigned rank, unsigned trained_from);
/** reduction_free() - abandon requests in flight, which fails their carrier; call it before the
 * gradients are freed. NULL allowed */
void reduction_free(struct reduction *reduction);

/** reduction_expect() - begin a step: post the receives for the other replicas' sums, where the
 * carrier allows it. 0, -ECONNRESET, -ENOMEM */
int reduction_expect(struct reduction *reduction) CHECK_RESULT;
/** reduction_begin() - start the all-reduce of @unit, whose sums of this replica are complete */
int reduction_begin(struct reduction *reduction, unsigned unit) CHECK_RESULT;
/** reduction_finish() - wait until the reduced gradients of all trained units are in
 * gradients_reduced(). 0, -ECONNRESET, -ETIMEDOUT */
int reduction_finish(struct reduction *reduction) CHECK_RESULT;

/** reduction_combined() - return whether the sums of @unit have been overwritten in this step */
bool reduction_combined(const struct reduction *reduction, unsigned unit);
