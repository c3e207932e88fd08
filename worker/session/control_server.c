#include "worker/session/control_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define QUEUE_MAX 64
#define SEND_TIMEOUT_S                                                                             \
    2 /* seconds until a firnd that does not read is disconnected; it connects again */

/* Messages that a new firnd gets although they are older than its connection. */
enum kept { KEPT_STATUS, KEPT_ALARM, KEPT_CHECKPOINT, KEPT_COUNT };

struct control_server {
    char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    int listener, wake, connection; /* connection: -1 while no firnd is there */
    pthread_t thread;
    bool stopping;
    pthread_mutex_t lock; /* guards all members below, and connection */
    pthread_cond_t arrived;
    struct control_message *queue[QUEUE_MAX];
    unsigned queued;
    struct bytes kept[KEPT_COUNT];       /* packed */
    uint64_t kept_step, kept_generation; /* of the kept checkpoint */
    struct bytes received;               /* used by the thread only */
    control_observer observer;
    void *context;
};

static int listen_at(const char *path, struct error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path))
        return error_set(error, -ENAMETOOLONG, "socket path %s is too long", path);
    strcpy(address.sun_path, path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0)
        return error_set(error, -errno, "making a socket: %s", strerror(errno));
    unlink(path);
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 4)) {
        int status = error_set(error, -errno, "listening at %s: %s", path, strerror(errno));
        close(listener);
        return status;
    }
    return listener;
}

/* With the lock held. Only shut down a failed connection: the thread closes it. */
static void write_all(struct control_server *server, const struct bytes *bytes)
{
    size_t done = 0;

    while (server->connection >= 0 && done < bytes->size_bytes) {
        ssize_t written =
            send(server->connection, bytes->data + done, bytes->size_bytes - done, MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            shutdown(server->connection, SHUT_RDWR);
            return;
        }
        done += (size_t)written;
    }
}

/* Accept orders only from firnd's own user, and root. */
static bool is_firnd(int connection)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size))
        return false;
    if (peer.uid == geteuid() || peer.uid == 0)
        return true;
    log_warning("process %d of user %u wants to give orders, refused", (int)peer.pid, peer.uid);
    return false;
}

static void accept_firnd(struct control_server *server)
{
    struct timeval timeout = {.tv_sec = SEND_TIMEOUT_S};
    int connection = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);

    if (connection < 0)
        return;
    if (!is_firnd(connection)) {
        close(connection);
        return;
    }
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    pthread_mutex_lock(&server->lock);
    if (server->connection >= 0)
        close(server->connection);
    server->connection = connection;
    server->received.size_bytes = 0;
    for (int i = 0; i < KEPT_COUNT; i++)
        write_all(server, &server->kept[i]);
    pthread_mutex_unlock(&server->lock);
}

static void hang_up(struct control_server *server)
{
    pthread_mutex_lock(&server->lock);
    close(server->connection);
    server->connection = -1;
    pthread_mutex_unlock(&server->lock);
}

/* With the lock held. True if @message answers the kept checkpoint, not an earlier one. */
static bool answers_kept(const struct control_server *server, const struct control_message *message)
{
    return message->type == CONTROL_CHECKPOINT && message->checkpoint.step == server->kept_step &&
           message->checkpoint.generation == server->kept_generation;
}

/* Take ownership of the message, unless the queue is full. The observer runs with the lock held: a
 * main thread that it wakes finds the message in the queue. */
static bool enqueue(struct control_server *server, struct control_message *message)
{
    pthread_mutex_lock(&server->lock);
    if (server->observer)
        server->observer(server->context, message);
    bool taken = server->queued < QUEUE_MAX;
    if (taken && answers_kept(server, message))
        server->kept[KEPT_CHECKPOINT].size_bytes = 0;
    if (taken) {
        server->queue[server->queued++] = message;
        pthread_cond_signal(&server->arrived);
    }
    pthread_mutex_unlock(&server->lock);
    return taken;
}

/* Return false to disconnect. No message between others may be lost; on every new connection firnd
 * sends all messages that still hold. */
static bool take_messages(struct control_server *server)
{
    for (;;) {
        struct error error = {0};
        struct control_message *message = calloc(1, sizeof(*message));
        int status = message ? control_unpack(&server->received, message, &error)
                             : error_set(&error, -ENOMEM, "no memory for it");
        if (status == 1 && enqueue(server, message))
            continue;
        if (status == 1) {
            status = error_set(&error, -ENOBUFS, "%d others wait to be looked at", QUEUE_MAX);
            control_message_done(message);
        }
        free(message);
        if (status < 0)
            log_warning("a message from firnd is not taken: %s", error.text);
        return status == 0;
    }
}

