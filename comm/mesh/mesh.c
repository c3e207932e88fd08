/*
 * The callers' side of a mesh: posting, waiting, opening and closing. Callers never touch a socket:
 * they queue requests for the I/O thread, wake it, and wait for `done` (mesh_state.h).
 */
#include "comm/mesh/mesh.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/mesh/local.h"
#include "comm/mesh/mesh_state.h"
#include "comm/mesh/tcp.h"

#define FAILURE_TIMEOUT_MIN_NS (20 * NS_PER_MS)
#define MEANWHILE_NS           (100 * NS_PER_MS) /* between two calls of the callback */

/* ---- helpers for the other files ---- */

/* ---- opening and closing ---- */

int mesh_listen(const char *address, struct mesh_listener *ret_listener, struct error *error)
{
    char bound[ADDRESS_SIZE];
    *ret_listener = MESH_LISTENER_NONE;
    int status = tcp_listen(address, &ret_listener->tcp, error);
    if (status < 0)
        return status;
    status = mesh_listener_address(ret_listener, bound);
    if (status == 0)
        status = local_listen(bound, &ret_listener->local);
    if (status < 0)
        log_warning("workers of this node link by TCP to %s: %s", address, strerror(-status));
    return 0;
}

void mesh_listener_close(struct mesh_listener *listener)
{
    close_descriptor(&listener->local);
    close_descriptor(&listener->tcp);
    *listener = MESH_LISTENER_NONE;
}

int mesh_listener_address(const struct mesh_listener *listener, char ret_address[ADDRESS_SIZE])
{
    return tcp_local_address(listener->tcp, ret_address);
}

static int check_options(const struct mesh_options *options, struct error *error)
{
    if (!name_valid(options->job))
        return error_set(error, -EINVAL, "links: '%.63s' is not a name of a job", options->job);
    if (options->rank >= MESH_RANKS_MAX || options->peer_count >= MESH_RANKS_MAX)
        return error_set(error, -EINVAL, "links: rank %u with %u peers; at most %d ranks",
                         options->rank, options->peer_count, MESH_RANKS_MAX);
    if (options->failure_timeout_ns < FAILURE_TIMEOUT_MIN_NS)
        return error_set(error, -EINVAL, "links: a failure timeout below 20 ms");
    for (unsigned i = 0; i < options->peer_count; i++) {
        const struct mesh_peer *peer = &options->peers[i];
        int status = tcp_address_valid(peer->address, error);
        if (status < 0)
            return status;
        if (peer->rank == options->rank || peer->rank >= MESH_RANKS_MAX)
            return error_set(error, -EINVAL, "links: rank %u cannot be a peer of rank %u",
                             peer->rank, options->rank);
    }
    return 0;
}

static int init_peers(struct mesh *mesh, const struct mesh_options *options, struct error *error)
{
    mesh->peers = calloc(MAX(options->peer_count, 1u), sizeof(*mesh->peers));
    if (!mesh->peers)
        return error_set(error, -ENOMEM, "links: no memory for %u peers", options->peer_count);
    mesh->peer_count = options->peer_count;
    for (unsigned i = 0; i < options->peer_count; i++)
        mesh->peers[i].options = options->peers[i];
    qsort(mesh->peers, mesh->peer_count, sizeof(*mesh->peers), mesh_peer_compare);
    for (unsigned i = 0; i < mesh->peer_count; i++) {
        struct peer *peer = &mesh->peers[i];
        peer->mesh = mesh;
        inbox_init(&peer->inbox, 0);
        TAILQ_INIT(&peer->sends);
        TAILQ_INIT(&peer->bulk_sends);
        TAILQ_INIT(&peer->offers);
        if (i > 0 && peer[-1].options.rank == peer->options.rank)
            return error_set(error, -EINVAL, "links: rank %u is named twice", peer->options.rank);
    }
    return 0;
}

