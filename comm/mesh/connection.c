/* One connection of the I/O thread: its socket in epoll, the bytes in and out, its end. */
#include <errno.h>

#include "comm/mesh/mesh_state.h"

#define RECEIVE_BUDGET_BYTES                                                                       \
    (4u << 20) /* of one link in one round, so that no link starves others */

struct connection *connection_new(struct mesh *mesh, struct link *link, struct peer *peer,
                                  const struct frame_stream_events *events)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection)
        return NULL;
    connection->mesh = mesh;
    connection->peer = peer;
    connection->link = link;
    connection->heard_ns = mesh->watch.attention_ns;
    connection->interest = EPOLLIN | EPOLLOUT;
    frame_stream_init(&connection->stream, link, events, connection, mesh->identity.generation,
                      mesh->identity.rank);
    struct epoll_event event = {.events = connection->interest, .data.ptr = connection};
    if (epoll_ctl(mesh->io.epoll, EPOLL_CTL_ADD, link->descriptor, &event) < 0) {
        free(connection);
        return NULL;
    }
    if (!peer)
        mesh->rendezvous.stranger_count++;
    TAILQ_INSERT_TAIL(&mesh->connections, connection, entry);
    return connection;
}

/* The struct stays until the end of the round: events of this poll may still name it. */
void connection_close(struct connection *connection)
{
    struct mesh *mesh = connection->mesh;
    if (connection->state == CONNECTION_CLOSED)
        return;
    if (frame_stream_items_waiting(&connection->stream)) {
        pthread_mutex_lock(&mesh->lock);
        message_transfer_drop_sends(connection->peer, -ECONNRESET);
        pthread_mutex_unlock(&mesh->lock);
    }
    epoll_ctl(mesh->io.epoll, EPOLL_CTL_DEL, connection->link->descriptor, NULL);
    link_free(connection->link);
    connection->link = NULL;
    connection->state = CONNECTION_CLOSED;
    if (!connection->peer)
        mesh->rendezvous.stranger_count--;
    else if (connection->peer->connection == connection)
        connection->peer->connection = NULL;
}

static void update_interest(struct connection *connection)
{
    uint32_t interest = connection->input_over ? 0 : EPOLLIN;
    if (connection->output_blocked || connection->state == CONNECTION_CONNECTING)
        interest |= EPOLLOUT;
    if (interest == connection->interest)
        return;
    struct epoll_event event = {.events = interest, .data.ptr = connection};
    if (epoll_ctl(connection->mesh->io.epoll, EPOLL_CTL_MOD, connection->link->descriptor,
                  &event) == 0)
        connection->interest = interest;
}

int connection_receive(struct connection *connection)
{
    struct mesh *mesh = connection->mesh;
    struct frame_stream *stream = &connection->stream;
    uint64_t before = stream->bytes_received;
    ssize_t count = connection->state == CONNECTION_LEAVING
                        ? frame_stream_discard(stream, RECEIVE_BUDGET_BYTES)
                        : frame_stream_receive(stream, RECEIVE_BUDGET_BYTES);
    atomic_fetch_add_explicit(&mesh->counters.bytes_received, stream->bytes_received - before,
                              memory_order_relaxed);
    if (stream->bytes_received > before)
        connection->heard_ns = mesh->watch.attention_ns;
    return count < 0 ? (int)count : 0;
}

int connection_flush(struct connection *connection)
{
    struct frame_stream *stream = &connection->stream;
    if (connection->state == CONNECTION_CLOSED || connection->state == CONNECTION_CONNECTING)
        return 0;
    uint64_t before = stream->bytes_sent;
    int status = connection->output_over ? 0 : frame_stream_send(stream);
    atomic_fetch_add_explicit(&connection->mesh->counters.bytes_sent, stream->bytes_sent - before,
                              memory_order_relaxed);
    if (status < 0)
        return status;
    connection->output_blocked = !connection->output_over && !frame_stream_idle(stream);
    if (connection->state == CONNECTION_LEAVING && !connection->output_blocked) {
        if (!connection->output_over)
            link_finish(connection->link);
        connection->output_over = true;
        if (connection->input_over) {
            connection_close(connection);
            return 0;
        }
    }
    update_interest(connection);
    return 0;
}

void connection_reap(struct mesh *mesh)
{
    struct connection *connection, *next;
    for (connection = TAILQ_FIRST(&mesh->connections); connection; connection = next) {
        next = TAILQ_NEXT(connection, entry);
        if (connection->state != CONNECTION_CLOSED)
            continue;
        TAILQ_REMOVE(&mesh->connections, connection, entry);
        frame_stream_done(&connection->stream);
        free(connection);
    }
}
