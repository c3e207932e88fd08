/* One posted send or receive, from the call that posts it to the mesh_wait() that takes its result.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "comm/mesh/frame_stream.h"
#include "comm/mesh/mesh.h"

struct message;
struct peer;

struct mesh_request {
    TAILQ_ENTRY(mesh_request) entry; /* in the one list that has it, see below */
    struct mesh *mesh;
    struct peer *peer;
    bool done; /* under the mesh's lock, like all members below */
    int result;
    uint64_t tag;
    size_t size_bytes;

    /* A send goes peer->sends -> the stream's queue (-> peer->offers -> the queue again) -> done.
     */
    struct frame_stream_item
        item;   /* no lock: owned by the I/O thread once it has taken the request */
    void *copy; /* owned data of a send without a handle, which frees itself */

    /* A receive goes inbox posted -> done, or posted -> accepting -> accepted -> done. */
    uint8_t *data;
    uint64_t offer;          /* accepting, accepted: the number of the peer's offer */
    struct message *message; /* the data is or arrives there; mesh_wait() copies it */
};
TAILQ_HEAD(mesh_requests, mesh_request);

static inline void request_complete(struct mesh_request *request, int result)
{
    request->done = true;
    request->result = result;
}