static void read_firnd(struct control_server *server)
{
    uint8_t chunk[65536];
    ssize_t size = recv(server->connection, chunk, sizeof(chunk), MSG_DONTWAIT);

    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size <= 0 || bytes_append(&server->received, chunk, (size_t)size) || !take_messages(server))
        hang_up(server);
}

static void *serve(void *argument)
{
    struct control_server *server = argument;

    while (!__atomic_load_n(&server->stopping, __ATOMIC_ACQUIRE)) {
        struct pollfd polled[3] = {
            {.fd = server->wake, .events = POLLIN},
            {.fd = server->listener, .events = POLLIN},
            {.fd = server->connection, .events = POLLIN},
        };
        if (poll(polled, 3, -1) < 0 && errno != EINTR)
            break;
        if (polled[2].revents)
            read_firnd(server);
        if (polled[1].revents)
            accept_firnd(server);
    }
    return NULL;
}

static void init_locks(struct control_server *server)
{
    pthread_condattr_t monotonic;

    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&server->arrived, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* The thread has ended, or was never started. */
static void server_free(struct control_server *server)
{
    if (server->listener >= 0)
        unlink(server->socket_path);
    close_descriptor(&server->listener);
    close_descriptor(&server->wake);
    close_descriptor(&server->connection);
    for (unsigned i = 0; i < server->queued; i++) {
        control_message_done(server->queue[i]);
        free(server->queue[i]);
    }
    for (int i = 0; i < KEPT_COUNT; i++)
        bytes_done(&server->kept[i]);
    bytes_done(&server->received);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->arrived);
    free(server);
}

static int start_thread(struct control_server *server, struct error *error)
{
    server->wake = eventfd(0, EFD_CLOEXEC);
    int status = server->wake < 0 ? -errno : -pthread_create(&server->thread, NULL, serve, server);

    return status ? error_set(error, status, "starting the control thread: %s", strerror(-status))
                  : 0;
}

int control_server_start(const char *socket_path, control_observer observer, void *context,
                         struct control_server **ret_server, struct error *error)
{
    struct control_server *server = calloc(1, sizeof(*server));
    int status;

    if (!server)
        return error_set(error, -ENOMEM, "no memory for the control socket");
    *server = (struct control_server){
        .observer = observer, .context = context, .wake = -1, .connection = -1};
    init_locks(server);
    server->listener = listen_at(socket_path, error);
    status = MIN(server->listener, 0);
    if (!status) {
        strcpy(server->socket_path, socket_path);
        status = start_thread(server, error);
    }
    if (status)
        server_free(server);
    else
        *ret_server = server;
    return status;
}

void control_server_stop(struct control_server *server)
{
    uint64_t one = 1;

    if (!server)
        return;
    __atomic_store_n(&server->stopping, true, __ATOMIC_RELEASE);
    if (write(server->wake, &one, sizeof(one)) < 0)
        log_warning("waking the control thread: %s", strerror(errno));
    pthread_join(server->thread, NULL);
    server_free(server);
}

static struct bytes *kept_of(struct control_server *server, enum control_type type)
{
    switch (type) {
    case CONTROL_STATUS:
        return &server->kept[KEPT_STATUS];
    case CONTROL_ALARM:
        return &server->kept[KEPT_ALARM];
    case CONTROL_CHECKPOINT:
        return &server->kept[KEPT_CHECKPOINT];
    default:
        return NULL;
    }
}

void control_server_send(struct control_server *server, const struct control_message *message)
{
    struct bytes packed = {0};

    if (control_pack(message, &packed)) {
        log_error("no memory for a message to firnd");
        bytes_done(&packed);
        return;
    }
    pthread_mutex_lock(&server->lock);
    write_all(server, &packed);
    struct bytes *kept = kept_of(server, message->type);
    if (kept) {
        bytes_done(kept);
        *kept = packed;
    } else {
        bytes_done(&packed);
    }
    if (message->type == CONTROL_CHECKPOINT) {
        server->kept_step = message->checkpoint.step;
        server->kept_generation = message->checkpoint.generation;
    }
    pthread_mutex_unlock(&server->lock);
}

int control_server_take(struct control_server *server, uint64_t deadline_ns,
                        struct control_message *ret_message)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_SECOND),
                             .tv_nsec = (long)(deadline_ns % NS_PER_SECOND)};
    int found = 0;

    pthread_mutex_lock(&server->lock);
    while (server->queued == 0 && deadline_ns)
        if (pthread_cond_timedwait(&server->arrived, &server->lock, &until) == ETIMEDOUT)
            break;
    if (server->queued > 0) {
        struct control_message *first = server->queue[0];
        memmove(server->queue, server->queue + 1, --server->queued * sizeof(server->queue[0]));
        *ret_message = *first;
        free(first);
        found = 1;
    }
    pthread_mutex_unlock(&server->lock);
    return found;
}
