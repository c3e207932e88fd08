#include "comm/mesh/mesh_state.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int mesh_peer_compare(const void *a, const void *b)
{
    unsigned rank_a = ((const struct peer *)a)->options.rank;
    unsigned rank_b = ((const struct peer *)b)->options.rank;
    return (rank_a > rank_b) - (rank_a < rank_b);
}

struct peer *mesh_peer_find(struct mesh *mesh, unsigned rank)
{
    struct peer key = {.options.rank = rank};
    if (mesh->peer_count == 0)
        return NULL;
    return bsearch(&key, mesh->peers, mesh->peer_count, sizeof(key), mesh_peer_compare);
}

void peer_label(const struct peer *peer, char ret_label[MESH_LABEL_SIZE])
{
    const char *name = peer->options.name[0] ? peer->options.name : peer->options.address;
    snprintf(ret_label, MESH_LABEL_SIZE, "%s (rank %u)", name, peer->options.rank);
}

void mesh_wake(struct mesh *mesh)
{
    const uint64_t one = 1;
    if (mesh->wishes.wake_pending)
        return;
    mesh->wishes.wake_pending = true;
    ssize_t count = write(mesh->io.wake, &one, sizeof(one));
    assert(count == sizeof(one) || errno == EAGAIN);
}

void request_free(struct mesh_request *request)
{
    request->mesh->posted.count--;
    message_free(request->message);
    free(request->copy);
    free(request);
}
