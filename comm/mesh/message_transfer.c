/*
 * Messages on a link that is up: sent at once within the peer's credit, offered beyond the credit.
 *
 * Order: messages of one tag are matched in the order in which they were posted, because DATA and
 * OFFER leave through one queue; only the bytes of an offered message may come after those of a
 * later one. Nothing here waits for the peer's main thread, so no message can block another.
 *
 * Bulk messages have queues of their own, here and in the stream. All of them are offered, so that
 * they never take the credit that urgent messages need. At most BULK_MAX are offered at a time, so
 * that offers remain for urgent messages, and the peer's ACCEPTs arrive before the bytes can be
 * sent.
 */
#include <errno.h>
#include <string.h>

#include "comm/mesh/mesh_state.h"

#define BULK_MAX 16u /* bulk messages of a link that are offered or on their way */

#define REQUEST_OF(item_pointer)                                                                   \
    ((struct mesh_request *)(void *)((char *)(item_pointer)-offsetof(struct mesh_request, item)))

int message_transfer_begin(struct connection *connection)
{
    struct mesh *mesh = connection->mesh;
    struct peer *peer = connection->peer;
    uint64_t window_bytes = MIN(peer->options.unexpected_max_bytes, (uint64_t)MESH_MESSAGE_MAX);
    pthread_mutex_lock(&mesh->lock);
    inbox_fail(&peer->inbox, -ECONNRESET); /* drop messages of a link that broke while opening */
    inbox_init(&peer->inbox, window_bytes);
    peer->left = false;
    pthread_mutex_unlock(&mesh->lock);
    TAILQ_INIT(&peer->offers);
    peer->credit_bytes = 0;
    peer->offer_count = peer->bulk_count = 0;
    peer->offers_made = peer->offers_seen = 0;
    connection->stream.events = mesh->link_events;
    return frame_stream_put(&connection->stream, FRAME_CREDIT, 0, window_bytes, NULL, 0);
}

/* ---- out ---- */

void message_transfer_send_done(struct mesh_request *request, int result)
{
    if (!request->copy) {
        request_complete(request, result);
        return;
    }
    request->mesh->posted.copied_bytes -= request->size_bytes;
    request_free(request);
}

static bool fits_credit(const struct peer *peer, const struct mesh_request *request)
{
    return !request->item.bulk &&
           (uint64_t)request->size_bytes + INBOX_MESSAGE_CHARGE <= peer->credit_bytes;
}

static void queue_send(struct peer *peer, struct mesh_request *request)
{
    request->item.tag = request->tag;
    if (fits_credit(peer, request)) {
        peer->credit_bytes -= (uint64_t)request->size_bytes + INBOX_MESSAGE_CHARGE;
        request->item.type = FRAME_DATA;
    } else {
        request->item.type = FRAME_OFFER;
        request->offer = peer->offers_made++;
        *(request->item.bulk ? &peer->bulk_count : &peer->offer_count) += 1;
    }
    frame_stream_queue(&peer->connection->stream, &request->item);
}

static bool send_possible(const struct peer *peer, const struct mesh_request *request)
{
    if (request->item.bulk)
        return peer->bulk_count < BULK_MAX;
    return peer->offer_count < INBOX_OFFERS_MAX - BULK_MAX || fits_credit(peer, request);
}

static void take_sends(struct peer *peer, struct mesh_requests *sends)
{
    struct mesh_request *request;
    while ((request = TAILQ_FIRST(sends)) && send_possible(peer, request)) {
        TAILQ_REMOVE(sends, request, entry);
        queue_send(peer, request);
    }
}

int message_transfer_take_posted(struct peer *peer)
{
    struct connection *connection = peer->connection;
    struct mesh_request *request;
    int status = 0;
    if (!connection || connection->state != CONNECTION_UP)
        return 0;
    take_sends(peer, &peer->sends);
    take_sends(peer, &peer->bulk_sends);
    while (status == 0 && (request = TAILQ_FIRST(&peer->inbox.accepting))) {
        TAILQ_REMOVE(&peer->inbox.accepting, request, entry);
        TAILQ_INSERT_TAIL(&peer->inbox.accepted, request, entry);
        status = frame_stream_put(&connection->stream, FRAME_ACCEPT, request->offer, 0, NULL, 0);
    }
    uint64_t owed_bytes = inbox_take_owed(&peer->inbox);
    if (status == 0 && owed_bytes > 0)
        status = frame_stream_put(&connection->stream, FRAME_CREDIT, 0, owed_bytes, NULL, 0);
    return status;
}

