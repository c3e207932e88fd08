/*
 * Restore state from a checkpoint or from the seed: worker/state/restore.c, and its use in
 * worker/session/generation.c and trainer.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/check/sim_check.h"
#include "sim/node/sim_node.h"
#include "sim/worker/sim_replication.h"

static int read_shared(const struct sim_worker *worker, struct sim_checkpoint *ret_checkpoint)
{
    const struct sim *sim = worker->sim;
    const struct sim_checkpoint *there = sim_disk_open(sim, worker->plan->start.restore_path);
    if (!there)
        return -ENOENT;
    *ret_checkpoint = sim->bug == BUG_OTHER_CHECKPOINT ? sim->disk->checkpoints[0] : *there;
    return 0;
}

static void note_unreached(struct sim_worker *worker, const char *node)
{
    struct mesh_unreached *unreached = &worker->unreached;
    int rank = plan_layout_find_node(&worker->plan->layout, node);
    if (rank >= 0 && unreached->count < MESH_UNREACHED_MAX)
        unreached->ranks[unreached->count++] = (unsigned)rank;
}

/* Return whether the host is silent: it may be dead, or the network to it is cut. */
static bool is_silent(const struct sim *sim, unsigned node, unsigned to)
{
    return node != to && (!sim->nodes[node].up || !sim_reachable(sim, node, to));
}

/* Read every unit from any node of the plan that has it; -EHOSTUNREACH: an absent node may have
 * it. */
static int read_copies(struct sim_worker *worker, struct sim_checkpoint *ret_checkpoint)
{
    const struct sim *sim = worker->sim;
    const struct plan *plan = worker->plan;
    uint64_t nodes = 0, generation = strtoull(plan->start.restore_sha256, NULL, 16);
    bool all_answer = true;
    for (unsigned i = 0; i < plan->checkpoints.copy_node_count; i++) {
        unsigned node = sim_node_index(sim, plan->checkpoints.copy_nodes[i].node);
        bool answers = sim_serves(sim, node, worker->node);
        all_answer = all_answer && answers;
        if (is_silent(sim, node, worker->node))
            note_unreached(worker, plan->checkpoints.copy_nodes[i].node);
        nodes |= answers ? (uint64_t)1 << node : 0;
    }
    if (sim->bug == BUG_AWAY_AS_LOST && !all_answer)
        return -ENOENT;
    ret_checkpoint->step = plan->start.resume_step;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        const struct sim_unit *found =
            sim_folders_find(sim, nodes, plan->start.resume_step, generation, unit);
        if (found)
            ret_checkpoint->units[unit] = *found;
        else if (plan_layout_keeps(&plan->layout, worker->rank, unit))
            return all_answer ? -ENOENT : -EHOSTUNREACH;
    }
    return 0;
}

/* Make the seed's state, which equals a checkpoint of step 0. */
static void initialize(struct sim_checkpoint *ret_checkpoint)
{
    ret_checkpoint->step = 0;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        ret_checkpoint->units[unit] =
            (struct sim_unit){.held = true, .hash = sim_initial_hash(unit)};
}

/* Restore from a checkpoint or from the seed. */
int sim_restore(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    struct sim_state *state = &worker->state;
    struct sim_checkpoint checkpoint = {0};
    int status = 0;
    if (plan->start.source != PLAN_SOURCE_CHECKPOINT)
        initialize(&checkpoint);
    else if (plan->start.restore_sha256[0] != '\0')
        status = read_copies(worker, &checkpoint);
    else
        status = read_shared(worker, &checkpoint);
    if (status < 0)
        return status;
    state->applied_step = checkpoint.step;
    state->committed.step = 0;
    state->holds = false;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (plan_layout_keeps(&plan->layout, worker->rank, unit))
            state->units[unit] = checkpoint.units[unit];
    return 0;
}