/* Divide the mesh's limit evenly among the peers without a share of their own. */
static void share_room(struct mesh *mesh, uint64_t unexpected_max_bytes)
{
    unsigned sharers = 0;
    for (unsigned i = 0; i < mesh->peer_count; i++)
        sharers += mesh->peers[i].options.unexpected_max_bytes == 0;
    for (unsigned i = 0; i < mesh->peer_count; i++)
        if (mesh->peers[i].options.unexpected_max_bytes == 0)
            mesh->peers[i].options.unexpected_max_bytes = unexpected_max_bytes / sharers;
}

static int init_descriptors(struct mesh *mesh, struct error *error)
{
    mesh->io.epoll = epoll_create1(EPOLL_CLOEXEC);
    mesh->io.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &mesh->io.wake};
    if (mesh->io.epoll < 0 || mesh->io.wake < 0 ||
        epoll_ctl(mesh->io.epoll, EPOLL_CTL_ADD, mesh->io.wake, &event) < 0)
        return error_set(error, -errno, "links: cannot poll: %s", strerror(errno));
    return 0;
}

static void init_locks(struct mesh *mesh)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&mesh->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&mesh->lock, NULL);
}

/* Block signals: the program's own threads handle them. */
static int start_thread(struct mesh *mesh, struct error *error)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = pthread_create(&mesh->io.thread, NULL, mesh_thread, mesh);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (problem != 0)
        return error_set(error, -problem, "links: cannot start a thread: %s", strerror(problem));
    mesh->io.started = true;
    return 0;
}

static void mesh_free(struct mesh *mesh)
{
    if (mesh->io.started)
        pthread_join(mesh->io.thread, NULL);
    pthread_mutex_lock(&mesh->lock);
    for (unsigned i = 0; i < mesh->peer_count; i++) {
        inbox_fail(&mesh->peers[i].inbox, -ECONNRESET);
        message_transfer_drop_sends(&mesh->peers[i], -ECONNRESET);
    }
    pthread_mutex_unlock(&mesh->lock);
    if (mesh->io.epoll >= 0)
        close(mesh->io.epoll);
    if (mesh->io.wake >= 0)
        close(mesh->io.wake);
    pthread_cond_destroy(&mesh->changed);
    pthread_mutex_destroy(&mesh->lock);
    sodium_memzero(mesh->identity.key, sizeof(mesh->identity.key));
    free(mesh->peers);
    free(mesh);
}

static int await_links(struct mesh *mesh, struct mesh_unreached *unreached, struct error *error)
{
    pthread_mutex_lock(&mesh->lock);
    while (!mesh->opening.over)
        pthread_cond_wait(&mesh->changed, &mesh->lock); /* the thread keeps the deadline */
    int result = mesh->opening.result;
    if (result < 0) {
        error_set(error, result, "%s", mesh->opening.error.text);
        if (unreached != NULL)
            *unreached = mesh->opening.unreached;
    }
    pthread_mutex_unlock(&mesh->lock);
    return result;
}

int mesh_open(const struct mesh_options *options, int cancel, struct mesh **ret_mesh,
              struct error *error)
{
    int status = check_options(options, error);
    if (status < 0)
        return status;
    if (sodium_init() < 0)
        return error_set(error, -EIO, "links: libsodium finds no randomness");
    struct mesh *mesh = calloc(1, sizeof(*mesh));
    if (!mesh)
        return error_set(error, -ENOMEM, "links: no memory");
    memcpy(mesh->identity.job, options->job, sizeof(mesh->identity.job));
    memcpy(mesh->identity.key, options->key, sizeof(mesh->identity.key));
    mesh->identity.generation = options->generation;
    mesh->identity.rank = options->rank;
    mesh->identity.checksums = options->checksums;
    mesh->listener = options->listener;
    mesh->cancel = cancel;
    mesh->terms.failure_timeout_ns = options->failure_timeout_ns;
    mesh->terms.connect_timeout_ns = options->connect_timeout_ns;
    mesh->terms.patient = options->patient;
    mesh->terms.any_address = options->any_address;
    mesh->io.epoll = mesh->io.wake = -1;
    TAILQ_INIT(&mesh->connections);
    init_locks(mesh);

