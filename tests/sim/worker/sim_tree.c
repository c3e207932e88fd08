#include "sim/worker/sim_tree.h"

#include <errno.h>

#include "sim/worker/sim_worker.h"

static int receive(struct sim_worker *worker, enum sim_tag tag)
{
    CLEANUP(bytes_done) struct bytes content = {0};
    struct sim_tree *tree = &worker->rounds.tree;

    if (sim_mesh_take_bytes(worker->mesh, tree->round.peer, tag, tree->step, &content))
        return tree_round_take(&tree->round, content.data, content.size_bytes);
    return worker->mesh->state == SIM_MESH_FAILED ? -ECONNRESET : -EAGAIN;
}

static int send_to(struct sim_worker *worker, unsigned first, unsigned count, enum sim_tag tag)
{
    CLEANUP(bytes_done) struct bytes content = {0};
    struct sim_tree *tree = &worker->rounds.tree;
    if (worker->mesh->state == SIM_MESH_FAILED)
        return -ECONNRESET;
    int status = tree_round_pack(&tree->round, &content);
    for (unsigned i = 0; !status && i < count; i++)
        sim_mesh_send_bytes(worker->mesh, first + i, tag, tree->step, &content);
    return status;
}

int sim_tree_step(struct sim_worker *worker)
{
    struct sim_tree *tree = &worker->rounds.tree;
    const struct tree_round *round = &tree->round;

    switch (round->action) {
    case TREE_RECEIVE_PART:
        return receive(worker, tree->part_tag);
    case TREE_SEND_PART:
        return send_to(worker, round->peer, 1, tree->part_tag);
    case TREE_DECIDE:
        return tree_round_decide(&tree->round);
    case TREE_RECEIVE_ANSWER:
        return receive(worker, tree->answer_tag);
    case TREE_SEND_ANSWER:
        return send_to(worker, round->first_child, round->child_count, tree->answer_tag);
    case TREE_DONE:
        break;
    }
    return 0;
}

int sim_tree_run(struct sim_worker *worker, enum tree_action stop)
{
    int status = 0;

    while (!status && worker->rounds.tree.round.action < stop)
        status = sim_tree_step(worker);
    return status;
}
