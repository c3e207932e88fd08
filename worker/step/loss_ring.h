/*
 * Losses of micro-batches on their way from a device to the host.
 *
 * To read a loss at once, the host would wait for the end of forward, and the device would then
 * wait for the host to submit backward. So the losses go to pinned memory behind their forward. The
 * host reads each loss LOSSES_AHEAD micro-batches later, and the last ones at the end of the step.
 * It never runs further ahead: between micro-batches it decides whether to leave a step, and all
 * submitted work must end first.
 *
 * The ring is first in, first out: losses of a lane are added in the order of its micro-batches.
 */
#pragma once

#include "model/net/stage.h"
#include "worker/device/pinned.h"

#define LOSSES_AHEAD 2

struct loss_ring;

/* A micro-batch whose loss is on its way. */
struct loss_entry {
    unsigned lane, index_in_lane;
    unsigned slot; /* of its forward */
};

/** loss_ring_new() - create an empty ring; @pool: borrowed; @rows: token losses of a micro-batch.
 * -ENOMEM */
int loss_ring_new(struct pinned *pool, size_t rows, struct loss_ring **ret_ring) CHECK_RESULT;
/** loss_ring_free() - wait for the losses on their way, and free; NULL allowed */
void loss_ring_free(struct loss_ring *ring);

/** loss_ring_is_full() - true if loss_ring_take() must come before the next loss_ring_put() */
bool loss_ring_is_full(const struct loss_ring *ring);
/** loss_ring_put() - send the losses of a forward with targets, the last one in @entry's slot */
void loss_ring_put(struct loss_ring *ring, struct stage *stage, struct loss_entry entry);
/** loss_ring_oldest() - return the oldest entry; NULL: the ring is empty. Valid until it is taken
 */
const struct loss_entry *loss_ring_oldest(const struct loss_ring *ring);
/** loss_ring_take() - wait for the oldest entry, which must exist; return the sum of its losses as
 * stage_loss_sum() */
double loss_ring_take(struct loss_ring *ring);
