/*
 * Make the links of one generation: the higher rank connects to the lower.
 *
 * The listener outlives generations and accepts no connection while a mesh is open. So a connection
 * may wait in the backlog, half open, until the acceptor reaches the same generation. A connector
 * gives such an attempt up well before its deadline and retries. The acceptor later reads the
 * abandoned connection as a HELLO followed by end of file and drops it. If the acceptor is ready
 * before that, it serves the waiting connection at once.
 *
 * Every failed attempt is retried (10 ms doubling to 200 ms) until the deadline. One answer ends
 * the wait: a FAULT from a peer whose mesh of this generation has already failed. A link that
 * breaks before all are up is made again.
 *
 * Peers of one node find each other's local listener (local.h). The following rules about addresses
 * and floods apply to TCP.
 *
 * A connection from an address that no peer has is closed unread. Peers bind their outgoing
 * connections to their address in the plan, so a node with several addresses is recognized.
 * Addresses of a plan are numbers: they are compared as bytes, and no name server is asked.
 *
 * Strangers at an address of a peer may connect as often as they like: the number of handshakes in
 * flight is bounded per address. With `any_address`, which admits translated addresses, all
 * addresses that no peer has share one such bound, so that they cannot displace a peer. A
 * connection whose HELLO names this generation and a missing rank is dropped only for a newer
 * connection of the same rank. While a mesh is open the backlog is kept short, so that the next
 * generation's connectors find room in it.
 *
 * Peers that join later still compute an operation of the generation before, perhaps for half an
 * hour. The timeout starts when all of them are linked; it then finds two new workers that lost
 * each other during the wait. Without a timeout any peer may be as late, because it reads its
 * state from a slow disk. Connections to such a peer wait in its backlog. They are renewed seldom,
 * so that the backlog is not full of abandoned connections when the peer accepts.
 *
 * A host that answers no attempt at all, not even with a refusal, ends the wait before the
 * deadline: a kernel answers at once, even if its worker is busy, so this host is dead or behind a
 * netsplit. Peers that learn of it by a FAULT may have begun a little later, so they list ranks
 * after a shorter silence (TIMEOUTS_UNREACHED_TOO).
 */
#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/timeouts.h"
#include "comm/mesh/local.h"
#include "comm/mesh/mesh_state.h"
#include "comm/mesh/tcp.h"

#define BACKOFF_MIN_NS   (10 * NS_PER_MS)
#define BACKOFF_MAX_NS   (200 * NS_PER_MS)
#define ATTEMPT_MIN_NS   (100 * NS_PER_MS)
#define ATTEMPT_MAX_NS   (2 * NS_PER_SECOND)
#define LISTEN_PAUSE_NS  (100 * NS_PER_MS) /* after accept() failed without free descriptors */
#define STRANGERS_MAX    16 /* of one address of the plan, plus its peers; of all other addresses */
#define ACCEPTS_PER_TURN 64
#define STRANGERS_LOG_NS (10 * NS_PER_SECOND) /* between two lines about addresses of strangers */

static bool expects(void *context, unsigned rank)
{
    return mesh_peer_find(context, rank);
}

static bool connects_to(const struct mesh *mesh, const struct peer *peer)
{
    return mesh->identity.rank > peer->options.rank;
}

static bool wants_attempt(const struct peer *peer)
{
    return connects_to(peer->mesh, peer) && !peer->up && !peer->connection;
}

/* Return whether the peer's host sent nothing for @timeouts in which this process ran. */
static bool is_unreached(const struct mesh *mesh, const struct peer *peer, unsigned timeouts)
{
    return connects_to(mesh, peer) && !peer->up && !peer->answered &&
           mesh->watch.attention_ns >= timeouts * mesh->terms.failure_timeout_ns;
}

static bool somebody_is_unreached(const struct mesh *mesh)
{
    for (unsigned i = 0; i < mesh->peer_count; i++)
        if (is_unreached(mesh, &mesh->peers[i], TIMEOUTS_UNREACHED))
            return true;
    return false;
}

