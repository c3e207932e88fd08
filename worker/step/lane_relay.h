/*
 * A lane that two replicas compute in one step: the first computes its head and passes the sums on,
 * and the second continues from them (elastic/plan/plan_layout.h, protocol/step_division.h).
 *
 * Problem: lanes do not divide evenly over most numbers of replicas: 8 lanes take as long on 7
 * replicas as on 4. The bits of a lane's sum follow from the order of its micro-batches, which two
 * replicas cannot add at once.
 *
 * Design: the head is the first that its replica computes, and the rest is the last that the
 * lane's owner computes, so the sums travel meanwhile: unit by unit, as soon as backward has added
 * the head's last micro-batch. The last stage passes the loss, too. Receives are posted when the
 * step begins, into the gradients' own buffers. A head's buffer keeps its sum until the step ends:
 * if the owner dies, another replica can go on from there.
 *
 * Cost: one gradient of the stage on each side of a cut, and its transfer, which is hidden if the
 * rest of the replica's step takes longer. The planner weighs both. Only with host memory: the
 * planner lets no GPUs share lanes.
 */
#pragma once

#include "worker/step/engine.h"

struct lane_relay;

/** lane_relay_new() - prepare the heads that this rank passes on and gets; *ret_relay is NULL where
 * there are none. -ENOMEM; -ENOTSUP: a device with memory of its own */
int lane_relay_new(struct engine *engine, struct lane_relay **ret_relay,
                   struct error *error) CHECK_RESULT;

/* All functions below accept NULL; those with a result return the errors of mesh_wait(). */

/** lane_relay_forget() - forget the sums of the step before, whose messages are through; before the
 * step's gradients begin */
void lane_relay_forget(struct lane_relay *relay);
/** lane_relay_begin() - begin a step: post the receives */
int lane_relay_begin(struct lane_relay *relay) CHECK_RESULT;

/** lane_relay_await() - before the @index-th micro-batch of @lane is added to @unit: wait for the
 * sum that it is added to */
int lane_relay_await(struct lane_relay *relay, unsigned unit, unsigned lane,
                     unsigned index) CHECK_RESULT;
/** lane_relay_added() - pass the sum of @unit on if its @index-th micro-batch of @lane was the
 * head's last one */
int lane_relay_added(struct lane_relay *relay, unsigned unit, unsigned lane,
                     unsigned index) CHECK_RESULT;

/** lane_relay_await_loss() - on the last stage, before the loss of the @index-th micro-batch of
 * @lane is added: wait for the head's loss, and put it into the record of the step */
int lane_relay_await_loss(struct lane_relay *relay, unsigned lane, unsigned index) CHECK_RESULT;
/** lane_relay_added_loss() - the same for a loss that was added: pass it on behind the head's last
 * micro-batch */
int lane_relay_added_loss(struct lane_relay *relay, unsigned lane, unsigned index) CHECK_RESULT;

/** lane_relay_finish() - wait until all sums have left, when this rank has computed its part */
int lane_relay_finish(struct lane_relay *relay) CHECK_RESULT;
/** lane_relay_hide_loss() - take the loss of another replica's lane out of the record, when nothing
 * of the step can be kept any more */
void lane_relay_hide_loss(struct lane_relay *relay);

/** lane_relay_close() - end it before the mesh is closed; within a step, this fails the mesh. A
 * loss that has arrived goes into the record of the step, where it is kept with the sums; sums that
 * have not arrived are forgotten in the engine's gradients */
void lane_relay_close(struct lane_relay *relay);
