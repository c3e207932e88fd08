/* The links of the mesh as a carrier: a request is the mesh's own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "comm/carrier/carrier.h"
#include "comm/mesh/mesh.h"

struct carrier_mesh {
    struct carrier carrier; /* first */
    struct mesh *mesh;
};

static struct mesh *mesh_of(struct carrier *carrier)
{
    return ((struct carrier_mesh *)carrier)->mesh;
}

static int post(struct carrier *carrier, const struct carrier_move *moves, size_t move_count,
                struct carrier_request **ret_requests)
{
    int status = 0;

    memset(ret_requests, 0, move_count * sizeof(*ret_requests));
    for (size_t i = 0; i < move_count && status == 0; i++) {
        const struct carrier_move *move = &moves[i];
        struct mesh_request *request = NULL;
        status = move->receive ? mesh_receive(mesh_of(carrier), move->peer, move->tag, move->data,
                                              move->size_bytes, &request)
                               : mesh_send(mesh_of(carrier), move->peer, move->tag, move->data,
                                           move->size_bytes, &request);
        ret_requests[i] = (struct carrier_request *)request;
    }
    return status;
}

static int wait_for(struct carrier *carrier, struct carrier_request *request)
{
    (void)carrier;
    return mesh_wait((struct mesh_request *)request, UINT64_MAX); /* heartbeats watch the peers */
}

static bool test(struct carrier *carrier, struct carrier_request *request)
{
    (void)carrier;
    return mesh_test((struct mesh_request *)request);
}

static void abort_mesh(struct carrier *carrier, const char *reason)
{
    mesh_abort(mesh_of(carrier), reason);
}

static void free_carrier(struct carrier *carrier)
{
    free(carrier);
}

static const struct carrier_operations mesh_operations = {
    .name = "mesh",
    .by_tag = true,
    .post = post,
    .wait = wait_for,
    .test = test,
    .abort = abort_mesh,
    .free = free_carrier,
};

int carrier_mesh_new(struct mesh *mesh, struct carrier **ret_carrier)
{
    struct carrier_mesh *made = calloc(1, sizeof(*made));

    if (!made)
        return -ENOMEM;
    *made = (struct carrier_mesh){.carrier.operations = &mesh_operations, .mesh = mesh};
    *ret_carrier = &made->carrier;
    return 0;
}