/* Call with the lock held. */
static void list_unreached(struct mesh *mesh)
{
    struct mesh_unreached *list = &mesh->opening.unreached;
    for (unsigned i = 0; i < mesh->peer_count && list->count < MESH_UNREACHED_MAX; i++)
        if (is_unreached(mesh, &mesh->peers[i], TIMEOUTS_UNREACHED_TOO))
            list->ranks[list->count++] = mesh->peers[i].options.rank;
}

static bool waits_without_limit(const struct mesh *mesh)
{
    return mesh->rendezvous.deadline_ns == UINT64_MAX;
}

static uint64_t deadline_ns(const struct mesh *mesh)
{
    return mesh->terms.connect_timeout_ns == MESH_NO_TIMEOUT
               ? UINT64_MAX
               : mesh->now_ns + mesh->terms.connect_timeout_ns;
}

/* Return the deadline of one attempt: many attempts must fit into the remaining time. */
static uint64_t attempt_deadline_ns(const struct mesh *mesh)
{
    if (waits_without_limit(mesh))
        return mesh->now_ns + TIMEOUTS_LATE_ATTEMPT * mesh->terms.failure_timeout_ns;
    uint64_t left_ns = mesh->rendezvous.deadline_ns > mesh->now_ns
                           ? mesh->rendezvous.deadline_ns - mesh->now_ns
                           : 0;
    return mesh->now_ns + MIN(MAX(left_ns / 4, (uint64_t)ATTEMPT_MIN_NS), (uint64_t)ATTEMPT_MAX_NS);
}

static bool watch(struct mesh *mesh, int descriptor, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = &mesh->listener};
    return epoll_ctl(mesh->io.epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

static void unwatch_listener(struct mesh *mesh)
{
    epoll_ctl(mesh->io.epoll, EPOLL_CTL_DEL, mesh->listener.tcp, NULL);
    if (mesh->listener.local >= 0)
        epoll_ctl(mesh->io.epoll, EPOLL_CTL_DEL, mesh->listener.local, NULL);
}

static void listen_again(struct mesh *mesh)
{
    const struct mesh_listener *listener = &mesh->listener;
    mesh->rendezvous.listening = watch(mesh, listener->tcp, EPOLLIN) &&
                                 (listener->local < 0 || watch(mesh, listener->local, EPOLLIN));
    mesh->rendezvous.listen_retry_ns = mesh->now_ns + LISTEN_PAUSE_NS;
    if (!mesh->rendezvous.listening)
        unwatch_listener(mesh);
}

static void listen_pause(struct mesh *mesh)
{
    if (mesh->rendezvous.listening)
        unwatch_listener(mesh);
    mesh->rendezvous.listening = false;
    mesh->rendezvous.listen_retry_ns = mesh->now_ns + LISTEN_PAUSE_NS;
}

static void drop_strangers(struct mesh *mesh)
{
    struct connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        if (!connection->peer)
            connection_close(connection);
    }
}

static void log_strangers(struct mesh *mesh)
{
    uint64_t count = atomic_load(&mesh->counters.turned_away);
    char text[TCP_HOST_TEXT_SIZE];

    if (count == mesh->rendezvous.strangers_told)
        return;
    tcp_host_text(&mesh->rendezvous.newest_stranger, text);
    log_warning("closed %llu connection(s) to the links of generation %llu from addresses that no "
                "peer has, the newest from %s: if this is a node behind a translated address, set "
                "link_addresses: any in firnd.yaml of every node",
                (unsigned long long)(count - mesh->rendezvous.strangers_told),
                (unsigned long long)mesh->identity.generation, text);
    mesh->rendezvous.strangers_told = count;
    mesh->rendezvous.strangers_told_ns = mesh->now_ns;
}

