/*
 * The state that the files of the mesh share: the mesh, its peers, its connections.
 *
 *     mesh.c         the callers' side: posting, waiting, opening, closing
 *     mesh_thread.c  the I/O thread: poll, take posted requests, heartbeats, silence
 *     rendezvous.c   making the links of a generation
 *     message_transfer.c     messages, offers and credit on a link that is up
 *     mesh_fault.c   failing, and leaving in good order
 *
 * State has two kinds. A member marked "lock" belongs to the thread that holds mesh->lock. Every
 * other member belongs to the I/O thread. The I/O thread reads and writes sockets, and the callers'
 * buffers, without the lock; a request's buffers belong to the I/O thread until the request is
 * done. Only the I/O thread completes requests, except that mesh_receive() completes a receive
 * whose message is already here. So when mesh_wait() returns, no thread touches the buffer any
 * more, after a failure too.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/queue.h>

#include "comm/mesh/failure_detector.h"
#include "comm/mesh/frame_stream.h"
#include "comm/mesh/handshake.h"
#include "comm/mesh/inbox.h"
#include "comm/mesh/link.h"
#include "comm/mesh/mesh.h"
#include "comm/mesh/request.h"
#include "comm/mesh/tcp.h"

#define MESH_UNEXPECTED_MAX_BYTES (256ull << 20) /* default of the options */
#define MESH_COPIED_MAX_BYTES     (64ull << 20)  /* of all sends without a handle */
#define MESH_COPY_MAX_BYTES       (1ull << 20)   /* of one */
#define MESH_REQUESTS_MAX         65536          /* posted and not waited for */
#define MESH_LABEL_SIZE           (MESH_NAME_SIZE + 32)

enum connection_state {
    CONNECTION_CONNECTING, /* TCP is not through */
    CONNECTION_GREETING,   /* handshake */
    CONNECTION_UP,
    CONNECTION_LEAVING, /* a BYE or FAULT was sent or received; input is read and dropped */
    CONNECTION_CLOSED,  /* freed at the end of the round */
};

struct connection {
    TAILQ_ENTRY(connection) entry;
    struct mesh *mesh;
    struct peer *peer; /* NULL: the remote end has not proved its identity */
    enum connection_state state;
    struct link *link;
    struct frame_stream stream;
    struct handshake handshake;
    struct tcp_host host; /* while `peer` is NULL */
    uint64_t deadline_ns; /* monotonic; CONNECTING and GREETING */
    uint64_t heard_ns;    /* attention time (failure_detector.h) */
    uint32_t interest;    /* the events that epoll watches */
    bool output_blocked;  /* the link is full */
    bool input_over, output_over;
};
TAILQ_HEAD(connections, connection);

struct peer {
    struct mesh *mesh;
    struct mesh_peer options;
    struct connection *connection; /* NULL: none */

    struct inbox inbox;         /* lock */
    struct mesh_requests sends; /* lock: posted, not yet seen by the I/O thread */
    bool left;                  /* lock: the peer has sent BYE; only the I/O thread writes it */

    /* rendezvous */
    struct tcp_host host; /* of its address */
    bool up;              /* authenticated, and its first credit is here */
    bool answered;        /* its host answered, if only by a refusal */
    uint64_t retry_ns, backoff_ns;
    int problem; /* error of the last attempt; 0: no answer */

    /* transfer */
    uint64_t credit_bytes;       /* bytes the peer accepts without an OFFER */
    struct mesh_requests offers; /* sends that were offered to the peer */
    unsigned offer_count;        /* offered sends, plus the offers still in the stream's queue */
    uint64_t offers_made, offers_seen;
};

enum mesh_phase {
    MESH_OPENING,
    MESH_OPEN,
    MESH_CLOSING, /* posted sends are sent, then BYE */
    MESH_FAILED,  /* FAULT is sent, then everything is closed */
    MESH_OVER,    /* the thread has ended or is about to */
};

struct mesh {
    struct handshake_identity identity;
    struct peer *peers; /* by rank, ascending */
    unsigned peer_count;
    int listener, cancel; /* borrowed */
    bool patient, any_address;
    uint64_t failure_timeout_ns, connect_timeout_ns;
    uint64_t connect_deadline_ns; /* UINT64_MAX: no peer that joins later is linked yet */

    int epoll, wake;
    pthread_t thread;
    bool thread_started;

    enum mesh_phase phase;
    struct failure_detector watch;
    uint64_t now_ns; /* monotonic, at the last poll */
    struct connections connections;
    unsigned up_count, stranger_count;
    bool listening;
    uint64_t listen_retry_ns;
    struct tcp_host newest_stranger;
    uint64_t strangers_told, strangers_told_ns; /* the part of `turned_away` already logged, and the
                                                 * time of that log line */
    uint64_t farewell_deadline_ns;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool opened; /* lock: open_result and open_error are set */
    int open_result;
    struct error open_error;
    struct mesh_unreached unreached; /* lock: when opening has failed */
    bool failed;                     /* lock */
    struct mesh_fault fault;
    char root_cause[256]; /* owned by the I/O thread: the reason that FAULT carries, without the
                           * peer that reported it */
    bool close_wanted, abort_wanted, wake_pending; /* lock */
    char abort_text[256];
    unsigned request_count; /* lock */
    uint64_t copied_bytes;  /* lock */

    atomic_uint_fast64_t bytes_sent, bytes_received, messages_sent, messages_received, wait_ns;
    atomic_uint_fast64_t turned_away;
};

/* mesh.c */
struct peer *mesh_peer_find(struct mesh *mesh, unsigned rank);
void peer_label(const struct peer *peer, char ret_label[MESH_LABEL_SIZE]);
void mesh_wake(struct mesh *mesh);               /* with the lock */
void request_free(struct mesh_request *request); /* with the lock */

/* mesh_thread.c */
void *mesh_thread(void *context);
struct connection *connection_new(struct mesh *mesh, struct link *link, struct peer *peer);
void connection_close(struct connection *connection);
void connection_receive(struct connection *connection);
void connection_flush(struct connection *connection);

/* rendezvous.c */
void rendezvous_begin(struct mesh *mesh);
void rendezvous_accept(struct mesh *mesh);
void rendezvous_thin(struct mesh *mesh);
void rendezvous_connected(struct connection *connection);
int rendezvous_greeting(struct connection *connection, const struct frame *frame,
                        const uint8_t *payload) CHECK_RESULT;
void rendezvous_ready(struct peer *peer);
void rendezvous_lost(struct connection *connection, int code);
void rendezvous_tick(struct mesh *mesh);
uint64_t rendezvous_due_ns(const struct mesh *mesh);
void rendezvous_end(struct mesh *mesh, int result, const char *text);

/* message_transfer.c */
extern const struct frame_stream_events transfer_events;
int message_transfer_begin(struct connection *connection) CHECK_RESULT;
int message_transfer_take_posted(struct peer *peer) CHECK_RESULT;          /* with the lock */
void message_transfer_send_done(struct mesh_request *request, int result); /* with the lock */
bool message_transfer_drained(struct peer *peer);
void message_transfer_drop_sends(struct peer *peer, int result); /* with the lock */

/* mesh_fault.c */
void mesh_fail(struct mesh *mesh, struct peer *const *lost, unsigned lost_count, const char *text);
void mesh_fail_told(struct connection *connection, const uint8_t *text, size_t text_size);
void connection_lost(struct connection *connection, int code);
void mesh_give_up(struct mesh *mesh, const char *text);
void mesh_leave(struct mesh *mesh);
void mesh_leave_tick(struct mesh *mesh);
void connection_depart(struct connection *connection);
