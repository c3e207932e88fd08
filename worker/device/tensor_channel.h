/*
 * A buffer of the device that goes to one peer, or comes from it: the same buffer in every step,
 * one message at a time. A carrier that moves memory of the host takes it from and brings it to the
 * host's copy (worker/device/host_copy.h), which is the buffer itself on CPU slots.
 *
 *     sending:    passage_send(), and passage_reuse() before the buffer is written again
 *     receiving:  passage_receive(), and passage_land() before it is computed with
 *
 * Where a carrier moves the device's own memory neither waits: what is computed next waits on the
 * device, and the host goes on giving it work. Whether the message was moved is then what
 * passage_complete() says, before anything is believed that was computed from it. Until then the
 * host gives the device work, and waits for it, under carrier_guard() alone: a device that waits
 * for a message has no time limit of its own.
 *
 * A buffer that is received into again and again says passage_used() after the last computation
 * that reads it; else the next message could overwrite what is still being read.
 */
#pragma once

#include "comm/carrier/carrier.h"
#include "worker/device/send_queue.h"

struct passage {
    struct host_copy copy;
    struct departures *departures; /* borrowed */
    struct carrier *carrier;       /* borrowed */
    unsigned peer;
    uint64_t tag;   /* of the message to send */
    bool leaving;   /* not handed to the carrier yet */
    bool receiving; /* the request is a receive */
    struct carrier_request *request;
};

struct passage_options {
    struct pinned *pinned; /* of the device */
    struct carrier *carrier;
    struct departures *departures;
    unsigned peer;
    void *buffer; /* device; like all of these borrowed until passage_close() */
    size_t size_bytes;
};

/** passage_init() - 0 or -ENOMEM; @passage stays where it is from now on */
int passage_init(struct passage *passage, const struct passage_options *options) CHECK_RESULT;
/** passage_close() - waits out what is posted; a receive that is still under way belongs to a step
 * that has failed, and fails the carrier. Zeroed memory is allowed */
void passage_close(struct passage *passage);

/** passage_send() - what was computed so far; waits for the message before this one */
int passage_send(struct passage *passage, uint64_t tag) CHECK_RESULT;
/** passage_reuse() - what is computed next may write the buffer */
int passage_reuse(struct passage *passage) CHECK_RESULT;

/** passage_receive() - into the buffer once all that was computed so far is over; waits for the
 * message before this one */
int passage_receive(struct passage *passage, uint64_t tag) CHECK_RESULT;
/** passage_land() - what passage_receive() asked for is there for whatever is computed next */
int passage_land(struct passage *passage) CHECK_RESULT;

/** passage_complete() - wait until the message has been moved, whichever way: 0 at once when there
 * is none; errors of carrier_complete() */
int passage_complete(struct passage *passage) CHECK_RESULT;
void passage_used(struct passage *passage);