void rendezvous_end(struct mesh *mesh, int result, const char *text)
{
    listen_pause(mesh);
    log_strangers(mesh);
    if (mesh->cancel >= 0)
        epoll_ctl(mesh->io.epoll, EPOLL_CTL_DEL, mesh->cancel, NULL);
    drop_strangers(mesh);
    if (result == 0) {
        mesh->phase = MESH_OPEN;
        (void)watch(mesh, mesh->listener.tcp, EPOLLIN | EPOLLET); /* to thin its backlog */
    } else
        farewell_give_up(mesh, text);
    pthread_mutex_lock(&mesh->lock);
    mesh->opening.over = true;
    mesh->opening.result = result;
    if (result < 0) {
        list_unreached(mesh);
        error_set(&mesh->opening.error, result, "links of generation %llu: %s",
                  (unsigned long long)mesh->identity.generation, text);
    }
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

/* Return whether a peer that joins later is not linked yet. */
static bool somebody_joins_later(const struct mesh *mesh)
{
    for (unsigned i = 0; i < mesh->peer_count; i++)
        if (mesh->peers[i].options.joins_later && !mesh->peers[i].up)
            return true;
    return false;
}

void rendezvous_begin(struct mesh *mesh)
{
    mesh->rendezvous.deadline_ns = deadline_ns(mesh);
    mesh->identity.expects = expects;
    mesh->identity.context = mesh;
    mesh->rendezvous.local_identity = mesh->identity;
    mesh->rendezvous.local_identity.checksums = true;
    listen_again(mesh);
    if (mesh->cancel >= 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &mesh->cancel};
        epoll_ctl(mesh->io.epoll, EPOLL_CTL_ADD, mesh->cancel, &event);
    }
    for (unsigned i = 0; i < mesh->peer_count; i++) {
        mesh->peers[i].host = tcp_host_of(mesh->peers[i].options.address);
        mesh->peers[i].retry_ns = mesh->now_ns;
        mesh->peers[i].backoff_ns = BACKOFF_MIN_NS;
    }
    if (somebody_joins_later(mesh))
        mesh->rendezvous.deadline_ns = UINT64_MAX;
}

/* ---- a link that is lost, or proven ---- */

static void retry_later(struct peer *peer)
{
    peer->retry_ns = peer->mesh->now_ns + peer->backoff_ns;
    peer->backoff_ns = MIN(2 * peer->backoff_ns, (uint64_t)BACKOFF_MAX_NS);
}

static void forget_link(struct peer *peer)
{
    if (peer->up)
        peer->mesh->rendezvous.up_count--;
    peer->up = false;
}

static void lose_stranger(struct connection *connection, int code)
{
    /* Try once to send the refusal; do not wait for it. */
    if (code != -ESHUTDOWN && frame_stream_send(&connection->stream) < 0)
        code = -ESHUTDOWN;
    struct peer *peer = mesh_peer_find(connection->mesh, connection->handshake.peer_rank);
    if (code == -EPERM && peer && !peer->up && peer->problem != code) {
        log_warning("a connection that claims to be rank %u does not know the key of generation "
                    "%llu, refused",
                    connection->handshake.peer_rank,
                    (unsigned long long)connection->mesh->identity.generation);
        peer->problem = code;
    }
    connection_close(connection);
}

void rendezvous_lost(struct connection *connection, int code)
{
    struct mesh *mesh = connection->mesh;
    struct peer *peer = connection->peer;
    if (!peer) {
        lose_stranger(connection, code);
        return;
    }
    forget_link(peer);
    peer->answered = peer->answered || code == -ECONNREFUSED;
    if (code == -EPERM && peer->problem != code)
        log_warning("rank %u at %s has another key for generation %llu", peer->options.rank,
                    peer->options.address, (unsigned long long)mesh->identity.generation);
    peer->problem = code;
    connection_close(connection);
    retry_later(peer);
}

/* The peer's first credit has arrived: the peer relies on the link, and messages can be sent at
 * once. */
void rendezvous_ready(struct peer *peer)
{
    struct mesh *mesh = peer->mesh;
    if (!peer->up)
        mesh->rendezvous.up_count++;
    peer->up = true;
    if (waits_without_limit(mesh) && !somebody_joins_later(mesh))
        mesh->rendezvous.deadline_ns = deadline_ns(mesh);
}

