/*
 * The links of one generation: tagged messages between ranks, sent and received in the background.
 *
 * One I/O thread drives every link of this worker. Sends and receives are posted with a tag and
 * completed later, so transfers overlap computation; data for a posted receive is read straight
 * into its buffer, and a message without a posted receive waits in a bounded queue.
 *
 * Links are authenticated: both sides prove knowledge of the generation's key by a keyed hash over
 * fresh random challenges, the job, the generation and both ranks (libsodium). A frame of another
 * generation, from a stranger, too long, or of an unknown type ends the link.
 *
 * Memory: messages without a posted receive take at most unexpected_max_bytes here, divided evenly
 * among the peers without a share of their own. A message beyond its peer's share is announced and
 * stays on the peer's side until a receive is posted. So links are always read, and heartbeats and
 * faults come through however far behind this worker is. A receive posted early saves a copy and,
 * for large messages, a round trip.
 *
 * Failure: a closed or reset link, or a peer silent for failure_timeout_ns (heartbeats go every
 * quarter of that), puts the whole mesh into the failed state. Every waiting call and every later
 * call returns -ECONNRESET. Every peer gets a FAULT frame and fails its mesh too. A failed mesh can
 * only be closed. mesh_fault() returns the lost ranks. A peer that has sent BYE may close without a
 * fault: messages to it are dropped, and a receive from it that finds no message fails the mesh. A
 * request that was complete before the failure still gives its result.
 *
 * `struct link` is the interface to the network: tcp here, a simulated one in the tests. A carrier
 * (carrier.h) moves tensors between GPUs without a link.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"

#define MESH_RANKS_MAX   4096
#define MESH_KEY_SIZE    32
#define MESH_MESSAGE_MAX ((size_t)1 << 34) /* bytes of one message */

#define MESH_NO_TIMEOUT UINT64_MAX

#define MESH_NAME_SIZE (NAME_SIZE + 16)

struct mesh_peer {
    unsigned rank;
    char address[ADDRESS_SIZE];    /* of its listener; the higher rank connects to the lower */
    char name[MESH_NAME_SIZE];     /* for messages, "b/1"; if empty, messages use the address */
    uint64_t unexpected_max_bytes; /* limit of messages without a posted receive; 0: an even share
                                    * of the mesh's unexpected_max_bytes */
    bool joins_later; /* it first finishes an operation in the generation before, of any length */
    bool same_node;   /* link within this machine where possible (comm/mesh/local.h) */
};

/* The ranks that never answered while links were made: their hosts sent nothing, not even the
 * refusal of a connection, for TIMEOUTS_UNREACHED. Contains only ranks that this rank connects
 * to. */
#define MESH_UNREACHED_MAX 64
struct mesh_unreached {
    unsigned count;
    unsigned ranks[MESH_UNREACHED_MAX];
};

/* The listening sockets to which peers connect. */
struct mesh_listener {
    int tcp;
    int local; /* for peers of the same node; -1: they use TCP as well */
};
#define MESH_LISTENER_NONE ((struct mesh_listener){-1, -1})

struct mesh_options {
    char job[NAME_SIZE];
    uint64_t generation;
    uint8_t key[MESH_KEY_SIZE];
    unsigned rank;
    const struct mesh_peer *peers; /* only the peers with a link to this rank; copied */
    unsigned peer_count;
    struct mesh_listener listener; /* from mesh_listen(); borrowed, outlives the mesh */
    uint64_t failure_timeout_ns;   /* at least 20 ms */
    uint64_t unexpected_max_bytes; /* messages without a posted receive, of all peers that have no
                                    * share of their own; 0: 256 MiB */
    /* Limit until all links are up, counted from the call or, if peers join later, from the moment
     * when all of these are linked. Then -ETIMEDOUT, naming the missing ranks; sooner when a host
     * is unreached. MESH_NO_TIMEOUT: wait until the caller cancels or a peer gives up. */
    uint64_t connect_timeout_ns;
    bool checksums;   /* use checksums instead of authentication on links to peers that set this too
                       * (comm/mesh/frame_seal.h) */
    bool any_address; /* accept connections from addresses that no peer has (translated ones) */
    bool patient;     /* unreached hosts do not end mesh_open(): they may become reachable */
    struct mesh_unreached *unreached; /* filled when opening fails; NULL: not wanted */
};

