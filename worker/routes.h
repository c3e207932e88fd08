/*
 * What carries the tensors of a generation to and from this worker: one carrier (comm/carrier.h) a
 * route. They live as long as the links of the generation; engines come and go on them.
 *
 * A route is one way between two stages or the reduction of one stage, so that what is posted on
 * each is in one order on both sides: a stage posts micro-batches forward in their order and
 * gradients backward in theirs, but how the two interleave differs from stage to stage.
 */
#pragma once

#include "comm/carrier.h"
#include "comm/mesh.h"

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
    struct carrier *carriers[ROUTES]; /* by enum route */
};

/** routes_open() - on links that are up. Return: 0, -ENOMEM */
int routes_open(struct mesh *mesh, struct routes *ret_routes) CHECK_RESULT;
/** routes_close() - after the engine, before the mesh; one that is all zero is closed already */
void routes_close(struct routes *routes);