/* Accept only sealed frames from here on. */
static int seal_stream(struct connection *connection)
{
    uint8_t key_out[FRAME_SEAL_KEY_SIZE], key_in[FRAME_SEAL_KEY_SIZE];
    handshake_keys(&connection->handshake, key_out, key_in);
    int status = frame_stream_seal(&connection->stream, handshake_seals(&connection->handshake),
                                   key_out, key_in);
    sodium_memzero(key_out, sizeof(key_out));
    sodium_memzero(key_in, sizeof(key_in));
    return status;
}

/* Keep a peer's newest authenticated connection: an older one is left from a lost attempt. */
static int link_proven(struct connection *connection)
{
    struct mesh *mesh = connection->mesh;
    struct peer *peer = connection->peer;
    int status = seal_stream(connection);
    if (status < 0)
        return status;
    if (!peer) {
        peer = mesh_peer_find(mesh, connection->handshake.peer_rank);
        if (peer->connection)
            connection_close(peer->connection);
        forget_link(peer);
        mesh->rendezvous.stranger_count--;
        connection->peer = peer;
        peer->connection = connection;
    }
    connection->state = CONNECTION_UP;
    connection->heard_ns = mesh->watch.attention_ns;
    link_set_timeout(connection->link, mesh->terms.failure_timeout_ns);
    peer->problem = 0;
    return message_transfer_begin(connection);
}

/* Only a holder of the key knows the generation, so an older attempt is the same peer's. */
static void drop_older_attempt(const struct connection *newest)
{
    struct connection *connection;
    TAILQ_FOREACH(connection, &newest->mesh->connections, entry)
    {
        if (connection != newest && !connection->peer && connection->state != CONNECTION_CLOSED &&
            handshake_fits(&connection->handshake) &&
            connection->handshake.peer_rank == newest->handshake.peer_rank)
            connection_close(connection);
    }
}

static int greeting_step(struct connection *connection, const struct frame *frame,
                         const uint8_t *payload)
{
    struct mesh *mesh = connection->mesh;
    struct handshake_reply reply;
    int status = handshake_step(&connection->handshake, frame, payload, &reply);
    if (reply.present) {
        connection->stream.generation = reply.frame.generation; /* a stranger gets its own back */
        connection->stream.source = reply.frame.source;
        int put = frame_stream_put(&connection->stream, reply.frame.type, reply.frame.tag, 0,
                                   reply.payload, reply.frame.length);
        if (put < 0)
            return put;
    }
    if (status < 0)
        return status;
    if (handshake_fits(&connection->handshake))
        drop_older_attempt(connection);
    /* The peer answered. Do not give up an attempt that may succeed: the other side may already
     * rely on it. */
    connection->deadline_ns = mesh->now_ns + MAX(mesh->terms.failure_timeout_ns, ATTEMPT_MAX_NS);
    return connection->handshake.state == HANDSHAKE_PROVEN ? link_proven(connection) : 0;
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
    return greeting_step(context, frame, payload);
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

static const struct handshake_identity *identity_on(const struct connection *connection)
{
    const struct mesh *mesh = connection->mesh;
    return connection->local ? &mesh->rendezvous.local_identity : &mesh->identity;
}

/* ---- accepting ---- */

/* Count the peers that the plan has at @host. */
static unsigned peers_at(const struct mesh *mesh, const struct tcp_host *host)
{
    unsigned count = 0;
    for (unsigned i = 0; i < mesh->peer_count; i++)
        count += tcp_host_equal(&mesh->peers[i].host, host);
    return count;
}

static bool is_stranger(const struct connection *connection)
{
    return !connection->peer && !connection->local && connection->state != CONNECTION_CLOSED &&
           !handshake_fits(&connection->handshake);
}

/* Return whether two connections count against the same bound: each host of the plan has its own,
 * all other hosts share one. */
static bool share_one(const struct mesh *mesh, const struct tcp_host *host, bool known,
                      const struct connection *connection)
{
    return known ? tcp_host_equal(host, &connection->host) : !peers_at(mesh, &connection->host);
}

/* Make room for one more handshake from @host: drop the oldest that shares its bound. */
static void evict_stranger(struct mesh *mesh, const struct tcp_host *host)
{
    unsigned peers = peers_at(mesh, host), count = 0;
    struct connection *connection, *oldest = NULL;
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        if (!is_stranger(connection) || !share_one(mesh, host, peers > 0, connection))
            continue;
        oldest = oldest ? oldest : connection;
        count++;
    }
    if (oldest && count >= STRANGERS_MAX + peers)
        connection_close(oldest);
}

