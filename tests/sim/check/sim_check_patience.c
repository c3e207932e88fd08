/*
 * Its peers wait for a worker that reads its state, however long that takes.
 */
#include "sim/check/sim_check.h"
#include "sim/node/sim_node.h"
#include "sim/worker/sim_worker.h"

static bool reads(const struct sim_worker *worker, const struct sim_worker *peer)
{
    return peer && peer->point == POINT_RESTORE && peer->generation == worker->generation &&
           sim_reachable(worker->sim, worker->node, peer->node);
}

void sim_check_patience(const struct sim_worker *worker)
{
    for (unsigned i = 0; i < worker->mesh->peer_count && worker->unreached.count == 0; i++) {
        const struct sim_peer *at = &worker->mesh->peers[i];
        const struct sim_worker *peer = sim_worker_at(worker->sim, at->node, at->slot);
        if (reads(worker, peer))
            sim_fail(worker->sim, "%s has waited for %s long enough, which still reads its state",
                     sim_worker_name(worker), sim_worker_name(peer));
    }
}