struct mesh;
struct mesh_request; /* one posted send or receive */

/** mesh_listen() - listen at "host:port" (SO_REUSEADDR), and locally beside it where possible */
int mesh_listen(const char *address, struct mesh_listener *ret_listener,
                struct error *error) CHECK_RESULT;

/** mesh_listener_close() - stop listening; afterwards *listener is MESH_LISTENER_NONE */
void mesh_listener_close(struct mesh_listener *listener);

/** mesh_listener_address() - return the bound address of a listener, with the port that the kernel
 * chose for "host:0" */
int mesh_listener_address(const struct mesh_listener *listener,
                          char ret_address[ADDRESS_SIZE]) CHECK_RESULT;

/**
 * mesh_open() - make every link of this generation; blocks until all are up, the timeout passes,
 * or @cancel (an eventfd; -1: none) becomes readable
 *
 * Connections of another job or generation and of strangers are all refused in the same way and do
 * not end the wait. A peer that refuses is tried again. A connection from an address that no peer
 * has is closed before a byte of it is read, unless @any_address.
 *
 * A host that is unreached ends the wait sooner, unless @options->patient: the host is
 * dead or behind a netsplit, and the leader must plan without it.
 *
 * Return: 0; -ETIMEDOUT (@error names the missing ranks), -EPERM (the same, and a missing rank
 * could not prove that it knows the key), -ECONNRESET (a connected peer has reported a fault),
 * -ECANCELED, -EINVAL, -ENOMEM, or errno of making a thread.
 */
int mesh_open(const struct mesh_options *options, int cancel, struct mesh **ret_mesh,
              struct error *error) CHECK_RESULT;

/**
 * mesh_close() - send BYE to the peers if the mesh is healthy, join the thread, free everything;
 * NULL allowed
 *
 * Posted sends without a handle are sent first, within failure_timeout. Closing a failed mesh takes
 * at most a quarter of that. Every request must have been waited for.
 */
void mesh_close(struct mesh *mesh);

/** mesh_abort() - fail the mesh with @reason, as if a link had broken; any thread may call it */
void mesh_abort(struct mesh *mesh, const char *reason);

#define MESH_COPY_MAX_BYTES (1ull << 20) /* of one message that is sent without a handle */

/**
 * mesh_send() - post a message; @data is borrowed until mesh_wait() of the request, or is copied
 * when @ret_request is NULL (small control messages, at most MESH_COPY_MAX_BYTES)
 * @tag: any number; messages of one (peer, tag) arrive in order
 *
 * Return: 0, -ECONNRESET, -EINVAL (not a peer, or too large), -EMSGSIZE (too large to be copied),
 * -ENOBUFS (2^20 requests or 64 MiB of copies are under way), -ENOMEM. Any thread may call this
 * and all functions below.
 */
int mesh_send(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data, size_t size_bytes,
              struct mesh_request **ret_request) CHECK_RESULT;

/**
 * mesh_send_bulk() - post a message that goes behind all others of its link; as mesh_send(), with a
 * request
 *
 * It is sent only when the peer posts its receive, and it is not interrupted: another message waits
 * while it is being sent. So send a large amount of data in messages of a few megabytes, under a
 * tag used only for bulk messages.
 */
int mesh_send_bulk(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data,
                   size_t size_bytes, struct mesh_request **ret_request) CHECK_RESULT;

