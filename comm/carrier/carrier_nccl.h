/*
 * NCCL as a carrier: device memory from GPU to GPU, in groups of sends and receives on a stream.
 *
 * NCCL connects two members at the first move between them, in each direction, and only when both
 * have posted one. Until then the host of the first one waits inside its post. So
 * carrier_nccl_open() connects all members, because all of them call it.
 *
 * The identity of a communicator is made by the first member of the route and goes to the others
 * over the mesh. When the mesh fails, the clique is ended (pass carrier_nccl_lost() as its @lost).
 * When NCCL fails, the mesh is failed with NCCL's reason, so that all workers of the generation
 * learn of it.
 */
#pragma once

#include "comm/carrier/carrier.h"
#include "comm/carrier/carrier_choice.h"
#include "comm/carrier/nccl.h"

#define CARRIER_SCRATCH_BYTES 64

/* The device whose memory the nccl carrier moves. The thread that posts and waits makes all calls,
 * `passed` also from inside a wait; no call may block. */
struct carrier_device {
    void *context;
    void *scratch; /* CARRIER_SCRATCH_BYTES of the device, borrowed; nothing of use is kept there */
    void *stream;  /* a cudaStream_t; carriers that share one must post in one order everywhere */
    /* order later work on the stream after all computation submitted so far */
    void (*follow)(void *context, void *stream);
    /* make a mark; it is passed when all work is done that the stream held when it was set. Return:
     * 0, -ENOMEM */
    int (*mark_new)(void *context, void **ret_mark);
    void (*mark_set)(void *context, void *mark, void *stream);
    bool (*mark_passed)(void *context, void *mark);
    /* order later computation after all work that the stream held when the mark was set */
    void (*mark_precede)(void *context, void *mark);
    void (*mark_free)(void *context, void *mark);
};

struct carrier_nccl_options {
    struct carrier_group group;
    struct nccl_library *library;
    struct nccl_clique *clique; /* borrowed; one serves all routes of a worker's generation */
    struct carrier_device device;
    uint64_t join_deadline_ns; /* monotonic */
    uint64_t move_timeout_ns;  /* limit from the wait for a move to its completion: a peer may still
                                * be computing; the mesh reports a dead peer */
};

/**
 * carrier_nccl_open() - open the carrier of a group that agreed on NCCL. All members call it, for
 * their groups in an order without circular waits
 *
 * Return: 0; -ENOTSUP: the first member's NCCL gives no identity; all members learn it and nothing
 * has failed; -EIO: NCCL failed, and the mesh is failed with @error; -ECONNRESET, -ETIMEDOUT: the
 * mesh failed, so the clique is ended; -ENOMEM
 */
int carrier_nccl_open(const struct carrier_nccl_options *options, struct carrier **ret_carrier,
                      struct error *error) CHECK_RESULT;

/** carrier_nccl_lost() - implement nccl_clique_options.lost, with the mesh as its context */
bool carrier_nccl_lost(void *mesh, char ret_reason[NCCL_REASON_SIZE]);
