/*
 * What carries the tensors of a generation to and from this worker: one carrier
 * (comm/carrier/carrier.h) a route. They live as long as the links of the generation; engines come
 * and go on them.
 *
 * A route is one way between two stages or the reduction of one stage, so that what is posted on
 * each is in one order on both sides: a stage posts micro-batches forward in their order and
 * gradients backward in theirs, but how the two interleave differs from stage to stage. Each has a
 * queue of the device for itself, which stands still until the peer has come.
 *
 * The members of a party (the replicas of a stage; two neighbouring stages of a replica) agree on
 * NCCL or the mesh for its routes. Where joining NCCL fails, the generation fails, and those who
 * failed do not offer NCCL in the next one.
 */
#pragma once

#include "comm/carrier/carrier.h"
#include "comm/mesh/mesh.h"
#include "elastic/plan/plan.h"
#include "worker/device/nccl_use.h"
#include "worker/device/route_device.h"

enum route {
    ROUTE_REDUCTION,    /* among the replicas of my stage */
    ROUTE_FORWARD_IN,   /* activations from the stage before */
    ROUTE_FORWARD_OUT,  /* and to the stage after */
    ROUTE_BACKWARD_IN,  /* their gradients from the stage after */
    ROUTE_BACKWARD_OUT, /* and to the stage before */
    ROUTES
};

struct routes {
    struct mesh *mesh; /* borrowed; small messages and what has no route go over it */
    struct carrier *over_mesh;
    bool digests[ROUTES]; /* what the carrier moves is compared (comm/carrier/carrier_digest.h) */
    struct carrier *carriers[ROUTES]; /* by enum route; over_mesh where it is not NCCL */
    struct carrier
        *guard; /* what the device may be waiting for, whichever route (carrier_guard()) */
    struct nccl_clique *clique; /* of those that are; NULL: none is */
    struct route_device devices[ROUTES];
};

struct routes_options {
    struct mesh *mesh;           /* its links are up */
    const struct plan *plan;     /* borrowed until routes_open() returns */
    unsigned rank;               /* a worker of the plan */
    const struct kernel *kernel; /* borrowed until routes_close(), the device too */
    struct kernel_device *device;
    struct nccl_use *nccl;
    uint64_t failure_timeout_ns;
};

/**
 * routes_open() - all workers of the generation call it
 *
 * Return: 0; -ECONNRESET, -ETIMEDOUT: the mesh has failed; -EIO: NCCL has, so the mesh too, and
 * NCCL is given up here; -ENOMEM
 */
int routes_open(const struct routes_options *options, struct routes *ret_routes,
                struct error *error) CHECK_RESULT;
/**
 * routes_compare() - all workers call it, once in @step, when they hold its gradients: has all that
 * went from device to device arrived as it was sent?
 *
 * Return: 0 (also where nobody asked for digests); -ECONNRESET, -ETIMEDOUT: the mesh has failed
 */
int routes_compare(const struct routes *routes, uint64_t step) CHECK_RESULT;
/** routes_close() - after the engine, before the mesh; zeroed memory is allowed */
void routes_close(struct routes *routes);