    status = init_peers(mesh, options, error);
    share_room(mesh, options->unexpected_max_bytes ? options->unexpected_max_bytes
                                                   : MESH_UNEXPECTED_MAX_BYTES);
    if (status == 0)
        status = init_descriptors(mesh, error);
    if (status == 0)
        status = start_thread(mesh, error);
    if (status == 0)
        status = await_links(mesh, options->unreached, error);
    if (status < 0) {
        mesh_free(mesh);
        return status;
    }
    *ret_mesh = mesh;
    return 0;
}

void mesh_close(struct mesh *mesh)
{
    if (!mesh)
        return;
    pthread_mutex_lock(&mesh->lock);
    mesh->wishes.close = true;
    mesh_wake(mesh);
    pthread_mutex_unlock(&mesh->lock);
    mesh_free(mesh);
}

/* ---- failing ---- */

/* Call with the lock held. The I/O thread completes all requests; new requests are refused from now
 * on. */
static void abort_locked(struct mesh *mesh, const char *reason)
{
    if (mesh->failed || mesh->wishes.abort)
        return;
    mesh->wishes.abort = true;
    snprintf(mesh->wishes.abort_text, sizeof(mesh->wishes.abort_text), "%s", reason);
    mesh_wake(mesh);
}

void mesh_abort(struct mesh *mesh, const char *reason)
{
    pthread_mutex_lock(&mesh->lock);
    abort_locked(mesh, reason);
    pthread_mutex_unlock(&mesh->lock);
}

static void abort_about(struct mesh *mesh, const struct peer *peer, const char *what)
{
    char label[MESH_LABEL_SIZE], text[sizeof(mesh->wishes.abort_text)];
    peer_label(peer, label);
    snprintf(text, sizeof(text), "%s %s", label, what);
    abort_locked(mesh, text);
}

static bool failing(const struct mesh *mesh)
{
    return mesh->failed || mesh->wishes.abort;
}

void mesh_fault(struct mesh *mesh, struct mesh_fault *ret_fault)
{
    pthread_mutex_lock(&mesh->lock);
    *ret_fault = mesh->fault;
    if (!mesh->failed && mesh->wishes.abort) {
        ret_fault->failed = true;
        snprintf(ret_fault->text, sizeof(ret_fault->text), "%s", mesh->wishes.abort_text);
        snprintf(ret_fault->root_cause, sizeof(ret_fault->root_cause), "%s",
                 mesh->wishes.abort_text);
    }
    pthread_mutex_unlock(&mesh->lock);
}

bool mesh_broken(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    bool broken = failing(mesh);
    pthread_mutex_unlock(&mesh->lock);
    return broken;
}

/* ---- posting ---- */

/* With the lock. */
static int request_new(struct mesh *mesh, unsigned rank, uint64_t tag, size_t size_bytes,
                       struct mesh_request **ret_request)
{
    struct peer *peer = mesh_peer_find(mesh, rank);
    if (!peer || size_bytes > MESH_MESSAGE_MAX)
        return -EINVAL;
    if (failing(mesh))
        return -ECONNRESET;
    if (mesh->posted.count == MESH_REQUESTS_MAX)
        return -ENOBUFS;
    struct mesh_request *request = calloc(1, sizeof(*request));
    if (!request)
        return -ENOMEM;
    mesh->posted.count++;
    request->mesh = mesh;
    request->peer = peer;
    request->tag = tag;
    request->size_bytes = size_bytes;
    *ret_request = request;
    return 0;
}

static int copy_data(struct mesh_request *request, const void *data)
{
    struct mesh *mesh = request->mesh;
    if (request->size_bytes > MESH_COPY_MAX_BYTES)
        return -EMSGSIZE;
    if (mesh->posted.copied_bytes + request->size_bytes > MESH_COPIED_MAX_BYTES)
        return -ENOBUFS;
    request->copy = malloc(MAX(request->size_bytes, (size_t)1));
    if (!request->copy)
        return -ENOMEM;
    if (request->size_bytes > 0)
        memcpy(request->copy, data, request->size_bytes);
    request->item.data = request->copy;
    mesh->posted.copied_bytes += request->size_bytes;
    return 0;
}

