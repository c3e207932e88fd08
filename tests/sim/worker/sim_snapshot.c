/*
 * Checkpoints as worker/checkpoint/snapshot.c makes them: shares are written while training
 * continues, rank 0 commits when all shares are durable, and firnd gets the result when the folder
 * is in place. With copies the nodes do this together (sim_replication.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elastic/copies/copies.h"
#include "sim/check/sim_check.h"
#include "sim/node/sim_node.h"
#include "sim/worker/sim_replication.h"

static bool makes_copies(const struct sim_worker *worker)
{
    return job_keeps_copies(&worker->sim->spec);
}

/* The worker reports a finished commit at the next occasion; by then the keepers of other nodes
 * have finished. */
void sim_snapshot_end_copies(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    sim_snapshot_take_result(worker);
    if (snapshot->replication && snapshot->progress.commits)
        checkpoint_progress_commit_ended(&snapshot->progress, snapshot->progress.begun.step,
                                         snapshot->progress.begun.generation, false);
    checkpoint_progress_end_copies(&snapshot->progress);
    sim_replication_stop(snapshot->replication);
    snapshot->replication = NULL;
}

void sim_snapshot_reset(struct sim_worker *worker)
{
    sim_snapshot_end_copies(worker);
    checkpoint_progress_forget(&worker->snapshot.progress);
}

void sim_snapshot_abandon(struct sim_worker *worker, uint64_t failed_step)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    if (!checkpoint_progress_abandon(&snapshot->progress, failed_step))
        return;
    if (!makes_copies(worker)) {
        sim_disk_abandon(worker->sim, failed_step, snapshot->part.generation);
        return;
    }
    sim_snapshot_end_copies(worker);
    if (worker->rank == 0)
        sim_check_given_up(worker->sim, failed_step, snapshot->part.generation);
    sim_folders_abandon(worker->sim, worker->node, failed_step, snapshot->part.generation);
}

bool sim_snapshot_busy(const struct sim_worker *worker)
{
    return checkpoint_progress_is_busy(&worker->snapshot.progress);
}

/* Return how many writing replicas of this worker's stage come before replica @end. */
static unsigned count_writers(const struct sim_worker *worker, unsigned end)
{
    const struct plan *plan = worker->plan;
    unsigned count = 0;
    for (unsigned replica = 0; replica < end; replica++)
        count += !worker->snapshot.writers.left_out[plan_layout_rank(
            &plan->layout, replica, worker->rank % plan->layout.stage_count)];
    return count;
}

static struct checkpoint_begin begin_of(const struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    bool sits_out = worker->snapshot.writers.left_out[worker->rank];
    bool has_copies = makes_copies(worker) && !sits_out;
    int node = copies_find(&plan->checkpoints, sim_node_name(worker->sim, worker->node));
    return (struct checkpoint_begin){
        .step = worker->state.applied_step,
        .generation = plan->generation,
        .rank = worker->rank,
        .sits_out = sits_out,
        .has_copies = has_copies,
        .is_keeper = has_copies && node >= 0 && copies_keeper(plan, (unsigned)node) == worker->rank,
    };
}

bool sim_snapshot_begin(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    const struct plan *plan = worker->plan;
    const struct checkpoint_begin begin = begin_of(worker);
    unsigned replica = count_writers(worker, worker->rank / plan->layout.stage_count);
    unsigned replica_count = count_writers(worker, plan->layout.replica_count);
    if (!checkpoint_progress_may_begin(&snapshot->progress))
        return false;
    snapshot->part =
        (struct sim_part){.step = begin.step, .generation = begin.generation, .rank = worker->rank};
    for (unsigned unit = worker->first_unit; unit < worker->first_unit + worker->unit_count; unit++)
        if (replica_count > 0 && unit % replica_count == replica)
            snapshot->part.units[unit] = worker->state.units[unit];
    memcpy(snapshot->left_out, worker->snapshot.writers.left_out, sizeof(snapshot->left_out));
    snapshot->world = plan->layout.worker_count;
    checkpoint_progress_begin(&snapshot->progress, &begin);
    if (snapshot->progress.writes)
        snapshot->done_ns = sim_soon(worker->sim, 5000, 200000);
    return true;
}

