/*
 * Send and receive frames over a link, with the frames that are partly sent or partly received.
 *
 * Out: small frames are in a buffer, messages in two queues. At every segment boundary the waiting
 * small frames go first, then one segment of the open message. When no message is open, the first
 * urgent one opens; a bulk message opens only if no urgent one waits. A frame that the link has
 * taken in part is finished before any other ("committed"). Messages are sent from their own
 * memory, without a copy.
 *
 * In: headers and small payloads pass through a staging buffer; the payload of a segment is read
 * straight to its destination, with the staging buffer behind it for the next frames, in one call.
 *
 * Once both sides know each other (frame_stream_seal()) every header, and every payload that is not
 * empty, is followed by its tag (comm/mesh/frame_seal.h). A header is acted on only after its tag
 * was checked; a segment counts only after its own tag was checked.
 *
 * Invariants: at most one message is open in each direction; the destination of an open message is
 * written only inside frame_stream_receive(). Frames are sealed in the order in which they leave:
 * waiting small frames are committed before the next segment. One thread uses a stream.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "comm/mesh/frame.h"
#include "comm/mesh/frame_seal.h"
#include "comm/mesh/link.h"

#define FRAME_STREAM_STAGING_BYTES (16 * 1024)

/* A message, or the offer of a message, in the queue of a stream; embedded in its owner. */
struct frame_stream_item {
    TAILQ_ENTRY(frame_stream_item) entry;
    enum frame_type type; /* FRAME_DATA, FRAME_DELIVERY, FRAME_OFFER */
    bool bulk;            /* urgent messages go first */
    uint64_t tag;
    const uint8_t *data;
    size_t size_bytes;
};
TAILQ_HEAD(frame_stream_items, frame_stream_item);

struct frame_stream_events {
    /* A message opens; its bytes go to *ret_destination, which stays valid until message_ends. */
    int (*message_begins)(void *context, const struct frame *frame, uint8_t **ret_destination);
    int (*message_ends)(void *context, const struct frame *frame);
    /* Any other frame, with its payload of frame->length bytes. */
    int (*small_frame)(void *context, const struct frame *frame, const uint8_t *payload);
    /* The item was handed to the link entirely, and has left the queue. */
    void (*item_sent)(void *context, struct frame_stream_item *item);
};

/* Frames that arrive. */
struct frame_stream_in {
    struct frame_seal *seal; /* NULL: frames have no tags yet */
    uint8_t staging[FRAME_STREAM_STAGING_BYTES];
    size_t staging_begin, staging_end;
    bool in_segment;          /* the header of `message` was read, its payload is incomplete */
    struct frame message;     /* the open message; type 0 when no message is open */
    uint8_t *destination;     /* of the open message */
    size_t message_position;  /* bytes of the open message that have arrived */
    size_t segment_remaining; /* bytes of the segment that are missing */
    bool awaits_tag;          /* all of the segment has arrived, its tag has not */
};

/* Frames that leave. */
struct frame_stream_out {
    struct frame_seal *seal; /* NULL: frames have no tags yet */
    struct frame_stream_items urgent, bulk;
    struct frame_stream_item *open; /* the first of its queue, committed in part; NULL: none */
    size_t item_position;           /* bytes of it that were committed */
    struct bytes small;             /* encoded small frames that wait for a boundary */
    struct bytes committed;         /* small frames and a segment's header on their way */
    size_t committed_position;
    const uint8_t *segment; /* the payload behind `committed` */
    size_t segment_left;
    uint8_t trailer[FRAME_SEAL_TAG_SIZE]; /* of the segment, behind it */
    size_t trailer_left;
    bool item_committed; /* `committed` ends with a segment (or offer) of the open item */
    uint8_t *abandoned;  /* owned copy of a segment whose message was abandoned */
};

struct frame_stream {
    struct link *link; /* borrowed */
    const struct frame_stream_events *events;
    void *context;
    uint64_t generation; /* put into every frame */
    uint32_t source;
    struct frame_stream_in in;
    struct frame_stream_out out;
    uint64_t bytes_sent, bytes_received;
};

void frame_stream_init(struct frame_stream *stream, struct link *link,
                       const struct frame_stream_events *events, void *context, uint64_t generation,
                       uint32_t source);
void frame_stream_done(struct frame_stream *stream);

/**
 * frame_stream_seal() - add tags to all frames put or queued from here on, and expect them on all
 * received frames
 * @key_out, @key_in: swapped at the peer
 * Return: 0; -ENOMEM, -ENOTSUP
 */
int frame_stream_seal(struct frame_stream *stream, enum frame_seal_kind kind,
                      const uint8_t key_out[FRAME_SEAL_KEY_SIZE],
                      const uint8_t key_in[FRAME_SEAL_KEY_SIZE]) CHECK_RESULT;

/** frame_stream_put() - queue a small frame; generation and source are filled in; 0 or -ENOMEM */
int frame_stream_put(struct frame_stream *stream, enum frame_type type, uint64_t tag, uint64_t size,
                     const void *payload, uint32_t length) CHECK_RESULT;

/** frame_stream_queue() - queue an item behind the others of its kind, urgent or bulk; borrowed
 * until item_sent or frame_stream_abandon() */
void frame_stream_queue(struct frame_stream *stream, struct frame_stream_item *item);

/** frame_stream_idle() - return whether nothing waits to be sent */
bool frame_stream_idle(const struct frame_stream *stream);

/** frame_stream_items_waiting() - return whether an item waits or is partly sent */
bool frame_stream_items_waiting(const struct frame_stream *stream);

/** frame_stream_count() - count these items */
unsigned frame_stream_count(const struct frame_stream *stream);

/** frame_stream_send() - hand as many bytes over as the link takes; 0, -ENOMEM, or the link's
 * error */
int frame_stream_send(struct frame_stream *stream) CHECK_RESULT;

/**
 * frame_stream_receive() - read the available bytes, at most about @budget_bytes, and call the
 * events
 * Return: bytes read (0: none available), -ESHUTDOWN when the peer has finished, -EBADMSG for a
 * wrong tag, -EPROTO for a frame that is not allowed, the link's error, or the error that an event
 * returned
 */
ssize_t frame_stream_receive(struct frame_stream *stream, size_t budget_bytes) CHECK_RESULT;

/** frame_stream_discard() - read and drop the data; as frame_stream_receive(), without events */
ssize_t frame_stream_discard(struct frame_stream *stream, size_t budget_bytes) CHECK_RESULT;

/**
 * frame_stream_abandon() - drop all items at once without events; their data is not touched any
 * more
 * @ret_items: receives them
 *
 * A partly sent segment is copied, so that small frames can still follow it. -ENOMEM: no frame can
 * follow; close the link.
 */
int frame_stream_abandon(struct frame_stream *stream,
                         struct frame_stream_items *ret_items) CHECK_RESULT;
