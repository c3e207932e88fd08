/*
 * The links of one generation: tagged messages between ranks, sent and received in the background.
 *
 * One I/O thread drives every link of this worker. Sends and receives are posted with a tag and
 * completed later, so transfers overlap computation; a receive posted before the data comes is read
 * straight into its buffer, a message without a posted receive waits in a bounded queue.
 *
 * Links are authenticated: both sides prove knowledge of the generation's key by a keyed hash over
 * fresh random challenges, the job, the generation and both ranks (libsodium). A frame of another
 * generation, from a stranger, too long or with an unknown type ends the link.
 *
 * Memory: messages that nobody has asked for yet take at most unexpected_max_bytes here, shared
 * evenly by the peers, but for those with a share of their own. What a peer has beyond its share is
 * announced and stays on its side until a receive is posted. So links are always read, and
 * heartbeats and faults come through however far behind this worker is. A receive posted early
 * saves a copy and, for large messages, a round trip.
 *
 * Failure: a closed or reset link, or a peer silent for failure_timeout_ns (heartbeats go every
 * quarter of that), puts the whole mesh into the failed state: every waiter returns -ECONNRESET,
 * every later call too, peers are told with a FAULT frame and do the same. A failed mesh is only
 * closed. mesh_fault() says who was lost. A peer that has said BYE may close without being a fault:
 * what is sent to it is dropped; a receive from it that finds no message fails the mesh. A request
 * that was complete before the failure still gives its result.
 *
 * `struct link` is the seam: tcp here, a simulated one beside it. What moves tensors between GPUs
 * without a link is a carrier (carrier.h).
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

#define MESH_NAME_SIZE (NAME_SIZE + 16)

struct mesh_peer {
    unsigned rank;
    char address[ADDRESS_SIZE]; /* where its listener is; the higher rank connects to the lower */
    char name[MESH_NAME_SIZE]; /* for people, "b/1"; may be empty, then the address stands for it */
    uint64_t unexpected_max_bytes; /* its share of such messages; 0: an even one of what the mesh
                                      has for those without their own */
};

/* Who never answered while links were being made: their hosts gave no sign of life, not even the
 * refusal of a connection, for MESH_UNREACHED_TIMEOUTS. Only ranks that this one connects to. */
#define MESH_UNREACHED_MAX      64
#define MESH_UNREACHED_TIMEOUTS 4 /* of failure_timeout */
struct mesh_unreached {
    unsigned count;
    unsigned ranks[MESH_UNREACHED_MAX];
};

struct mesh_options {
    char job[NAME_SIZE];
    uint64_t generation;
    uint8_t key[MESH_KEY_SIZE];
    unsigned rank;
    const struct mesh_peer *peers; /* only those this rank talks to; copied */
    unsigned peer_count;
    int listener;                  /* from mesh_listen(); borrowed, outlives the mesh */
    uint64_t failure_timeout_ns;   /* at least 20 ms */
    uint64_t unexpected_max_bytes; /* messages nobody has asked for, of all peers that have no share
                                      of their own; 0: 256 MiB */
    uint64_t connect_deadline_ns;  /* monotonic: all links up by then, or -ETIMEDOUT naming who is
                                      missing; sooner when a host is unreached */
    bool checksums;   /* will do for links to peers of the same mind (comm/mesh/frame_seal.h) */
    bool any_address; /* accept connections from addresses that no peer has (translated ones) */
    bool patient;     /* hosts that are unreached do not end it: they may come to be reached */
    struct mesh_unreached *unreached; /* filled when opening fails; NULL: nobody asks */
};

struct mesh;
struct mesh_request; /* one posted send or receive */

/** mesh_listen() - a listening TCP socket at "host:port" (SO_REUSEADDR); the descriptor into
 * *ret_listener */
int mesh_listen(const char *address, int *ret_listener, struct error *error) CHECK_RESULT;

/** mesh_listener_address() - where a listener is bound: the port that "host:0" was given */
int mesh_listener_address(int listener, char ret_address[ADDRESS_SIZE]) CHECK_RESULT;

/**
 * mesh_open() - make every link of this generation; blocks until all are up, the deadline, or
 * mesh_cancel from another thread through @cancel (an eventfd that becomes readable; -1: none)
 *
 * Connections of another job or generation and of strangers are refused and do not end the wait,
 * and all in the same way: a peer that refuses is tried again. A connection from an address that no
 * peer has is closed before a byte of it is read, unless @any_address.
 *
 * A host that is unreached ends the wait before the deadline, unless this one is patient: it is
 * dead, or cut off from here, and who plans must know.
 *
 * Return: 0; -ETIMEDOUT (who is missing is in @error), -EPERM (the same, and one of them could not
 * prove that it knows the key), -ECONNRESET (a peer that was here has told of a fault), -ECANCELED,
 * -EINVAL, -ENOMEM, or errno of making a thread.
 */
