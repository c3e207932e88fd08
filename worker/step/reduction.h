/*
 * The sums of one stage across its replicas (comm/reduce/reduce.h), a unit at a time: begun as soon
 * as backward has passed the unit, finished at the end of the step.
 *
 * Gradients lie on the device, and the sums are made there where the carrier can move that memory.
 * Else each unit has host copies of its subtrees, the sums are made on these, and what is complete
 * goes back up. Additions of f32 are rounded the same way on both, so the bits are the same. With
 * one replica nothing leaves the device.
 */
#pragma once

#include "worker/step/engine.h"

struct reduction;

/** reduction_new() - for the trained units of the engine's stage, whose gradients and departures
 * are there; -ENOMEM */
int reduction_new(struct engine *engine, struct reduction **ret_reduction) CHECK_RESULT;
/** reduction_on_device() - whether the sums of @engine, which has its routes, are made there */
bool reduction_on_device(const struct engine *engine);
/** reduction_room_bytes() - what reduction_new() takes of the arena for @rank where sums are made
 * on the device: room for what the other replicas send, for each unit from @trained_from on.
 * SIZE_MAX: more than there can be, or no memory to find out */
size_t reduction_room_bytes(const struct state *state, const struct plan *plan, unsigned rank,
                            unsigned trained_from);
/** reduction_free() - gives up what is begun, which fails its carrier; before the gradients go.
 * NULL allowed */
void reduction_free(struct reduction *reduction);

/** reduction_expect() - a step begins: what the other replicas will send is received from now on,
 * where the carrier allows it. 0, -ECONNRESET, -ENOMEM */
int reduction_expect(struct reduction *reduction) CHECK_RESULT;
/** reduction_begin() - this replica's sums of @unit are complete: they travel */
int reduction_begin(struct reduction *reduction, unsigned unit) CHECK_RESULT;
/** reduction_finish() - the reduced gradients of all trained units are where gradients_reduced()
 * says. 0, -ECONNRESET, -ETIMEDOUT */
int reduction_finish(struct reduction *reduction) CHECK_RESULT;
