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
 * Failure: a closed or reset link, or a peer silent for failure_timeout_ns (heartbeats go every
 * quarter of that), puts the whole mesh into the failed state: every waiter returns -ECONNRESET,
 * every later call too, peers are told with a FAULT frame and do the same. A failed mesh is only
 * closed. mesh_fault() says who was lost. A peer that has said BYE may close without being a fault.
 *
 * `struct link` is the seam: tcp here, nccl and a simulated one beside it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"

#define MESH_RANKS_MAX 4096
#define MESH_KEY_SIZE  32
#define MESH_MESSAGE_MAX ((size_t)1 << 34) /* bytes of one message */

struct mesh_peer {
    unsigned rank;
    char address[ADDRESS_SIZE]; /* where its listener is; the higher rank connects to the lower */
};

struct mesh_options {
    char job[NAME_SIZE];
    uint64_t generation;
    uint8_t key[MESH_KEY_SIZE];
    unsigned rank;
    const struct mesh_peer *peers; /* only those this rank talks to; copied */
    unsigned peer_count;
    int listener; /* from mesh_listen(); borrowed, outlives the mesh */
    uint64_t failure_timeout_ns;
    uint64_t connect_deadline_ns; /* monotonic: all links up by then, or -ETIMEDOUT naming who is missing */
};

struct mesh;
struct mesh_request; /* one posted send or receive */

/** mesh_listen() - a listening TCP socket at "host:port" (SO_REUSEADDR); the descriptor into *ret_listener */
int mesh_listen(const char *address, int *ret_listener, struct error *error) CHECK_RESULT;

/**
 * mesh_open() - make every link of this generation; blocks until all are up, the deadline, or
 * mesh_cancel from another thread through @cancel (an eventfd that becomes readable; -1: none)
 *
 * Return: 0; -ETIMEDOUT (who is missing is in @error), -ECANCELED, -EPERM (a peer that fails to
 * authenticate is refused and named in the log, it does not end the wait), -ENOMEM.
 */
int mesh_open(const struct mesh_options *options, int cancel, struct mesh **ret_mesh,
              struct error *error) CHECK_RESULT;

/** mesh_close() - says BYE to peers when healthy, joins the thread, frees everything; NULL allowed */
void mesh_close(struct mesh *mesh);

/** mesh_abort() - from any thread: fail the mesh as if a link had broken, with @reason */
void mesh_abort(struct mesh *mesh, const char *reason);

/**
 * mesh_send() - post a message; @data is borrowed until mesh_wait() of the request, or is copied
 * when @ret_request is NULL (small control messages, at most 1 MiB)
 * @tag: any number; messages of one (peer, tag) arrive in order
 */
int mesh_send(struct mesh *mesh, unsigned peer, uint64_t tag, const void *data, size_t size_bytes,
              struct mesh_request **ret_request) CHECK_RESULT;

/** mesh_receive() - post a receive of exactly @size_bytes; @data is filled when mesh_wait() returns 0 */
int mesh_receive(struct mesh *mesh, unsigned peer, uint64_t tag, void *data, size_t size_bytes,
                 struct mesh_request **ret_request) CHECK_RESULT;

/** mesh_receive_any() - block for one message of unknown size; *ret_data is malloc'ed */
int mesh_receive_any(struct mesh *mesh, unsigned peer, uint64_t tag, uint64_t deadline_ns,
                     void **ret_data, size_t *ret_size_bytes) CHECK_RESULT;

/**
 * mesh_wait() - until the request is complete; frees it in every case
 * @deadline_ns: monotonic; UINT64_MAX: until complete or the mesh fails (peers are watched by heartbeats)
 * Return: 0, -ECONNRESET (the mesh failed), -ETIMEDOUT (the mesh is failed by it), -EMSGSIZE (other size came)
 */
int mesh_wait(struct mesh_request *request, uint64_t deadline_ns) CHECK_RESULT;

/** mesh_test() - whether mesh_wait() would return at once */
bool mesh_test(struct mesh_request *request);

struct mesh_fault {
    bool failed;
    unsigned lost_ranks[64]; /* who closed or went silent; empty for an abort or a FAULT passed on */
    unsigned lost_count;
    char text[256];
};
void mesh_fault(struct mesh *mesh, struct mesh_fault *ret_fault);

struct mesh_statistics {
    uint64_t bytes_sent, bytes_received, messages_sent, messages_received, wait_ns;
};
void mesh_statistics(struct mesh *mesh, struct mesh_statistics *ret_statistics);
