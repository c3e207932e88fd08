/*
 * What moves tensors between the workers of one generation: the sums of a reduction, activations
 * and their gradients between stages. A carrier moves bytes and computes nothing, so the numbers
 * cannot depend on which one it is.
 *
 *     mesh  over the links of the mesh, memory of the host (carrier_mesh.c)
 *     nccl  from GPU to GPU (carrier_nccl.c)
 *
 * A carrier is one ordered route among some ranks. NCCL has no tags, it knows order alone; the mesh
 * matches tags. So callers give both: two ranks post what goes between them in the same order, in
 * the same calls of post, and a tag is unique among what is under way between them.
 *
 * One thread posts and waits; any may abort.
 *
 * No wait is without a deadline, and a device that waits for a message has none of its own. So the
 * rule for whoever gives a device work, or waits for it, while messages that it waits for
 * (precede()) have not been waited for: under carrier_guard(), of any one carrier of the device's
 * that has one. When all have been waited for, at the end of a step, the device waits for nobody.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define CARRIER_MOVE_MAX ((size_t)1 << 34) /* bytes of one move */

struct carrier;
struct carrier_request; /* one posted move; what it is, is the carrier's */

struct carrier_move {
    unsigned peer; /* rank in the generation */
    bool receive;
    uint64_t tag;
    void *data; /* memory of the kind that the carrier moves; a send only reads it */
    size_t size_bytes;
};

struct carrier_operations {
    const char *name;   /* "mesh", "nccl": for the log */
    bool device_memory; /* it moves memory of the device; others move the host's */
    bool by_tag;        /* tags alone match: a receive may be posted long before its send */
    /*
     * Post @moves in their order; their data is borrowed until wait() of their request. One request
     * a move goes to ret_requests, in the order of the moves.
     *
     * Return: 0, -ECONNRESET, -ETIMEDOUT, -ENOMEM. A failure is one of the carrier: what was posted
     * before it has its request, the others have NULL.
     */
    int (*post)(struct carrier *carrier, const struct carrier_move *moves, size_t move_count,
                struct carrier_request **ret_requests) CHECK_RESULT;
    /*
     * Until the move is complete; frees the request in every case. Received data can then be used
     * by what is computed next, on the device where it lies there.
     *
     * Return: 0; -ECONNRESET, -ETIMEDOUT, -EMSGSIZE: the carrier has failed, for all of its ranks.
     */
    int (*wait)(struct carrier *carrier, struct carrier_request *request) CHECK_RESULT;
    /*
     * What is computed from now on comes after the move, on the device: nobody waits here, and the
     * request is still to be waited for, which tells whether the data is right. NULL: the carrier
     * moves memory of the host.
     */
    void (*precede)(struct carrier *carrier, struct carrier_request *request);
    /* Whether wait() would return at once. NULL: nobody knows. */
    bool (*test)(struct carrier *carrier, struct carrier_request *request);
    /*
     * Until unguard() the caller may be blocked by the device, on account of any carrier of this
     * device's: where that takes longer than a message may, the carrier fails, and the device goes
     * on. No call of a carrier comes between. unguard() returns what wait() does. NULL, both: the
     * device never waits for this carrier.
     */
    void (*guard)(struct carrier *carrier);
    int (*unguard)(struct carrier *carrier) CHECK_RESULT;
    /* Fail it with @reason, for all of its ranks; nobody waits any more. From any thread. */
    void (*abort)(struct carrier *carrier, const char *reason);
    /* Every request must have been waited for. */
    void (*free)(struct carrier *carrier);
};

struct carrier {
    const struct carrier_operations *operations;
};

CHECK_RESULT static inline int carrier_post(struct carrier *carrier,
                                            const struct carrier_move *moves, size_t move_count,
                                            struct carrier_request **ret_requests)
{
    return carrier->operations->post(carrier, moves, move_count, ret_requests);
}

/** carrier_complete() - wait for *request, which becomes NULL; one that is NULL is complete */
CHECK_RESULT static inline int carrier_complete(struct carrier *carrier,
                                                struct carrier_request **request)
{
    struct carrier_request *taken = *request;

    *request = NULL;
    return taken ? carrier->operations->wait(carrier, taken) : 0;
}

/** carrier_precede() - false: the carrier cannot, wait for @request instead */
static inline bool carrier_precede(struct carrier *carrier, struct carrier_request *request)
{
    if (!carrier->operations->precede)
        return false;
    carrier->operations->precede(carrier, request);
    return true;
}

static inline bool carrier_test(struct carrier *carrier, struct carrier_request *request)
{
    return carrier->operations->test && carrier->operations->test(carrier, request);
}

static inline void carrier_guard(struct carrier *carrier)
{
    if (carrier->operations->guard)
        carrier->operations->guard(carrier);
}

CHECK_RESULT static inline int carrier_unguard(struct carrier *carrier)
{
    return carrier->operations->unguard ? carrier->operations->unguard(carrier) : 0;
}

static inline void carrier_abort(struct carrier *carrier, const char *reason)
{
    carrier->operations->abort(carrier, reason);
}

static inline void carrier_free(struct carrier *carrier)
{
    if (carrier)
        carrier->operations->free(carrier);
}

struct mesh;

/** carrier_mesh_new() - over @mesh, which is borrowed and may carry other things too. Return: 0,
 * -ENOMEM */
int carrier_mesh_new(struct mesh *mesh, struct carrier **ret_carrier) CHECK_RESULT;