void message_transfer_sent(struct connection *connection, struct frame_stream_item *item)
{
    struct mesh *mesh = connection->mesh;
    struct mesh_request *request = REQUEST_OF(item);
    if (item->type == FRAME_OFFER) {
        TAILQ_INSERT_TAIL(&connection->peer->offers, request, entry);
        return;
    }
    atomic_fetch_add_explicit(&mesh->counters.messages_sent, 1, memory_order_relaxed);
    pthread_mutex_lock(&mesh->lock);
    if (request->item.bulk) {
        connection->peer->bulk_count--;
        take_sends(connection->peer, &connection->peer->bulk_sends);
    }
    message_transfer_send_done(request, 0);
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

bool message_transfer_drained(struct peer *peer)
{
    pthread_mutex_lock(&peer->mesh->lock);
    bool posted = !TAILQ_EMPTY(&peer->sends) || !TAILQ_EMPTY(&peer->bulk_sends);
    pthread_mutex_unlock(&peer->mesh->lock);
    return !posted && TAILQ_EMPTY(&peer->offers) &&
           !frame_stream_items_waiting(&peer->connection->stream);
}

void message_transfer_drop_sends(struct peer *peer, int result)
{
    struct mesh_request *request;
    if (peer->connection) {
        struct frame_stream *stream = &peer->connection->stream;
        struct frame_stream_item *item, *next;
        struct frame_stream_items items;
        /* This copies the data that the stream still needs, before its owner may free it. */
        if (frame_stream_abandon(stream, &items) < 0)
            peer->connection->output_over = true;
        for (item = TAILQ_FIRST(&items); item; item = next) {
            next = TAILQ_NEXT(item, entry);
            message_transfer_send_done(REQUEST_OF(item), result);
        }
    }
    while ((request = TAILQ_FIRST(&peer->offers))) {
        TAILQ_REMOVE(&peer->offers, request, entry);
        message_transfer_send_done(request, result);
    }
    TAILQ_CONCAT(&peer->sends, &peer->bulk_sends, entry);
    while ((request = TAILQ_FIRST(&peer->sends))) {
        TAILQ_REMOVE(&peer->sends, request, entry);
        message_transfer_send_done(request, result);
    }
}

/* ---- in ---- */

int message_transfer_begins(struct connection *connection, const struct frame *frame,
                            uint8_t **ret_destination, size_t *ret_wanted_bytes)
{
    struct mesh *mesh = connection->mesh;
    struct inbox *inbox = &connection->peer->inbox;
    pthread_mutex_lock(&mesh->lock);
    int status =
        frame->type == FRAME_DATA
            ? inbox_arrival(inbox, frame->tag, frame->size, ret_destination, ret_wanted_bytes)
            : inbox_delivery(inbox, frame->tag, frame->size, ret_destination);
    if (status == 0 && inbox->arriving_message)
        pthread_cond_broadcast(&mesh->changed); /* for mesh_receive_any() */
    pthread_mutex_unlock(&mesh->lock);
    return status;
}

void message_transfer_ends(struct connection *connection)
{
    struct mesh *mesh = connection->mesh;
    atomic_fetch_add_explicit(&mesh->counters.messages_received, 1, memory_order_relaxed);
    pthread_mutex_lock(&mesh->lock);
    inbox_arrived(&connection->peer->inbox);
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

int message_transfer_offer(struct connection *connection, const struct frame *frame,
                           size_t *ret_wanted_bytes)
{
    struct mesh *mesh = connection->mesh;
    struct peer *peer = connection->peer;
    struct mesh_request *request;
    uint64_t offer = peer->offers_seen++;
    pthread_mutex_lock(&mesh->lock);
    int status =
        inbox_offer(&peer->inbox, frame->tag, frame->size, offer, &request, ret_wanted_bytes);
    if (status == 0 && !request)
        pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
    if (status < 0 || !request)
        return status;
    return frame_stream_put(&connection->stream, FRAME_ACCEPT, offer, 0, NULL, 0);
}

int message_transfer_accept(struct connection *connection, const struct frame *frame)
{
    struct peer *peer = connection->peer;
    struct mesh_request *request;
    TAILQ_FOREACH(request, &peer->offers, entry)
    {
        if (request->offer != frame->tag)
            continue;
        TAILQ_REMOVE(&peer->offers, request, entry);
        if (!request->item.bulk)
            peer->offer_count--;
        request->item.type = FRAME_DELIVERY;
        request->item.tag = request->offer;
        frame_stream_queue(&connection->stream, &request->item);
        return 0;
    }
    return -EPROTO;
}

int message_transfer_credit(struct peer *peer, const struct frame *frame)
{
    if (frame->size > MESH_MESSAGE_MAX - peer->credit_bytes)
        return -EPROTO;
    peer->credit_bytes += frame->size;
    return 0;
}
