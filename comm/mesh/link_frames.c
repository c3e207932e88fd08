/*
 * Dispatch the frames of a link that is up: messages, offers and credit to the transfer, the first
 * credit to the rendezvous, FAULT and BYE to the whole mesh.
 */
#include <errno.h>
#include <stdio.h>

#include "comm/mesh/mesh_state.h"

/* Return whether the frame names this generation and this peer; the link ends otherwise. */
static bool frame_belongs(const struct connection *connection, const struct frame *frame)
{
    return frame->generation == connection->mesh->identity.generation &&
           frame->source == connection->peer->options.rank;
}

/* Fail the mesh: the two ends disagree about the size of a message, so no later message can be
 * trusted. */
static int fail_size(struct connection *connection, const struct frame *frame, size_t wanted_bytes)
{
    char label[MESH_LABEL_SIZE], text[256];
    peer_label(connection->peer, label);
    snprintf(text, sizeof(text), "%s sent %llu bytes with tag 0x%llx where %zu were expected",
             label, (unsigned long long)frame->size, (unsigned long long)frame->tag, wanted_bytes);
    mesh_fail(connection->mesh, NULL, 0, text);
    return -ECANCELED;
}

static int message_begins(void *context, const struct frame *frame, uint8_t **ret_destination)
{
    struct connection *connection = context;
    size_t wanted_bytes = 0;
    if (!frame_belongs(connection, frame))
        return -EPROTO;
    int status = message_transfer_begins(connection, frame, ret_destination, &wanted_bytes);
    return status == -EMSGSIZE ? fail_size(connection, frame, wanted_bytes) : status;
}

static int message_ends(void *context, const struct frame *frame)
{
    (void)frame;
    message_transfer_ends(context);
    return 0;
}

static void item_sent(void *context, struct frame_stream_item *item)
{
    message_transfer_sent(context, item);
}

static int offer_came(struct connection *connection, const struct frame *frame)
{
    size_t wanted_bytes = 0;
    int status = message_transfer_offer(connection, frame, &wanted_bytes);
    return status == -EMSGSIZE ? fail_size(connection, frame, wanted_bytes) : status;
}

static int credit_came(struct peer *peer, const struct frame *frame)
{
    int status = message_transfer_credit(peer, frame);
    if (status == 0)
        rendezvous_ready(peer);
    return status;
}

static int small_frame(void *context, const struct frame *frame, const uint8_t *payload)
{
    struct connection *connection = context;
    if (!frame_belongs(connection, frame))
        return -EPROTO;
    switch (frame->type) {
    case FRAME_HEARTBEAT:
        return 0;
    case FRAME_CREDIT:
        return credit_came(connection->peer, frame);
    case FRAME_OFFER:
        return offer_came(connection, frame);
    case FRAME_ACCEPT:
        return message_transfer_accept(connection, frame);
    case FRAME_FAULT:
        mesh_fail_told(connection, payload, frame->length);
        return -ECANCELED;
    case FRAME_BYE:
        mesh_depart(connection);
        return -ECANCELED;
    default:
        return -EPROTO;
    }
}

const struct frame_stream_events link_frames_events = {
    .message_begins = message_begins,
    .message_ends = message_ends,
    .small_frame = small_frame,
    .item_sent = item_sent,
};
