/*
 * Move GPU buffers between the workers of one generation with NCCL: only sends and receives, no
 * arithmetic. firn does the additions of a reduction itself, in tree order
 * (comm/lanes/lane_tree.h), so the numbers do not depend on NCCL's algorithms.
 *
 * The library is opened at run time: one binary serves machines with it and without. A generation
 * has a clique: a few non-blocking communicators, one per group of ranks. A thread watches them;
 * the first fault, a peer that is known to be lost (@lost), or nccl_abort() ends the whole clique
 * as a group (comm/carrier/nccl_watch.h). Every wait here has a deadline. A call returns a failure
 * only after the abort has finished, when NCCL no longer touches the buffers. If the abort hangs
 * too, @hopeless is called: the process has to end.
 *
 * One thread joins, exchanges and waits; any thread may abort. This file treats CUDA streams and
 * device memory as opaque pointers. Source: NCCL user guide, "Fault tolerance" and "Group calls".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

#define NCCL_LIBRARY           "libnccl.so.2"
#define NCCL_ID_SIZE           128
#define NCCL_COMMUNICATORS_MAX 16
#define NCCL_REASON_SIZE       256
#define NCCL_MOVES_MAX         4096

struct nccl_library;

/** nccl_library_open() - open the library at @path: NCCL_LIBRARY, or another (tests). Return: 0,
 * -ENOENT (no such library), -EIO (older than 2.14, which has no non-blocking communicators),
 * -ENOMEM */
int nccl_library_open(const char *path, struct nccl_library **ret_library,
                      struct error *error) CHECK_RESULT;
/** nccl_library_close() - close the library after its cliques are freed; NULL allowed */
void nccl_library_close(struct nccl_library *library);
/** nccl_library_version() - return the version in NCCL's encoding: 22809 is 2.28.9 */
unsigned nccl_library_version(const struct nccl_library *library);
/** nccl_unique_id() - make the identity of a communicator; one rank makes it and sends it to the
 * others over the mesh. Return: 0, -EIO
 */
int nccl_unique_id(struct nccl_library *library, uint8_t ret_id[NCCL_ID_SIZE],
                   struct error *error) CHECK_RESULT;

struct nccl_clique;

struct nccl_clique_options {
    uint64_t close_timeout_ns; /* limit of an orderly end; then the clique is aborted */
    uint64_t abort_timeout_ns; /* limit of an abort, which may end several communicators */
    /* Return whether a peer is known to be lost, and the reason. Waiting threads and the watching
     * thread call it, so it must not block. NULL: unknown. */
    bool (*lost)(void *context, char ret_reason[NCCL_REASON_SIZE]);
    void (*hopeless)(void *context, const char *reason); /* from a waiting or watching thread */
    void *context;
};

int nccl_clique_new(struct nccl_library *library, const struct nccl_clique_options *options,
                    struct nccl_clique **ret_clique) CHECK_RESULT;
/** nccl_clique_free() - end the clique and free it; NULL allowed. No other call may run. Without a
 * fault the communicators are finalized, which completes all exchanges, and destroyed. After a
 * fault, or if finalizing is late, they are aborted.
 */
void nccl_clique_free(struct nccl_clique *clique);

/**
 * nccl_join() - become @rank of a new communicator, on the current device of the calling thread
 *
 * Every rank of the group calls it. Return: 0 with its number; -ETIMEDOUT, -ECONNRESET: the clique
 * has failed, and @error says why; -ENOSPC: too many communicators.
 */
int nccl_join(struct nccl_clique *clique, const uint8_t id[NCCL_ID_SIZE], unsigned rank,
              unsigned rank_count, uint64_t deadline_ns, unsigned *ret_communicator,
              struct error *error) CHECK_RESULT;

struct nccl_move {
    unsigned peer; /* rank of the communicator */
    bool receive;
    void *data; /* device memory, borrowed until the stream has passed the move */
    size_t size_bytes;
};

/**
 * nccl_exchange() - enqueue @moves on @stream (a cudaStream_t) as one group: no order among them
 * can deadlock. When it returns 0, the moves are on the stream, so that events recorded next cover
 * them; they are not complete.
 *
 * Return: 0; -ETIMEDOUT, -ECONNRESET: the clique has failed; -EINVAL: more than NCCL_MOVES_MAX.
 */
int nccl_exchange(struct nccl_clique *clique, unsigned communicator, const struct nccl_move *moves,
                  size_t move_count, void *stream, uint64_t deadline_ns,
                  struct error *error) CHECK_RESULT;

/**
 * nccl_wait() - wait until @complete (the caller's event query, which never blocks) or the end of
 * the clique: a kernel whose peer is gone never completes by itself
 *
 * Return: 0, -ETIMEDOUT, -ECONNRESET. After an error the contents of the buffers are invalid.
 */
int nccl_wait(struct nccl_clique *clique, bool (*complete)(void *context), void *context,
              uint64_t deadline_ns, struct error *error) CHECK_RESULT;

/**
 * nccl_guard() - bound the time for which the device may block the caller until nccl_unguard(). The
 * device may be waiting for a peer: at the deadline the watching thread ends the clique, the device
 * continues without the data, and the caller unblocks. Guards do not nest; do not join, exchange or
 * wait under a guard
 */
void nccl_guard(struct nccl_clique *clique, uint64_t deadline_ns);
/** nccl_unguard() - end the guard. Return: 0; -ECONNRESET: the clique has failed, by the deadline
 * or otherwise, so the device's results since nccl_guard() are invalid */
int nccl_unguard(struct nccl_clique *clique, struct error *error) CHECK_RESULT;

/** nccl_ended() - return whether the clique has failed or was aborted */
bool nccl_ended(struct nccl_clique *clique);

/** nccl_abort() - end the clique and return at once; any thread may call it */
void nccl_abort(struct nccl_clique *clique, const char *reason);
