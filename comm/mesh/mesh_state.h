/*
 * The state that the files of the mesh share: the mesh, its peers, its connections. Each file calls
 * those below it.
 *
 *     mesh.c              the callers' side: posting, waiting, opening, closing
 *     mesh_thread.c       the I/O thread: poll, take posted requests, heartbeats, silence
 *     link_frames.c       frames of a link that is up, and the part that each is for
 *     mesh_fault.c        a fault ends the mesh; a peer leaves it
 *     rendezvous.c        making the links of a generation
 *     farewell.c          the last frames: FAULT or BYE
 *     connection.c        a socket, its bytes in and out
 *     message_transfer.c  messages, offers and credit on a link that is up
 *     mesh_state.c        finding and naming peers, waking the thread
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
/* Requests that are posted and not waited for. The reductions of 162 units on 1,000 replicas of one
 * lane take half of them; a request takes little memory compared with a link. */
#define MESH_REQUESTS_MAX (1u << 20)
#define MESH_LABEL_SIZE   (MESH_NAME_SIZE + 32)

enum connection_state {
    CONNECTION_CONNECTING, /* TCP is not connected yet */
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
    bool local;           /* of this machine and user (local.h); has no host */
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

    struct inbox inbox;                     /* lock */
    struct mesh_requests sends, bulk_sends; /* lock: posted, the I/O thread has not taken them */
    bool left; /* lock: the peer has sent BYE; only the I/O thread writes it */

    /* rendezvous */
    struct tcp_host host; /* of its address */
    bool up;              /* authenticated, and its first credit has arrived */
    bool answered;        /* its host answered, if only by a refusal */
    uint64_t retry_ns, backoff_ns;
    int problem; /* error of the last attempt; 0: no answer */

    /* transfer */
    uint64_t credit_bytes;       /* bytes the peer accepts without an OFFER */
    struct mesh_requests offers; /* sends that were offered to the peer */
    unsigned offer_count;        /* urgent sends in `offers` and in the stream's queue */
    unsigned bulk_count;         /* bulk sends that were taken and are not sent in full */
    uint64_t offers_made, offers_seen;
};

enum mesh_phase {
    MESH_OPENING,
    MESH_OPEN,
    MESH_CLOSING, /* posted sends are sent, then BYE */
    MESH_FAILED,  /* FAULT is sent, then everything is closed */
    MESH_OVER,    /* the thread has ended or is about to */
};

/* Making the links of a generation (rendezvous.c). */
struct mesh_rendezvous {
    struct handshake_identity local_identity; /* for local links: accepts checksums, because only
                                                 the kernel handles the bytes in transit */
    uint64_t deadline_ns; /* UINT64_MAX: none, or a peer that joins later is not linked yet */
    unsigned up_count, stranger_count;
    bool listening;
    uint64_t listen_retry_ns;
    struct tcp_host newest_stranger;
    uint64_t strangers_told, strangers_told_ns; /* the part of `turned_away` already logged, and the
                                                 * time of that log line */
};

/* How opening has ended, for mesh_open(); lock. */
struct mesh_opening {
    bool over; /* the others are set */
    int result;
    struct error error;
    struct mesh_unreached unreached; /* when it has failed */
};

/* Requests of callers to the I/O thread; lock. */
struct mesh_wishes {
    bool close, abort, wake_pending;
    char abort_text[256];
};

/* Requests that are not over; lock. */
struct mesh_posted {
    unsigned count;
    uint64_t copied_bytes;
};

/* The limits from the options. */
struct mesh_terms {
    bool patient, any_address;
    uint64_t failure_timeout_ns, connect_timeout_ns;
};

struct mesh_io {
    int epoll, wake;
    pthread_t thread;
    bool started;
};

struct mesh_counters {
    atomic_uint_fast64_t bytes_sent, bytes_received, messages_sent, messages_received, wait_ns;
    atomic_uint_fast64_t turned_away;
};

/* The callback of a thread that waits. */
struct mesh_meanwhile {
    void (*look)(void *context); /* NULL: nothing */
    void *context;
    pthread_t thread; /* the thread whose waits call it */
    uint64_t next_ns; /* when it is called next; monotonic */
    bool looks;       /* the callback is running */
};

