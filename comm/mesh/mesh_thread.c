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

#define EVENTS_MAX 64

static void receive(struct connection *connection)
{
    int status = connection_receive(connection);
    if (status < 0)
        mesh_lose(connection, status);
}

static void flush_all(struct mesh *mesh)
{
    struct connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        int status = connection_flush(connection);
        if (status < 0)
            mesh_lose(connection, status);
    }
}

static void serve_connection(struct connection *connection, uint32_t events)
{
    switch (connection->state) {
    case CONNECTION_CONNECTING: {
        int status = link_connected(connection->link);
        if (status == 0)
            rendezvous_connected(connection);
        else if (status != -EINPROGRESS)
            mesh_lose(connection, status);
        break;
    }
    case CONNECTION_GREETING:
    case CONNECTION_UP:
    case CONNECTION_LEAVING:
        if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            receive(connection);
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
    } else if (event->data.ptr == &mesh->io.wake) {
        uint64_t count;
        if (read(mesh->io.wake, &count, sizeof(count)) < 0)
            assert(errno == EAGAIN);
    } else {
        serve_connection(event->data.ptr, event->events);
    }
}

/* Take the requests that callers have posted since the last round. */
static void take_posted(struct mesh *mesh)
{
    char abort_text[sizeof(mesh->wishes.abort_text)];
    int status = 0;
    pthread_mutex_lock(&mesh->lock);
    mesh->wishes.wake_pending = false;
    bool abort_wanted = mesh->wishes.abort, close_wanted = mesh->wishes.close;
    memcpy(abort_text, mesh->wishes.abort_text, sizeof(abort_text));
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
        farewell_leave(mesh);
}

static void send_heartbeats(struct mesh *mesh)
{
    struct connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        /* A second heartbeat behind one that still waits here would not make it arrive sooner. */
        if (connection->state != CONNECTION_UP || connection->stream.out.small.size_bytes > 0)
            continue;
        int status = frame_stream_put(&connection->stream, FRAME_HEARTBEAT, 0, 0, NULL, 0);
        if (status < 0)
            mesh_lose(connection, status);
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
        receive(connection);
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
                mesh_lose(lost[i]->connection, -ETIMEDOUT);
        return;
    }
    char label[MESH_LABEL_SIZE], text[sizeof(mesh->fault.text)];
    peer_label(lost[0], label);
    double seconds = (double)mesh->terms.failure_timeout_ns / (double)NS_PER_SECOND;
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
    int count = epoll_wait(mesh->io.epoll, events, EVENTS_MAX, sleep_ms(mesh));
    mesh->now_ns = clock_monotonic_ns();
    failure_detector_poll(&mesh->watch, mesh->now_ns);
    for (int i = 0; i < count; i++)
        serve(mesh, &events[i]);
    take_posted(mesh);
    run_timers(mesh);
    flush_all(mesh);
    if (leaving(mesh)) {
        farewell_tick(mesh);
        flush_all(mesh);
    }
    connection_reap(mesh);
    if (leaving(mesh) &&
        (TAILQ_EMPTY(&mesh->connections) || mesh->now_ns >= mesh->farewell_deadline_ns))
        mesh->phase = MESH_OVER;
}

void *mesh_thread(void *context)
{
    struct mesh *mesh = context;
    mesh->now_ns = clock_monotonic_ns();
    mesh->link_events = &link_frames_events;
    failure_detector_init(&mesh->watch, mesh->terms.failure_timeout_ns, mesh->now_ns);
    rendezvous_begin(mesh);
    while (mesh->phase != MESH_OVER)
        round_of(mesh);
    struct connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    connection_close(connection);
    connection_reap(mesh);
    return NULL;
}
