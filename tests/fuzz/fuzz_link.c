/*
 * The bytes of a stranger, and of an authenticated peer, on a link: frames, the handshake, the
 * inbox. The input is the bytes in their order; its first byte chooses the pieces.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "comm/mesh/frame_stream.h"
#include "comm/mesh/handshake.h"
#include "comm/mesh/inbox.h"

#define WINDOW_BYTES 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input_link {
    struct link link;
    const uint8_t *data;
    size_t size, chunk;
};

static ssize_t input_receive(struct link *link, const struct iovec *parts, int part_count)
{
    struct input_link *self = (struct input_link *)link;
    size_t got = 0, left = MIN(self->chunk, self->size);
    for (int i = 0; i < part_count && left > 0; i++) {
        size_t count = MIN(parts[i].iov_len, left);
        memcpy(parts[i].iov_base, self->data + got, count);
        got += count;
        left -= count;
    }
    self->data += got;
    self->size -= got;
    return (ssize_t)got;
}

static const struct link_operations input_operations = {.receive = input_receive};

/* ---- as a stranger ---- */

struct door {
    struct handshake handshake;
    unsigned replies;
};

static bool expects_any(void *context, unsigned rank)
{
    (void)context, (void)rank;
    return true;
}

static int door_message(void *context, const struct frame *frame, uint8_t **ret_destination)
{
    (void)context, (void)frame, (void)ret_destination;
    return -EPROTO;
}

static int door_message_end(void *context, const struct frame *frame)
{
    (void)context, (void)frame;
    abort();
}

static int door_frame(void *context, const struct frame *frame, const uint8_t *payload)
{
    struct door *door = context;
    struct handshake_reply reply;
    int status = handshake_step(&door->handshake, frame, payload, &reply);
    if (status == 0 && door->handshake.state == HANDSHAKE_PROVEN)
        abort(); /* without the key? */
    if (reply.present && reply.frame.length > FRAME_SMALL_MAX)
        abort();
    return status;
}

static const struct frame_stream_events door_events = {
    .message_begins = door_message, .message_ends = door_message_end, .small_frame = door_frame};

/* ---- as a peer ---- */

struct peer_side {
    struct inbox inbox;
    struct mesh_request receives[4];
    uint8_t buffers[4][64];
    uint64_t offers;
};

static int peer_message(void *context, const struct frame *frame, uint8_t **ret_destination)
{
    struct peer_side *side = context;
    size_t wanted;
    if (frame->type == FRAME_DELIVERY)
        return inbox_delivery(&side->inbox, frame->tag, frame->size, ret_destination);
    return inbox_arrival(&side->inbox, frame->tag, frame->size, ret_destination, &wanted);
}

static int peer_message_end(void *context, const struct frame *frame)
{
    struct peer_side *side = context;
    (void)frame;
    inbox_arrived(&side->inbox);
    if (side->inbox.used_bytes + side->inbox.owed_bytes > WINDOW_BYTES)
        abort();
    return 0;
}

static int peer_frame(void *context, const struct frame *frame, const uint8_t *payload)
{
    struct peer_side *side = context;
    struct mesh_request *request;
    size_t wanted;
    unsigned sum = 0;
    for (uint32_t i = 0; i < frame->length; i++)
        sum += payload[i]; /* every byte is readable */
    (void)sum;
    if (frame->type == FRAME_OFFER)
        return inbox_offer(&side->inbox, frame->tag, frame->size, side->offers++, &request,
                           &wanted);
    return 0;
}

static const struct frame_stream_events peer_events = {
    .message_begins = peer_message, .message_ends = peer_message_end, .small_frame = peer_frame};

static void run(const struct frame_stream_events *events, void *context, const uint8_t *data,
                size_t size)
{
    struct input_link link = {.link.operations = &input_operations,
                              .data = data + 1,
                              .size = size - 1,
                              .chunk = 1 + data[0] * (size_t)data[0]};
    struct frame_stream *stream = malloc(sizeof(*stream));
    if (!stream)
        return;
    frame_stream_init(stream, &link.link, events, context, 1, 0);
    if (frame_stream_receive(stream, SIZE_MAX) >= 0)
        abort(); /* the end of the input is at least an error */
    frame_stream_done(stream);
    free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct handshake_identity identity = {
        .job = "fuzz", .generation = 1, .key = {9, 8, 7}, .expects = expects_any};
    const uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE] = {4, 2};
    struct door door = {0};
    handshake_accept(&door.handshake, &identity, challenge);
    run(&door_events, &door, data, size);

    struct peer_side side = {0};
    inbox_init(&side.inbox, WINDOW_BYTES);
    for (unsigned i = 0; i < 4; i++) {
        size_t wanted;
        side.receives[i] =
            (struct mesh_request){.tag = i / 2, .size_bytes = 64, .data = side.buffers[i]};
        if (inbox_post(&side.inbox, &side.receives[i], &wanted) < 0)
            abort();
    }
    run(&peer_events, &side, data, size);
    inbox_fail(&side.inbox, -ECONNRESET);
    return 0;
}