struct mesh {
    struct handshake_identity identity;
    struct peer *peers; /* by rank, ascending */
    unsigned peer_count;
    struct mesh_listener listener; /* borrowed */
    int cancel;                    /* borrowed */
    struct mesh_terms terms;
    struct mesh_io io;

    enum mesh_phase phase;
    const struct frame_stream_events *link_events; /* of links that are up */
    struct failure_detector watch;
    uint64_t now_ns; /* monotonic, at the last poll */
    struct connections connections;
    struct mesh_rendezvous rendezvous;
    uint64_t farewell_deadline_ns;
    char root_cause[256]; /* the reason that FAULT carries, without the peer that reported it */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct mesh_opening opening; /* lock */
    bool failed;                 /* lock */
    struct mesh_fault fault;
    struct mesh_wishes wishes;       /* lock */
    struct mesh_posted posted;       /* lock */
    struct mesh_meanwhile meanwhile; /* lock */
    struct mesh_counters counters;
};

/* mesh_state.c */
int mesh_peer_compare(const void *a, const void *b); /* for qsort() */
struct peer *mesh_peer_find(struct mesh *mesh, unsigned rank);
void peer_label(const struct peer *peer, char ret_label[MESH_LABEL_SIZE]);
void mesh_wake(struct mesh *mesh);               /* with the lock */
void request_free(struct mesh_request *request); /* with the lock */

/* message_transfer.c; frames are those of a link that is up */
int message_transfer_begin(struct connection *connection) CHECK_RESULT;
int message_transfer_take_posted(struct peer *peer) CHECK_RESULT;          /* with the lock */
void message_transfer_send_done(struct mesh_request *request, int result); /* with the lock */
bool message_transfer_drained(struct peer *peer);
void message_transfer_drop_sends(struct peer *peer, int result); /* with the lock */
void message_transfer_sent(struct connection *connection, struct frame_stream_item *item);
/* -EMSGSIZE: the receive was posted for @ret_wanted_bytes */
int message_transfer_begins(struct connection *connection, const struct frame *frame,
                            uint8_t **ret_destination, size_t *ret_wanted_bytes) CHECK_RESULT;
void message_transfer_ends(struct connection *connection);
int message_transfer_offer(struct connection *connection, const struct frame *frame,
                           size_t *ret_wanted_bytes) CHECK_RESULT;
int message_transfer_accept(struct connection *connection, const struct frame *frame) CHECK_RESULT;
int message_transfer_credit(struct peer *peer, const struct frame *frame) CHECK_RESULT;

/* connection.c; a negative result of receive and flush says why the connection is lost */
struct connection *connection_new(struct mesh *mesh, struct link *link, struct peer *peer,
                                  const struct frame_stream_events *events);
int connection_receive(struct connection *connection) CHECK_RESULT;
int connection_flush(struct connection *connection) CHECK_RESULT;
void connection_close(struct connection *connection);
void connection_reap(struct mesh *mesh); /* free those that are closed */

/* farewell.c */
void farewell_begin(struct mesh *mesh, const char *root_cause);
void farewell_tell(struct mesh *mesh);
void farewell_give_up(struct mesh *mesh, const char *text);
void farewell_leave(struct mesh *mesh);
void farewell_tick(struct mesh *mesh);

/* rendezvous.c */
void rendezvous_begin(struct mesh *mesh);
void rendezvous_accept(struct mesh *mesh);
void rendezvous_thin(struct mesh *mesh);
void rendezvous_connected(struct connection *connection);
void rendezvous_ready(struct peer *peer);
void rendezvous_lost(struct connection *connection, int code);
void rendezvous_tick(struct mesh *mesh);
uint64_t rendezvous_due_ns(const struct mesh *mesh);
void rendezvous_end(struct mesh *mesh, int result, const char *text);

/* mesh_fault.c */
void mesh_fail(struct mesh *mesh, struct peer *const *lost, unsigned lost_count, const char *text);
void mesh_fail_told(struct connection *connection, const uint8_t *text, size_t text_size);
void mesh_lose(struct connection *connection, int code);
void mesh_depart(struct connection *connection);

/* link_frames.c */
extern const struct frame_stream_events link_frames_events;

/* mesh_thread.c */
void *mesh_thread(void *context);