/* Count the connection and log it: the first at once, the others together. */
static void turn_away(struct mesh *mesh, struct link *link, const struct tcp_host *host)
{
    link_free(link);
    atomic_fetch_add(&mesh->counters.turned_away, 1);
    mesh->rendezvous.newest_stranger = *host;
    if (mesh->rendezvous.strangers_told == 0 ||
        mesh->now_ns >= mesh->rendezvous.strangers_told_ns + STRANGERS_LOG_NS)
        log_strangers(mesh);
}

static bool may_connect(const struct mesh *mesh, const struct tcp_host *host)
{
    return mesh->terms.any_address || peers_at(mesh, host) > 0;
}

/* Return whether the sender's address may connect; make room for its handshake. */
static bool admit(struct mesh *mesh, const struct tcp_host *host)
{
    if (!may_connect(mesh, host))
        return false;
    evict_stranger(mesh, host);
    return true;
}

static void accept_link(struct mesh *mesh, struct link *link, bool local)
{
    uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE];
    struct tcp_host host = local ? (struct tcp_host){0} : tcp_host_of_peer(link);
    if (!local && !admit(mesh, &host)) {
        turn_away(mesh, link, &host);
        return;
    }
    struct connection *connection = connection_new(mesh, link, NULL, &greeting_events);
    if (!connection) {
        link_free(link);
        return;
    }
    connection->host = host;
    connection->local = local;
    randombytes_buf(challenge, sizeof(challenge));
    handshake_accept(&connection->handshake, identity_on(connection), challenge);
    connection->state = CONNECTION_GREETING;
    connection->deadline_ns = mesh->now_ns + ATTEMPT_MAX_NS;
    /* A HELLO that has arrived already distinguishes a peer from a stranger. */
    int status = connection_receive(connection);
    if (status < 0)
        rendezvous_lost(connection, status);
}

/* Keep a flood of connections from filling the backlog while a mesh is open; serve none of them. */
void rendezvous_thin(struct mesh *mesh)
{
    tcp_thin(mesh->listener.tcp);
}

static void accept_waiting(struct mesh *mesh, bool local)
{
    for (unsigned i = 0; i < ACCEPTS_PER_TURN && mesh->phase == MESH_OPENING; i++) {
        struct link *link;
        int status = local ? local_accept(mesh->listener.local, &link)
                           : tcp_accept(mesh->listener.tcp, &link);
        if (status == -EAGAIN)
            return;
        if (status == -EACCES && local)
            continue;
        if (status < 0) {
            log_warning("cannot accept a link: %s", strerror(-status));
            listen_pause(mesh);
            return;
        }
        accept_link(mesh, link, local);
    }
}

/* A flood at one listener must not delay peers at the other. */
void rendezvous_accept(struct mesh *mesh)
{
    accept_waiting(mesh, false);
    if (mesh->listener.local >= 0)
        accept_waiting(mesh, true);
}

/* ---- connecting ---- */

static int connect_link(const struct peer *peer, struct link **ret_link, bool *ret_local)
{
    const char *address = peer->options.address;
    *ret_local = peer->options.same_node && local_connect(address, ret_link) == 0;
    return *ret_local ? 0 : tcp_connect(address, peer->mesh->listener.tcp, ret_link);
}

static void connect_peer(struct peer *peer)
{
    struct mesh *mesh = peer->mesh;
    struct link *link;
    bool local;
    int status = connect_link(peer, &link, &local);
    if (status < 0) {
        peer->problem = status;
        peer->answered = peer->answered || status == -ECONNREFUSED;
        retry_later(peer);
        return;
    }
    struct connection *connection = connection_new(mesh, link, peer, &greeting_events);
    if (!connection) {
        link_free(link);
        peer->problem = -ENOMEM;
        retry_later(peer);
        return;
    }
    connection->local = local;
    connection->state = CONNECTION_CONNECTING;
    connection->deadline_ns = attempt_deadline_ns(mesh);
    peer->connection = connection;
}