/* Note the end of this node's part in a checkpoint with copies. */
static void poll_keeper(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    int status;
    if (!snapshot->progress.keeps || !sim_replication_done(snapshot->replication, &status))
        return;
    sim_replication_stop(snapshot->replication);
    snapshot->replication = NULL;
    if (worker->sim->bug == BUG_SILENT_KEEPER)
        status = 0;
    checkpoint_progress_copies_ended(&snapshot->progress, status == 0 ? CHECKPOINT_OUTCOME_DONE
                                                          : status == -EIO
                                                              ? CHECKPOINT_OUTCOME_UNABLE
                                                              : CHECKPOINT_OUTCOME_FAILED);
}

/* Write the share, unless the disk is broken. */
static enum checkpoint_outcome write_share(struct sim_worker *worker)
{
    const struct sim_snapshot *snapshot = &worker->snapshot;
    if (snapshot->progress.begun.step == 0)
        return CHECKPOINT_OUTCOME_DONE; /* of a generation that is over */
    if (sim_disk_is_broken(worker->sim, worker->node))
        return CHECKPOINT_OUTCOME_UNABLE;
    if (makes_copies(worker))
        sim_folders_write(worker->sim, worker->node, &snapshot->part);
    else
        sim_disk_write_part(worker->sim, &snapshot->part);
    return CHECKPOINT_OUTCOME_DONE;
}

void sim_snapshot_poll(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    poll_keeper(worker);
    if (snapshot->progress.writes && worker->sim->now_ns >= snapshot->done_ns)
        checkpoint_progress_share_ended(&snapshot->progress, write_share(worker));
}

void sim_snapshot_commit(struct sim_worker *worker, uint64_t durable_step)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    if (checkpoint_progress_start(&snapshot->progress, durable_step) == CHECKPOINT_WORK_NONE)
        return;
    if (makes_copies(worker)) {
        snapshot->replication = sim_replication_start(worker);
        return;
    }
    snapshot->commit_step = durable_step;
    snapshot->commit_generation = snapshot->part.generation;
    snapshot->commit_world = snapshot->world;
    memcpy(snapshot->commit_left_out, snapshot->left_out, sizeof(snapshot->left_out));
    snapshot->commit_done_ns = sim_soon(worker->sim, 2000, 60000);
}

void sim_snapshot_all_told(struct sim_worker *worker, uint64_t durable_step)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    if (snapshot->progress.commits && snapshot->progress.begun.step == durable_step)
        sim_replication_keepers_told(snapshot->replication);
}

static void tell_committed(struct sim_worker *worker, uint64_t step, uint64_t generation)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    AUTO_FREE struct control_message *message = sim_allocate(1, sizeof(*message));
    struct control_checkpoint *told = &message->checkpoint;
    message->type = CONTROL_CHECKPOINT;
    told->step = step;
    told->generation = generation;
    told->frozen_layers = sim_frozen_layers(worker->sim, step);
    told->is_unproven = worker->point == POINT_FORWARD && worker->state.applied_step == step;
    sim_disk_path(step, told->path, sizeof(told->path));
    if (snapshot->replication)
        told->shares = sim_replication_shares(snapshot->replication);
    else
        generation = sim_disk_find(worker->sim, step)->made_by;
    snprintf(told->manifest_sha256, sizeof(told->manifest_sha256), "%064llx",
             (unsigned long long)generation);
    worker_say(worker, message);
    control_message_done(message);
}

static void take_replication(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    uint64_t step = snapshot->progress.begun.step, generation = snapshot->part.generation;
    int status;
    if (!snapshot->progress.commits || !sim_replication_done(snapshot->replication, &status))
        return;
    checkpoint_progress_commit_ended(&snapshot->progress, step, generation, status == 0);
    if (status == 0)
        tell_committed(worker, step, generation);
    sim_replication_stop(snapshot->replication);
    snapshot->replication = NULL;
}

void sim_snapshot_take_result(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    if (snapshot->replication)
        take_replication(worker);
    if (!snapshot->progress.commits || makes_copies(worker) ||
        worker->sim->now_ns < snapshot->commit_done_ns)
        return;
    int status = sim_disk_commit(worker->sim, snapshot->commit_step, snapshot->commit_generation,
                                 snapshot->commit_world, snapshot->commit_left_out);
    checkpoint_progress_commit_ended(&snapshot->progress, snapshot->commit_step,
                                     snapshot->commit_generation, status == 0);
    if (status == 0) {
        tell_committed(worker, snapshot->commit_step, snapshot->commit_generation);
        return;
    }
    if (status == -EEXIST)
        sim_fail(worker->sim, "the checkpoint of step %llu holds other bits than this run's",
                 (unsigned long long)snapshot->commit_step);
}
