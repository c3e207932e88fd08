/*
 * NCCL as a carrier: device memory from GPU to GPU, in groups of sends and receives on a stream.
 *
 * The identity of a communicator is made by the first member of the route and goes to the others
 * over the mesh. When the mesh fails, the clique is ended (give it carrier_nccl_lost()); when NCCL
 * fails, the mesh is failed with its reason, so that all workers of the generation hear of it.
 */
#pragma once

#include "comm/carrier/carrier.h"
#include "comm/carrier/carrier_choice.h"
#include "comm/carrier/nccl.h"

/* What the nccl carrier needs of the device whose memory it moves. All calls come from the thread
 * that posts and waits, `passed` also from inside a wait; none may block. */
struct carrier_device {
    void *context;
    void *stream; /* a cudaStream_t; carriers that share one must post in one order everywhere */
    /* what is put on the stream from now on runs after all that is being computed */
    void (*follow)(void *context, void *stream);
    /* a mark is passed when all is done that the stream held when it was set. Return: 0, -ENOMEM */
    int (*mark_new)(void *context, void **ret_mark);
    void (*mark_set)(void *context, void *mark, void *stream);
    bool (*mark_passed)(void *context, void *mark);
    /* what is computed from now on runs after all that the stream held when it was set */
    void (*mark_precede)(void *context, void *mark);
    void (*mark_free)(void *context, void *mark);
};

struct carrier_nccl_options {
    struct carrier_group group;
    struct nccl_library *library;
    struct nccl_clique *clique; /* borrowed; one serves all routes of a worker's generation */
    struct carrier_device device;
    uint64_t join_deadline_ns; /* monotonic */
    uint64_t move_timeout_ns; /* what is posted must have been moved so long after it is waited for:
                                 a peer that computes is late too, a dead one the mesh tells of */
};

/**
 * carrier_nccl_open() - all members of a group that agreed on NCCL call it, groups in an order that
 * cannot wait in a circle
 *
 * Return: 0; -ENOTSUP: the first member's NCCL gives no identity, which all members learn; nothing
 * has failed; -EIO: NCCL failed, and the mesh is failed with @error; -ECONNRESET, -ETIMEDOUT: the
 * mesh failed, so the clique is ended; -ENOMEM
 */
int carrier_nccl_open(const struct carrier_nccl_options *options, struct carrier **ret_carrier,
                      struct error *error) CHECK_RESULT;

/** carrier_nccl_lost() - nccl_clique_options.lost, with the mesh as its context */
bool carrier_nccl_lost(void *mesh, char ret_reason[NCCL_REASON_SIZE]);