void rendezvous_connected(struct connection *connection)
{
    uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE];
    struct handshake_reply hello;
    randombytes_buf(challenge, sizeof(challenge));
    handshake_connect(&connection->handshake, identity_on(connection),
                      connection->peer->options.rank, challenge, &hello);
    connection->state = CONNECTION_GREETING;
    connection->peer->answered = true;
    int status = frame_stream_put(&connection->stream, hello.frame.type, hello.frame.tag, 0,
                                  hello.payload, hello.frame.length);
    if (status < 0)
        rendezvous_lost(connection, status);
}

static const char *problem_text(const struct mesh *mesh, const struct peer *peer)
{
    switch (peer->problem) {
    case 0:
        return connects_to(mesh, peer) ? "does not answer" : "has not connected";
    case -ETIMEDOUT:
        return "does not answer";
    case -EBUSY:
        return "refuses: it is at another generation, runs another job, or has another key";
    case -EPERM:
        return "has another key";
    case -EPROTO:
        return "is not a firn worker of this version";
    case -ESHUTDOWN:
        return "closed the connection";
    default:
        return strerror(-peer->problem);
    }
}

static void end_late(struct mesh *mesh)
{
    char text[ERROR_TEXT_SIZE / 2] = "", label[MESH_LABEL_SIZE];
    size_t used = 0;
    int result = -ETIMEDOUT;
    for (unsigned i = 0; i < mesh->peer_count; i++) {
        const struct peer *peer = &mesh->peers[i];
        if (peer->up)
            continue;
        if (peer->problem == -EPERM)
            result = -EPERM;
        peer_label(peer, label);
        int count = snprintf(text + used, sizeof(text) - used, "%s%s %s", used ? ", " : "", label,
                             problem_text(mesh, peer));
        if (count < 0 || (size_t)count >= sizeof(text) - used)
            break;
        used += (size_t)count;
    }
    rendezvous_end(mesh, result, text);
}

void rendezvous_tick(struct mesh *mesh)
{
    struct connection *connection;
    if (mesh->rendezvous.up_count == mesh->peer_count) {
        rendezvous_end(mesh, 0, NULL);
        return;
    }
    if (mesh->now_ns >= mesh->rendezvous.deadline_ns ||
        (!mesh->terms.patient && somebody_is_unreached(mesh))) {
        end_late(mesh);
        return;
    }
    if (!mesh->rendezvous.listening && mesh->now_ns >= mesh->rendezvous.listen_retry_ns)
        listen_again(mesh);
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        if ((connection->state == CONNECTION_CONNECTING ||
             connection->state == CONNECTION_GREETING) &&
            mesh->now_ns >= connection->deadline_ns)
            rendezvous_lost(connection, -ETIMEDOUT);
    }
    for (unsigned i = 0; i < mesh->peer_count; i++) {
        struct peer *peer = &mesh->peers[i];
        if (wants_attempt(peer) && mesh->now_ns >= peer->retry_ns)
            connect_peer(peer);
    }
}

uint64_t rendezvous_due_ns(const struct mesh *mesh)
{
    uint64_t due_ns = mesh->rendezvous.deadline_ns;
    const struct connection *connection;
    if (!mesh->rendezvous.listening)
        due_ns = MIN(due_ns, mesh->rendezvous.listen_retry_ns);
    TAILQ_FOREACH(connection, &mesh->connections, entry)
    {
        if (connection->state == CONNECTION_CONNECTING || connection->state == CONNECTION_GREETING)
            due_ns = MIN(due_ns, connection->deadline_ns);
    }
    for (unsigned i = 0; i < mesh->peer_count; i++) {
        const struct peer *peer = &mesh->peers[i];
        if (wants_attempt(peer))
            due_ns = MIN(due_ns, peer->retry_ns);
    }
    return due_ns;
}
