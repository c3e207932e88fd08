/*
 * The transports of a generation's tensors to and from this worker: one carrier
 * (comm/carrier/carrier.h) per route. Routes last as long as the links of the generation; engines
 * may be replaced meanwhile.
 *
 * A route is one direction between two stages, or the reduction of one stage, so that posts on a
 * route have one order on both sides: a stage posts micro-batches forward in their order and
 * gradients backward in theirs, but the interleaving of the two differs from stage to stage. Each
 * route has a device queue of its own, which blocks until the peer has posted.
 *
 * The members of a party (the replicas of a stage; two neighbouring stages of a replica) agree on
 * NCCL or the mesh for its routes. If joining NCCL fails, the generation fails, and the members
 * that failed do not offer NCCL in the next one.
 */
#pragma once

#include "comm/carrier/carrier.h"
#include "comm/mesh/mesh.h"
#include "elastic/plan/plan.h"
#include "worker/device/nccl_use.h"
#include "worker/device/route_device.h"

enum route {
    ROUTE_REDUCTION,    /* among the replicas of the own stage */
    ROUTE_FORWARD_IN,   /* activations from the previous stage */
    ROUTE_FORWARD_OUT,  /* activations to the next stage */
    ROUTE_BACKWARD_IN,  /* their gradients from the next stage */
    ROUTE_BACKWARD_OUT, /* gradients to the previous stage */
    ROUTES
};

struct routes {
    struct mesh *mesh; /* borrowed; for small messages and tensors without a route */
    struct carrier *over_mesh;
    bool digests[ROUTES];             /* moved data is compared (comm/carrier/carrier_digest.h) */
    struct carrier *carriers[ROUTES]; /* by enum route; over_mesh without NCCL */
    struct carrier *guard;      /* guards waits of the device on any route (carrier_guard()) */
    struct nccl_clique *clique; /* of the NCCL carriers; NULL: none */
    struct route_device devices[ROUTES];
};

struct routes_options {
    struct mesh *mesh;           /* its links are up */
    const struct plan *plan;     /* borrowed until routes_open() returns */
    unsigned rank;               /* of a worker of the plan */
    const struct kernel *kernel; /* borrowed until routes_close(); the device too */
    struct kernel_device *device;
    struct nccl_use *nccl;
    uint64_t failure_timeout_ns;
};

/**
 * routes_open() - agree on carriers and open them; all workers of the generation call it
 *
 * Return: 0; -ECONNRESET, -ETIMEDOUT: the mesh has failed; -EIO: NCCL has failed, and with it the
 * mesh; NCCL is given up here; -ENOMEM
 */
int routes_open(const struct routes_options *options, struct routes *ret_routes,
                struct error *error) CHECK_RESULT;
/**
 * routes_compare() - check that all data between devices arrived as sent
 *
 * All workers call it, once in @step, when they hold its gradients.
 * Return: 0 (also if digests are off); -ECONNRESET, -ETIMEDOUT: the mesh has failed
 */
int routes_compare(const struct routes *routes, uint64_t step) CHECK_RESULT;
/** routes_close() - close, after the engine and before the mesh; zeroed memory is allowed */
void routes_close(struct routes *routes);