static int send_locked(struct mesh *mesh, unsigned rank, uint64_t tag, const void *data,
                       size_t size_bytes, bool bulk, struct mesh_request **ret_request)
{
    struct mesh_request *request;
    int status = request_new(mesh, rank, tag, size_bytes, &request);
    if (status < 0)
        return status;
    request->item.data = data;
    request->item.size_bytes = size_bytes;
    request->item.bulk = bulk;
    if (!ret_request) {
        status = copy_data(request, data);
        if (status < 0) {
            request_free(request);
            return status;
        }
    }
    if (ret_request)
        *ret_request = request;
    if (request->peer->left) {
        message_transfer_send_done(request, 0); /* the peer has sent BYE: count the message as lost
                                                 * in flight */
        return 0;
    }
    TAILQ_INSERT_TAIL(bulk ? &request->peer->bulk_sends : &request->peer->sends, request, entry);
    mesh_wake(mesh);
    return 0;
}

int mesh_send(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data, size_t size_bytes,
              struct mesh_request **ret_request)
{
    pthread_mutex_lock(&mesh->lock);
    int status = send_locked(mesh, peer, tag, data, size_bytes, false, ret_request);
    pthread_mutex_unlock(&mesh->lock);
    return status;
}

int mesh_send_bulk(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data,
                   size_t size_bytes, struct mesh_request **ret_request)
{
    pthread_mutex_lock(&mesh->lock);
    int status = send_locked(mesh, peer, tag, data, size_bytes, true, ret_request);
    pthread_mutex_unlock(&mesh->lock);
    return status;
}

/* Match the receive with its message, or queue it. Call with the lock held. */
static int post_receive(struct mesh_request *request)
{
    struct mesh *mesh = request->mesh;
    struct peer *peer = request->peer;
    size_t came_bytes;
    int status = inbox_post(&peer->inbox, request, &came_bytes);
    if (status < 0) {
        char what[128];
        snprintf(what, sizeof(what), "sent %zu bytes with tag 0x%llx where %zu were expected",
                 came_bytes, (unsigned long long)request->tag, request->size_bytes);
        abort_about(mesh, peer, what);
        return status;
    }
    bool posted = !request->done && !request->message;
    if (posted && peer->left)
        abort_about(mesh, peer, "left, and one more message was expected of it");
    else if (!TAILQ_EMPTY(&peer->inbox.accepting) || inbox_owes(&peer->inbox))
        mesh_wake(mesh);
    return 0;
}

int mesh_receive(struct mesh *mesh, unsigned peer, uint64_t tag, void *data, size_t size_bytes,
                 struct mesh_request **ret_request)
{
    struct mesh_request *request;
    pthread_mutex_lock(&mesh->lock);
    int status = request_new(mesh, peer, tag, size_bytes, &request);
    if (status == 0) {
        request->data = data;
        status = post_receive(request);
        if (status < 0)
            request_free(request);
        else
            *ret_request = request;
    }
    pthread_mutex_unlock(&mesh->lock);
    return status;
}

/* ---- waiting ---- */

void mesh_meanwhile(struct mesh *mesh, void (*look)(void *context), void *context)
{
    pthread_mutex_lock(&mesh->lock);
    mesh->meanwhile = (struct mesh_meanwhile){.look = look,
                                              .context = context,
                                              .thread = pthread_self(),
                                              .next_ns = clock_monotonic_ns() + MEANWHILE_NS};
    pthread_mutex_unlock(&mesh->lock);
}

/* Call with the lock held; it is released during the callback. */
static void look_meanwhile(struct mesh *mesh)
{
    const struct mesh_meanwhile meanwhile = mesh->meanwhile;
    mesh->meanwhile.looks = true;
    pthread_mutex_unlock(&mesh->lock);
    meanwhile.look(meanwhile.context);
    pthread_mutex_lock(&mesh->lock);
    mesh->meanwhile.looks = false;
    mesh->meanwhile.next_ns = clock_monotonic_ns() + MEANWHILE_NS;
}

