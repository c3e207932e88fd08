/*
 * A carrier moves tensors between the workers of one generation: the sums of a reduction, and
 * activations and their gradients between stages. A carrier moves bytes and computes nothing, so
 * the numbers do not depend on the choice of carrier.
 *
 *     mesh  over the links of the mesh, host memory (carrier_mesh.c)
 *     nccl  from GPU to GPU (carrier_nccl.c)
 *
 * A carrier is one ordered route among some ranks. NCCL has no tags and matches moves by order; the
 * mesh matches moves by tag. So callers provide both: two ranks post the moves between them in the
 * same order, in the same calls of post, and a tag is unique among the moves in flight between
 * them.
 *
 * One thread posts and waits; any thread may abort.
 *
 * Every wait has a deadline, but a device that waits for a message has none of its own. So a caller
 * that gives the device work or waits for it, while the device waits for a message (precede()),
 * must hold the guard() of any one carrier of that device that has one. After the caller has waited
 * for all messages, at the end of a step, the device waits for no message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define CARRIER_MOVE_MAX ((size_t)1 << 34) /* bytes of one move */

struct carrier;
struct carrier_request; /* one posted move; each carrier defines its own */

struct carrier_move {
    unsigned peer; /* rank in the generation */
    bool receive;
    uint64_t tag;
    void *data; /* memory of the kind that the carrier moves; a send only reads it */
    size_t size_bytes;
};

struct carrier_operations {
    const char *name;   /* "mesh", "nccl": for the log */
    bool device_memory; /* moves device memory; false: host memory */
    bool by_tag;        /* matches by tag alone: a receive may be posted long before its send */
    /*
     * Post @moves in their order. Their data is borrowed until wait() of their request.
     * ret_requests receives one request per move, in the order of the moves.
     *
     * Return: 0, -ECONNRESET, -ETIMEDOUT, -ENOMEM. Each of these is a failure of the carrier: a
     * move posted before it has its request, the others have NULL.
     */
    int (*post)(struct carrier *carrier, const struct carrier_move *moves, size_t move_count,
                struct carrier_request **ret_requests) CHECK_RESULT;
    /*
     * Wait until the move is complete; free the request in every case. Work submitted afterwards,
     * on the device for device memory, may use the received data.
     *
     * Return: 0; -ECONNRESET, -ETIMEDOUT, -EMSGSIZE: the carrier has failed, for all of its ranks.
     */
    int (*wait)(struct carrier *carrier, struct carrier_request *request) CHECK_RESULT;
    /*
     * Order work submitted from now on after the move, on the device, without blocking the caller.
     * The caller still waits for the request: wait() reports whether the data is valid. NULL: the
     * carrier moves host memory.
     */
    void (*precede)(struct carrier *carrier, struct carrier_request *request);
    /* Return whether wait() would return at once. NULL: unknown. */
    bool (*test)(struct carrier *carrier, struct carrier_request *request);
    /*
     * Bound the time for which the device may block the caller until unguard(), for any carrier of
     * this device. When that takes longer than the deadline of a message, the carrier fails and the
     * device continues. Call no other function of a carrier in between. unguard() has the result
     * codes of wait(). Both NULL: the device never waits for this carrier.
     */
    void (*guard)(struct carrier *carrier);
    int (*unguard)(struct carrier *carrier) CHECK_RESULT;
    /* Fail the carrier with @reason, for all of its ranks, and end every wait. Any thread may call
     * it. */
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

/** carrier_complete() - wait for *request and set it to NULL; a NULL request is complete */
CHECK_RESULT static inline int carrier_complete(struct carrier *carrier,
                                                struct carrier_request **request)
{
    struct carrier_request *taken = *request;

    *request = NULL;
    return taken ? carrier->operations->wait(carrier, taken) : 0;
}

/** carrier_precede() - call precede(). Return: false if the carrier has none: wait for @request
 * instead */
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

/** carrier_mesh_new() - make a carrier over @mesh, which is borrowed and may carry other messages
 * too. Return: 0, -ENOMEM */
int carrier_mesh_new(struct mesh *mesh, struct carrier **ret_carrier) CHECK_RESULT;
