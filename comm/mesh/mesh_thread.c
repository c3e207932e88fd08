/*
 * The I/O thread: one round = poll, serve the links that are ready, take posted requests, timers,
 * hand data to the links. Only the poll blocks.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/mesh/mesh_state.h"

#define RECEIVE_BUDGET_BYTES                                                                       \
    (4u << 20) /* of one link in one round, so that no link starves others */
#define EVENTS_MAX 64

/* ---- connections ---- */

static const struct frame_stream_events greeting_events;

struct connection *connection_new(struct mesh *mesh, struct link *link, struct peer *peer)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection)
        return NULL;
    connection->mesh = mesh;
    connection->peer = peer;
    connection->link = link;
    connection->heard_ns = mesh->watch.attention_ns;
    connection->interest = EPOLLIN | EPOLLOUT;
    frame_stream_init(&connection->stream, link, &greeting_events, connection,
                      mesh->identity.generation, mesh->identity.rank);
    struct epoll_event event = {.events = connection->interest, .data.ptr = connection};
    if (epoll_ctl(mesh->epoll, EPOLL_CTL_ADD, link->descriptor, &event) < 0) {
        free(connection);
        return NULL;
    }
    if (!peer)
        mesh->stranger_count++;
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
    epoll_ctl(mesh->epoll, EPOLL_CTL_DEL, connection->link->descriptor, NULL);
    link_free(connection->link);
    connection->link = NULL;
    connection->state = CONNECTION_CLOSED;
    if (!connection->peer)
        mesh->stranger_count--;
    else if (connection->peer->connection == connection)
        connection->peer->connection = NULL;
}

static void reap_connections(struct mesh *mesh)
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

static void update_interest(struct connection *connection)
{
    uint32_t interest = connection->input_over ? 0 : EPOLLIN;
    if (connection->output_blocked || connection->state == CONNECTION_CONNECTING)
        interest |= EPOLLOUT;
    if (interest == connection->interest)
        return;
    struct epoll_event event = {.events = interest, .data.ptr = connection};
    if (epoll_ctl(connection->mesh->epoll, EPOLL_CTL_MOD, connection->link->descriptor, &event) ==
        0)
        connection->interest = interest;
}

void connection_receive(struct connection *connection)
{
    struct mesh *mesh = connection->mesh;
    struct frame_stream *stream = &connection->stream;
    uint64_t before = stream->bytes_received;
    ssize_t count = connection->state == CONNECTION_LEAVING
                        ? frame_stream_discard(stream, RECEIVE_BUDGET_BYTES)
                        : frame_stream_receive(stream, RECEIVE_BUDGET_BYTES);
    atomic_fetch_add_explicit(&mesh->bytes_received, stream->bytes_received - before,
                              memory_order_relaxed);
    if (stream->bytes_received > before)
        connection->heard_ns = mesh->watch.attention_ns;
    if (count < 0)
        connection_lost(connection, (int)count);
}

void connection_flush(struct connection *connection)
{
    struct frame_stream *stream = &connection->stream;
    if (connection->state == CONNECTION_CLOSED || connection->state == CONNECTION_CONNECTING)
        return;
    uint64_t before = stream->bytes_sent;
    int status = connection->output_over ? 0 : frame_stream_send(stream);
    atomic_fetch_add_explicit(&connection->mesh->bytes_sent, stream->bytes_sent - before,
                              memory_order_relaxed);
    if (status < 0) {
        connection_lost(connection, status);
        return;
    }
    connection->output_blocked = !connection->output_over && !frame_stream_idle(stream);
    if (connection->state == CONNECTION_LEAVING && !connection->output_blocked) {
        if (!connection->output_over)
            link_finish(connection->link);
        connection->output_over = true;
        if (connection->input_over) {
            connection_close(connection);
            return;
        }
    }
    update_interest(connection);
}

static int greeting_message(void *context, const struct frame *frame, uint8_t **ret_destination)
{
    (void)context, (void)frame, (void)ret_destination;
    return -EPROTO; /* no messages before both ends are authenticated */
}

static int greeting_message_end(void *context, const struct frame *frame)
{
    (void)context, (void)frame;
    return -EPROTO;
}

static int greeting_frame(void *context, const struct frame *frame, const uint8_t *payload)
{
    return rendezvous_greeting(context, frame, payload);
}

static void greeting_item_sent(void *context, struct frame_stream_item *item)
{
    (void)context, (void)item;
    assert(false); /* nothing is queued before the link is up */
}

static const struct frame_stream_events greeting_events = {
    .message_begins = greeting_message,
    .message_ends = greeting_message_end,
    .small_frame = greeting_frame,
    .item_sent = greeting_item_sent,
};

/* ---- one round ---- */

static void serve_connection(struct connection *connection, uint32_t events)
{
    switch (connection->state) {
    case CONNECTION_CONNECTING: {
        int status = link_connected(connection->link);
        if (status == 0)
            rendezvous_connected(connection);
        else if (status != -EINPROGRESS)
            connection_lost(connection, status);
        break;
    }
    case CONNECTION_GREETING:
    case CONNECTION_UP:
    case CONNECTION_LEAVING:
        if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            connection_receive(connection);
        break;
    case CONNECTION_CLOSED:
        break;
    }
}

static void serve_cancel(struct mesh *mesh)
{
    if (mesh->phase == MESH_OPENING)
        rendezvous_end(mesh, -ECANCELED, "cancelled");
}