/* Call with the lock held. Return: false when the deadline passed first. */
static bool wait_until(struct mesh *mesh, uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX) {
        pthread_cond_wait(&mesh->changed, &mesh->lock);
        return true;
    }
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / NS_PER_SECOND),
        .tv_nsec = (long)(deadline_ns % NS_PER_SECOND),
    };
    return pthread_cond_timedwait(&mesh->changed, &mesh->lock, &deadline) != ETIMEDOUT;
}

/* Do the same, and call the callback of mesh_meanwhile() when it is due. */
static bool wait_changed(struct mesh *mesh, uint64_t deadline_ns)
{
    const struct mesh_meanwhile *meanwhile = &mesh->meanwhile;
    bool looks =
        meanwhile->look && !meanwhile->looks && pthread_equal(meanwhile->thread, pthread_self());
    if (!looks || deadline_ns <= meanwhile->next_ns)
        return wait_until(mesh, deadline_ns);
    (void)wait_until(mesh, meanwhile->next_ns);
    if (clock_monotonic_ns() >= meanwhile->next_ns)
        look_meanwhile(mesh);
    return true;
}

bool mesh_await_fault(struct mesh *mesh, uint64_t deadline_ns)
{
    pthread_mutex_lock(&mesh->lock);
    while (!failing(mesh) && wait_changed(mesh, deadline_ns))
        continue;
    bool failed = failing(mesh);
    pthread_mutex_unlock(&mesh->lock);
    return failed;
}

bool mesh_await(struct mesh *mesh, bool (*may_go_on)(const void *context), const void *context)
{
    pthread_mutex_lock(&mesh->lock);
    while (!failing(mesh) && !may_go_on(context))
        wait_changed(mesh, UINT64_MAX);
    bool failed = failing(mesh);
    pthread_mutex_unlock(&mesh->lock);
    return failed;
}