int mesh_open(const struct mesh_options *options, int cancel, struct mesh **ret_mesh,
              struct error *error) CHECK_RESULT;

/**
 * mesh_close() - says BYE to peers when healthy, joins the thread, frees everything; NULL allowed
 *
 * Sends without a handle that were posted are sent before, within failure_timeout; a failed mesh
 * takes at most a quarter of that. Every request must have been waited for.
 */
void mesh_close(struct mesh *mesh);

/** mesh_abort() - from any thread: fail the mesh as if a link had broken, with @reason */
void mesh_abort(struct mesh *mesh, const char *reason);

/**
 * mesh_send() - post a message; @data is borrowed until mesh_wait() of the request, or is copied
 * when @ret_request is NULL (small control messages, at most 1 MiB)
 * @tag: any number; messages of one (peer, tag) arrive in order
 *
 * Return: 0, -ECONNRESET, -EINVAL (not a peer, or too large), -EMSGSIZE (too large to be copied),
 * -ENOBUFS (65536 requests or 64 MiB of copies are under way), -ENOMEM. Any thread may call this
 * and all functions below.
 */
int mesh_send(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data, size_t size_bytes,
              struct mesh_request **ret_request) CHECK_RESULT;

/**
 * mesh_receive() - post a receive of exactly @size_bytes; @data is filled when mesh_wait() returns
 * 0 Return: as mesh_send(); -EMSGSIZE: a message of another size is here, which fails the mesh
 */
int mesh_receive(struct mesh *mesh, unsigned peer, uint64_t tag, void *data, size_t size_bytes,
                 struct mesh_request **ret_request) CHECK_RESULT;

/**
 * mesh_receive_any() - block for one message of unknown size; *ret_data is malloc'ed
 *
 * A receive that is posted for the same tag comes first. The deadline is for the beginning of a
 * message; -ETIMEDOUT does not fail the mesh, and nothing is lost.
 */
int mesh_receive_any(struct mesh *mesh, unsigned peer, uint64_t tag, uint64_t deadline_ns,
                     void **ret_data, size_t *ret_size_bytes) CHECK_RESULT;

/**
 * mesh_wait() - until the request is complete; frees it in every case
 *
 * A send is complete when its bytes have been handed to the kernel. One that exceeds the share
 * which the peer keeps for it (see above) is handed over only when the peer posts its receive: so
 * two ranks that exchange large messages post their receives before they wait for their sends.
 * @deadline_ns: monotonic; UINT64_MAX: until complete or the mesh fails (peers are watched by
 * heartbeats) Return: 0, -ECONNRESET (the mesh failed), -ETIMEDOUT (the mesh is failed by it),
 * -EMSGSIZE (other size came; the mesh is failed by it)
 */
int mesh_wait(struct mesh_request *request, uint64_t deadline_ns) CHECK_RESULT;

/** mesh_test() - whether mesh_wait() would return at once */
bool mesh_test(struct mesh_request *request);

struct mesh_fault {
    bool failed;
    unsigned lost_ranks[64]; /* closed or went silent; none: an abort, or a FAULT passed on */
    unsigned lost_count;
    char text[256];
};
void mesh_fault(struct mesh *mesh, struct mesh_fault *ret_fault);

/** mesh_await_fault() - until the mesh has failed or the deadline (monotonic); Return: has it? */
bool mesh_await_fault(struct mesh *mesh, uint64_t deadline_ns);

/**
 * mesh_await() - without a deadline, until @may_go_on(@context) or the mesh has failed
 * @may_go_on: asked at once and after every mesh_ask_again(), with the mesh locked: it only looks
 *
 * Return: has the mesh failed?
 */
bool mesh_await(struct mesh *mesh, bool (*may_go_on)(const void *context), const void *context);
/** mesh_ask_again() - from any thread: what mesh_await() asks for may have come true */
void mesh_ask_again(struct mesh *mesh);

struct mesh_statistics {
    uint64_t bytes_sent, bytes_received, messages_sent, messages_received, wait_ns;
    uint64_t turned_away; /* connections from addresses that no peer has */
};
void mesh_statistics(struct mesh *mesh, struct mesh_statistics *ret_statistics);