static void serve(struct mesh *mesh, const struct epoll_event *event)
{
    if (event->data.ptr == &mesh->listener) {
        if (mesh->phase == MESH_OPENING)
            rendezvous_accept(mesh);
        else
            rendezvous_thin(mesh);
    } else if (event->data.ptr == &mesh->cancel) {
        serve_cancel(mesh);
    } else if (event->data.ptr == &mesh->wake) {
        uint64_t count;
        if (read(mesh->wake, &count, sizeof(count)) < 0)
            assert(errno == EAGAIN);
    } else {
        serve_connection(event->data.ptr, event->events);
    }
}

/* Take the requests that callers have posted since the last round. */
static void take_posted(struct mesh *mesh)
{
    char abort_text[sizeof(mesh->abort_text)];
    int status = 0;
    pthread_mutex_lock(&mesh->lock);
    mesh->wake_pending = false;
    bool abort_wanted = mesh->abort_wanted, close_wanted = mesh->close_wanted;
    memcpy(abort_text, mesh->abort_text, sizeof(abort_text));
    for (unsigned i = 0; i < mesh->peer_count && status == 0; i++)
        status = message_transfer_take_posted(&mesh->peers[i]);
    pthread_mutex_unlock(&mesh->lock);

    if (mesh->phase != MESH_OPEN)
        return;
    if (abort_wanted)
        mesh_fail(mesh, NULL, 0, abort_text);
    else if (status < 0)
        mesh_fail(mesh, NULL, 0, "no memory for the queues of a link");
    else if (close_wanted)
        mesh_leave(mesh);
}

static void send_heartbeats(struct mesh *mesh)
{
    struct connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        /* A heartbeat that still waits here would not arrive sooner with a second one behind it. */
        if (connection->state != CONNECTION_UP || connection->stream.out.small.size_bytes > 0)
            continue;
        int status = frame_stream_put(&connection->stream, FRAME_HEARTBEAT, 0, 0, NULL, 0);
        if (status < 0)
            connection_lost(connection, status);
    }
}

/* Give up peers that have been silent for too long, after a last read of each link. */
static void find_silent(struct mesh *mesh)
{
    struct peer *lost[ARRAY_COUNT(mesh->fault.lost_ranks)];
    unsigned lost_count = 0;
    struct connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        if (connection->state != CONNECTION_UP ||
            !failure_detector_silent(&mesh->watch, connection->heard_ns))
            continue;
        connection_receive(connection);
        if (connection->state == CONNECTION_UP &&
            failure_detector_silent(&mesh->watch, connection->heard_ns) &&
            lost_count < ARRAY_COUNT(lost))
            lost[lost_count++] = connection->peer;
    }
    if (lost_count == 0)
        return;
    if (mesh->phase != MESH_OPEN) {
        for (unsigned i = 0; i < lost_count; i++)
            if (lost[i]->connection)
                connection_lost(lost[i]->connection, -ETIMEDOUT);
        return;
    }
    char label[MESH_LABEL_SIZE], text[sizeof(mesh->fault.text)];
    peer_label(lost[0], label);
    double seconds = (double)mesh->failure_timeout_ns / (double)NS_PER_SECOND;
    if (lost_count == 1)
        snprintf(text, sizeof(text), "%s was silent for %.3g s", label, seconds);
    else
        snprintf(text, sizeof(text), "%s and %u more were silent for %.3g s", label, lost_count - 1,
                 seconds);
    mesh_fail(mesh, lost, lost_count, text);
}

static void run_timers(struct mesh *mesh)
{
    if (mesh->phase == MESH_OPENING)
        rendezvous_tick(mesh);
    if (failure_detector_beat(&mesh->watch))
        send_heartbeats(mesh);
    find_silent(mesh);
}

static bool leaving(const struct mesh *mesh)
{
    return mesh->phase == MESH_CLOSING || mesh->phase == MESH_FAILED;
}

static int sleep_ms(const struct mesh *mesh)
{
    uint64_t due_ns = mesh->now_ns + failure_detector_poll_ns(&mesh->watch);
    due_ns = MIN(due_ns, mesh->watch.heartbeat_ns);
    if (mesh->phase == MESH_OPENING)
        due_ns = MIN(due_ns, rendezvous_due_ns(mesh));
    if (leaving(mesh))
        due_ns = MIN(due_ns, mesh->farewell_deadline_ns);
    uint64_t now_ns = clock_monotonic_ns();
    if (due_ns <= now_ns)
        return 0;
    return (int)MIN((due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS, (uint64_t)60000);
}

static void round_of(struct mesh *mesh)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(mesh->epoll, events, EVENTS_MAX, sleep_ms(mesh));
    mesh->now_ns = clock_monotonic_ns();
    failure_detector_poll(&mesh->watch, mesh->now_ns);
    for (int i = 0; i < count; i++)
        serve(mesh, &events[i]);
    take_posted(mesh);
    run_timers(mesh);
    struct connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    connection_flush(connection);
    if (leaving(mesh))
        mesh_leave_tick(mesh);
    reap_connections(mesh);
    if (leaving(mesh) &&
        (TAILQ_EMPTY(&mesh->connections) || mesh->now_ns >= mesh->farewell_deadline_ns))
        mesh->phase = MESH_OVER;
}

void *mesh_thread(void *context)
{
    struct mesh *mesh = context;
    mesh->now_ns = clock_monotonic_ns();
    failure_detector_init(&mesh->watch, mesh->failure_timeout_ns, mesh->now_ns);
    rendezvous_begin(mesh);
    while (mesh->phase != MESH_OVER)
        round_of(mesh);
    struct connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    connection_close(connection);
    reap_connections(mesh);
    return NULL;
}