void mesh_ask_again(struct mesh *mesh)
{
    pthread_mutex_lock(&mesh->lock);
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

/* Wait until the request is done; the I/O thread completes it in every case. Call with the lock
 * held. */
static int await_done(struct mesh_request *request, uint64_t deadline_ns)
{
    struct mesh *mesh = request->mesh;
    bool late = false;
    if (request->done)
        return request->result;
    uint64_t begin_ns = clock_monotonic_ns();
    while (!request->done) {
        if (wait_changed(mesh, late ? UINT64_MAX : deadline_ns) || request->done)
            continue;
        late = true;
        abort_about(mesh, request->peer, "was waited for until a deadline passed");
    }
    atomic_fetch_add_explicit(&mesh->counters.wait_ns, clock_monotonic_ns() - begin_ns,
                              memory_order_relaxed);
    return late && request->result == -ECONNRESET ? -ETIMEDOUT : request->result;
}

/* Copy the bytes of a message that arrived before its receive was posted. Call without the lock,
 * because the copy may take long. */
static void fill_from_message(struct mesh_request *request)
{
    if (request->size_bytes > 0)
        memcpy(request->data, request->message->data, request->size_bytes);
}

static void request_free_unlocked(struct mesh_request *request)
{
    struct mesh *mesh = request->mesh;
    pthread_mutex_lock(&mesh->lock);
    request_free(request);
    pthread_mutex_unlock(&mesh->lock);
}

int mesh_wait(struct mesh_request *request, uint64_t deadline_ns)
{
    struct mesh *mesh = request->mesh;
    pthread_mutex_lock(&mesh->lock);
    int result = await_done(request, deadline_ns);
    pthread_mutex_unlock(&mesh->lock);
    if (result == 0 && request->message)
        fill_from_message(request);
    request_free_unlocked(request);
    return result;
}

void mesh_await_any(struct mesh *mesh, struct mesh_request *const *requests, unsigned count)
{
    uint64_t began_ns = clock_monotonic_ns();
    bool done = false;
    pthread_mutex_lock(&mesh->lock);
    while (!done) {
        for (unsigned i = 0; i < count; i++)
            done = done || (requests[i] && requests[i]->done);
        done = done || failing(mesh);
        if (!done)
            wait_changed(mesh, UINT64_MAX);
    }
    pthread_mutex_unlock(&mesh->lock);
    atomic_fetch_add_explicit(&mesh->counters.wait_ns, clock_monotonic_ns() - began_ns,
                              memory_order_relaxed);
}

bool mesh_test(struct mesh_request *request)
{
    struct mesh *mesh = request->mesh;
    pthread_mutex_lock(&mesh->lock);
    bool done = request->done;
    pthread_mutex_unlock(&mesh->lock);
    return done;
}

/* Wait until a message of that tag has arrived or been offered. Call with the lock held. */
static int await_message(struct peer *peer, uint64_t tag, uint64_t deadline_ns,
                         struct message **ret_message)
{
    struct mesh *mesh = peer->mesh;
    for (;;) {
        if (failing(mesh))
            return -ECONNRESET;
        struct message *message = inbox_find(&peer->inbox, tag);
        if (message) {
            *ret_message = message;
            return 0;
        }
        if (peer->left) {
            abort_about(mesh, peer, "left, and one more message was expected of it");
            return -ECONNRESET;
        }
        if (!wait_changed(mesh, deadline_ns) && !inbox_find(&peer->inbox, tag))
            return failing(mesh) ? -ECONNRESET : -ETIMEDOUT;
    }
}

/* Post a receive of the found message's size. Call with the lock held. */
static int receive_found(struct peer *peer, const struct message *message,
                         struct mesh_request **ret_request)
{
    struct mesh *mesh = peer->mesh;
    uint8_t *data = NULL;
    struct mesh_request *request;
    int status = request_new(mesh, peer->options.rank, message->tag, message->size_bytes, &request);
    if (status < 0)
        return status;
    if (message->offered) { /* a message that has arrived has its own memory */
        data = malloc(MAX(message->size_bytes, (size_t)1));
        if (!data) {
            request_free(request);
            return -ENOMEM;
        }
    }
    request->data = data;
    status = post_receive(request);
    assert(status == 0);
    *ret_request = request;
    return status;
}

int mesh_receive_any(struct mesh *mesh, unsigned peer_rank, uint64_t tag, uint64_t deadline_ns,
                     void **ret_data, size_t *ret_size_bytes)
{
    struct peer *peer = mesh_peer_find(mesh, peer_rank);
    struct message *message;
    struct mesh_request *request = NULL;
    if (!peer)
        return -EINVAL;
    pthread_mutex_lock(&mesh->lock);
    int status = await_message(peer, tag, deadline_ns, &message);
    if (status == 0)
        status = receive_found(peer, message, &request);
    if (status == 0)
        status = await_done(request, UINT64_MAX);
    if (request) {
        uint8_t **owner = request->message ? &request->message->data : &request->data;
        if (status == 0) {
            *ret_data = *owner;
            *ret_size_bytes = request->size_bytes;
        } else {
            free(*owner);
        }
        *owner = NULL;
        request_free(request);
    }
    pthread_mutex_unlock(&mesh->lock);
    return status;
}

void mesh_statistics(struct mesh *mesh, struct mesh_statistics *ret_statistics)
{
    *ret_statistics = (struct mesh_statistics){
        .bytes_sent = atomic_load_explicit(&mesh->counters.bytes_sent, memory_order_relaxed),
        .bytes_received =
            atomic_load_explicit(&mesh->counters.bytes_received, memory_order_relaxed),
        .messages_sent = atomic_load_explicit(&mesh->counters.messages_sent, memory_order_relaxed),
        .messages_received =
            atomic_load_explicit(&mesh->counters.messages_received, memory_order_relaxed),
        .wait_ns = atomic_load_explicit(&mesh->counters.wait_ns, memory_order_relaxed),
        .turned_away = atomic_load_explicit(&mesh->counters.turned_away, memory_order_relaxed),
    };
}

uint64_t mesh_thread_ns(const struct mesh *mesh)
{
    struct timespec time = {0};
    clockid_t clock;

    if (pthread_getcpuclockid(mesh->io.thread, &clock) || clock_gettime(clock, &time))
        return 0;
    return (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
}
