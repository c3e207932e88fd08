/*
 * A buffer of the device that goes to one peer, or comes from it: the same buffer in every step,
 * one message at a time. A carrier that moves memory of the host takes it from and brings it to the
 * host's copy (worker/device/host_copy.h), which is the buffer itself on CPU slots.
 *
 *     sending:    tensor_channel_send(), and tensor_channel_reuse() before the buffer is written
 * again receiving:  tensor_channel_receive(), and tensor_channel_land() before it is computed with
 *
 * Where a carrier moves the device's own memory neither waits: what is computed next waits on the
 * device, and the host goes on giving it work. Whether the message was moved is then what
 * tensor_channel_complete() says, before anything is believed that was computed from it. Until then
 * the host gives the device work, and waits for it, under carrier_guard() alone: a device that
 * waits for a message has no time limit of its own.
 *
 * A buffer that is received into again and again says tensor_channel_used() after the last
 * computation that reads it; else the next message could overwrite what is still being read.
 */
#pragma once

#include "comm/carrier/carrier.h"
#include "worker/device/send_queue.h"

struct tensor_channel {
    struct host_copy copy;
    struct send_queue *departures; /* borrowed */
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
    struct send_queue *departures;
    unsigned peer;
    void *buffer; /* device; like all of these borrowed until tensor_channel_close() */
    size_t size_bytes;
};

/** tensor_channel_init() - 0 or -ENOMEM; @passage stays where it is from now on */
int tensor_channel_init(struct tensor_channel *passage,
                        const struct tensor_channel_options *options) CHECK_RESULT;
/** tensor_channel_close() - waits out what is posted; a receive that is still under way belongs to
 * a step that has failed, and fails the carrier. Zeroed memory is allowed */
void tensor_channel_close(struct tensor_channel *passage);

/** tensor_channel_send() - what was computed so far; waits for the message before this one */
int tensor_channel_send(struct tensor_channel *passage, uint64_t tag) CHECK_RESULT;
/** tensor_channel_reuse() - what is computed next may write the buffer */
int tensor_channel_reuse(struct tensor_channel *passage) CHECK_RESULT;

/** tensor_channel_receive() - into the buffer once all that was computed so far is over; waits for
 * the message before this one */
int tensor_channel_receive(struct tensor_channel *passage, uint64_t tag) CHECK_RESULT;
/** tensor_channel_land() - what tensor_channel_receive() asked for is there for whatever is
 * computed next */
int tensor_channel_land(struct tensor_channel *passage) CHECK_RESULT;

/** tensor_channel_complete() - wait until the message has been moved, whichever way: 0 at once when
 * there is none; errors of carrier_complete() */
int tensor_channel_complete(struct tensor_channel *passage) CHECK_RESULT;
void tensor_channel_used(struct tensor_channel *passage);