/**
 * mesh_receive() - post a receive of exactly @size_bytes; mesh_wait() returns 0 when @data is
 * filled
 *
 * Return: as mesh_send(); -EMSGSIZE: a message of another size has arrived, which fails the mesh
 */
int mesh_receive(struct mesh *mesh, unsigned peer, uint64_t tag, void *data, size_t size_bytes,
                 struct mesh_request **ret_request) CHECK_RESULT;

/**
 * mesh_receive_any() - block for one message of unknown size; *ret_data is malloc'ed
 *
 * A receive that is posted for the same tag is served first. The deadline is for the start of a
 * message; -ETIMEDOUT does not fail the mesh, and no message is lost.
 */
int mesh_receive_any(struct mesh *mesh, unsigned peer, uint64_t tag, uint64_t deadline_ns,
                     void **ret_data, size_t *ret_size_bytes) CHECK_RESULT;

/**
 * mesh_wait() - wait until the request is complete; free it in every case
 *
 * A send is complete when its bytes have been handed to the kernel. A send that exceeds its share
 * on the peer (see above) is handed over only when the peer posts its receive. So two ranks that
 * exchange large messages post their receives before they wait for their sends.
 * @deadline_ns: monotonic; UINT64_MAX: until complete or the mesh fails (heartbeats watch the
 * peers)
 *
 * Return: 0; -ECONNRESET: the mesh failed; -ETIMEDOUT, -EMSGSIZE (a message of another size
 * arrived): each of these fails the mesh
 */
int mesh_wait(struct mesh_request *request, uint64_t deadline_ns) CHECK_RESULT;

/**
 * mesh_meanwhile() - call @look(@context) every tenth of a second while this thread waits for
 * messages, without the lock, so @look may use the mesh
 * @look: NULL: stop the calls
 */
void mesh_meanwhile(struct mesh *mesh, void (*look)(void *context), void *context);

/** mesh_await_any() - wait until mesh_wait() of at least one of @requests would return at once, or
 * the mesh has failed; NULL entries are ignored */
void mesh_await_any(struct mesh *mesh, struct mesh_request *const *requests, unsigned count);

/** mesh_test() - return whether mesh_wait() would return at once */
bool mesh_test(struct mesh_request *request);

struct mesh_fault {
    bool failed;
    unsigned lost_ranks[64]; /* ranks that closed or went silent; none: an abort, or a FAULT that a
                              * peer passed on */
    unsigned lost_count;
    char text[256];
    char root_cause[256]; /* the text of the rank that found the fault; the same at every rank that
                             learns of it */
};
void mesh_fault(struct mesh *mesh, struct mesh_fault *ret_fault);

/** mesh_broken() - return whether the mesh has failed or is about to */
bool mesh_broken(struct mesh *mesh);
/** mesh_await_fault() - wait until the mesh has failed or the deadline (monotonic). Return: whether
 * the mesh has failed */
bool mesh_await_fault(struct mesh *mesh, uint64_t deadline_ns);

/**
 * mesh_await() - wait without a deadline until @may_go_on(@context) or the mesh has failed
 * @may_go_on: called at once and after every mesh_ask_again(), with the mesh locked; must not block
 * or call the mesh
 *
 * Return: whether the mesh has failed
 */
bool mesh_await(struct mesh *mesh, bool (*may_go_on)(const void *context), const void *context);
/** mesh_ask_again() - make mesh_await() call @may_go_on again; any thread may call it */
void mesh_ask_again(struct mesh *mesh);

struct mesh_statistics {
    uint64_t bytes_sent, bytes_received, messages_sent, messages_received, wait_ns;
    uint64_t turned_away; /* connections from addresses that no peer has */
};
void mesh_statistics(struct mesh *mesh, struct mesh_statistics *ret_statistics);
/** mesh_thread_ns() - return the processor time of the I/O thread; 0: unknown, or it has ended */
uint64_t mesh_thread_ns(const struct mesh *mesh);
