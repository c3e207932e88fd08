/*
 * A device buffer that is sent to one peer or received from it: the same buffer in every step, one
 * message at a time. A carrier that moves host memory uses the host's copy of the buffer
 * (worker/device/host_copy.h), which is the buffer itself on CPU slots.
 *
 *     sending:    tensor_channel_send(), then tensor_channel_reuse() before writing the buffer
 *     receiving:  tensor_channel_receive(), then tensor_channel_land() before computing with it
 *
 * If a carrier moves device memory, neither call waits: the next computation waits on the device,
 * and the host continues to queue work. Then tensor_channel_complete() reports whether the message
 * was moved; call it before any result of that message is used. Until then the host may queue work
 * and wait for the device only under carrier_guard(): a device waits for a message without a time
 * limit.
 *
 * For a buffer with repeated receives call tensor_channel_used() after the last computation that
 * reads it; otherwise the next message could overwrite data that is still being read.
 */
#pragma once

#include "comm/carrier/carrier.h"
#include "worker/device/send_queue.h"

struct tensor_channel {
    struct host_copy copy;
    struct send_queue *send_queue; /* borrowed */
    struct carrier *carrier;       /* borrowed */
    unsigned peer;
    uint64_t tag;   /* of the message to send */
    bool leaving;   /* not handed to the carrier yet */
    bool receiving; /* the request is a receive */
    struct carrier_request *request;
};

struct tensor_channel_options {
    struct pinned *pinned; /* of the device */
    struct carrier *carrier;
    struct send_queue *send_queue;
    unsigned peer;
    void *buffer; /* device; like all members borrowed until tensor_channel_close() */
    size_t size_bytes;
};

/** tensor_channel_init() - prepare a channel; @channel must not move from now on. 0, -ENOMEM */
int tensor_channel_init(struct tensor_channel *channel,
                        const struct tensor_channel_options *options) CHECK_RESULT;
/** tensor_channel_close() - wait for posted messages and release; a receive in flight belongs to a
 * step that has failed, and fails the carrier. Zeroed memory is allowed */
void tensor_channel_close(struct tensor_channel *channel);

/** tensor_channel_send() - send the result of the computations queued so far; waits for the
 * previous message */
int tensor_channel_send(struct tensor_channel *channel, uint64_t tag) CHECK_RESULT;
/** tensor_channel_reuse() - allow computations queued from now on to write the buffer */
int tensor_channel_reuse(struct tensor_channel *channel) CHECK_RESULT;

/** tensor_channel_receive() - receive into the buffer once all computations queued so far are done;
 * waits for the previous message */
int tensor_channel_receive(struct tensor_channel *channel, uint64_t tag) CHECK_RESULT;
/** tensor_channel_land() - make the received message available to the next computations */
int tensor_channel_land(struct tensor_channel *channel) CHECK_RESULT;

/** tensor_channel_complete() - wait until the message has been sent or received: 0 at once if there
 * is none; errors of carrier_complete() */
int tensor_channel_complete(struct tensor_channel *channel) CHECK_RESULT;
void tensor_channel_used(struct tensor_channel *channel);
