/*
 * Checkpoints as worker/checkpoint/snapshot.c makes them: shares are written while training goes
 * on, rank 0 commits when all shares are durable, and firnd gets the result when the folder is in
 * place. With copies the nodes do this together (sim_replication.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elastic/copies/copies.h"
#include "sim/check/sim_check.h"
#include "sim/node/sim_node.h"
#include "sim/worker/sim_replication.h"

bool sim_snapshot_due(const struct sim *sim, uint64_t step)
{
    return sim->spec.checkpoint.every != 0 && step % sim->spec.checkpoint.every == 0 &&
           step != sim->spec.train.steps;
}

static bool makes_copies(const struct sim_worker *worker)
{
    return job_keeps_copies(&worker->sim->spec);
}

/* A finished commit is reported at the next occasion; the keepers of other nodes are finished
 * then. */
void sim_snapshot_end_copies(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    sim_snapshot_take_result(worker);
    sim_replication_stop(snapshot->replication);
    snapshot->replication = NULL;
}

void sim_snapshot_reset(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    sim_snapshot_end_copies(worker);
    snapshot->begun_step = snapshot->durable_step = snapshot->failed_step = 0;
    snapshot->abandoned_step = 0;
    snapshot->kept_step = snapshot->unable_step = 0;
}

void sim_snapshot_forget(struct sim_worker *worker)
{
    sim_snapshot_reset(worker);
}

void sim_snapshot_abandon(struct sim_worker *worker, uint64_t failed_step)
{
    const struct sim_snapshot *snapshot = &worker->snapshot;
    if (failed_step == 0 || failed_step != snapshot->begun_step)
        return;
    if (!makes_copies(worker)) { /* a single folder, which rank 0 manages */
        if (worker->rank == 0 && snapshot->abandoned_step != failed_step)
            sim_disk_abandon(worker->sim, failed_step, snapshot->part.generation);
        worker->snapshot.abandoned_step = failed_step;
        return;
    }
    sim_snapshot_end_copies(worker);
    worker->snapshot.abandoned_step = failed_step;
    if (worker->rank == 0)
        sim_check_given_up(worker->sim, failed_step, snapshot->part.generation);
    sim_folders_abandon(worker->sim, worker->node, failed_step, snapshot->part.generation);
}

/* A step was begun, and rank 0 does not know its outcome yet. */
static bool is_open(const struct sim_snapshot *snapshot)
{
    bool committed = snapshot->begun_step == snapshot->committed_step &&
                     snapshot->part.generation == snapshot->committed_generation;
    return snapshot->begun_step != 0 && !committed &&
           snapshot->begun_step != snapshot->abandoned_step &&
           snapshot->begun_step != snapshot->failed_step;
}

bool sim_snapshot_busy(const struct sim_worker *worker)
{
    const struct sim_snapshot *snapshot = &worker->snapshot;
    return snapshot->writing || snapshot->replication ||
           (worker->rank == 0 && makes_copies(worker) && is_open(snapshot));
}

/* How many replicas of this one's stage that write come before replica @end. */
static unsigned count_writers(const struct sim_worker *worker, unsigned end)
{
    const struct plan *plan = worker->plan;
    unsigned count = 0;
    for (unsigned replica = 0; replica < end; replica++)
        count += !worker->writers.left_out[plan_layout_rank(
            &plan->layout, replica, worker->rank % plan->layout.stage_count)];
    return count;
}

bool sim_snapshot_begin(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    const struct plan *plan = worker->plan;
    unsigned replica = count_writers(worker, worker->rank / plan->layout.stage_count);
    unsigned replica_count = count_writers(worker, plan->layout.replica_count);
    if (snapshot->writing || snapshot->replication)
        return false;
    snapshot->part = (struct sim_part){
        .step = worker->state.applied_step, .generation = plan->generation, .rank = worker->rank};
    for (unsigned unit = worker->first_unit; unit < worker->first_unit + worker->unit_count; unit++)
        if (replica_count > 0 && unit % replica_count == replica)
            snapshot->part.units[unit] = worker->state.units[unit];
    memcpy(snapshot->left_out, worker->writers.left_out, sizeof(snapshot->left_out));
    snapshot->begun_step = worker->state.applied_step;
    snapshot->world = plan->layout.worker_count;
    snapshot->writing = !snapshot->left_out[worker->rank];
    if (!snapshot->writing) { /* others do */
        snapshot->durable_step = snapshot->begun_step;
        return true;
    }
    snapshot->done_ns = sim_soon(worker->sim, 5000, 200000);
    return true;
}

/* This node's part in a checkpoint with copies has come to its end. */
static void poll_keeper(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    int status;
    if (!snapshot->replication || worker->rank == 0 ||
        !sim_replication_done(snapshot->replication, &status))
        return;
    sim_replication_stop(snapshot->replication);
    snapshot->replication = NULL;
    if (status < 0 && worker->sim->bug != BUG_SILENT_KEEPER)
        snapshot->failed_step = snapshot->begun_step;
    if (status == -EIO)
        snapshot->unable_step = snapshot->failed_step;
}

void sim_snapshot_poll(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    poll_keeper(worker);
    if (!snapshot->writing || worker->sim->now_ns < snapshot->done_ns)
        return;
    snapshot->writing = false;
    if (snapshot->begun_step == 0)
        return; /* of a generation that is over */
    if (sim_disk_is_broken(worker->sim, worker->node)) {
        snapshot->failed_step = snapshot->unable_step = snapshot->begun_step;
        return;
    }
    if (makes_copies(worker))
        sim_folders_write(worker->sim, worker->node, &snapshot->part);
    else
        sim_disk_write_part(worker->sim, &snapshot->part);
    snapshot->durable_step = snapshot->begun_step;
}

static void start_spread(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    int store = copies_find(&worker->plan->checkpoints, sim_node_name(worker->sim, worker->node));
    if (snapshot->kept_step == snapshot->begun_step || snapshot->left_out[worker->rank] ||
        (worker->rank != 0 && copies_keeper(worker->plan, (unsigned)store) != worker->rank))
        return;
    snapshot->kept_step = snapshot->begun_step;
    snapshot->replication = sim_replication_start(worker);
}

void sim_snapshot_commit(struct sim_worker *worker, uint64_t durable_step)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    if (durable_step == 0 || durable_step != snapshot->begun_step ||
        durable_step == snapshot->failed_step || snapshot->committing ||
        (durable_step == snapshot->committed_step &&
         snapshot->part.generation == snapshot->committed_generation))
        return;
    if (makes_copies(worker)) {
        if (!snapshot->replication)
            start_spread(worker);
        return;
    }
    snapshot->committing = true;
    snapshot->commit_step = durable_step;
    snapshot->commit_generation = snapshot->part.generation;
    snapshot->commit_world = snapshot->world;
    memcpy(snapshot->commit_left_out, snapshot->left_out, sizeof(snapshot->left_out));
    snapshot->commit_done_ns = sim_soon(worker->sim, 2000, 60000);
}

static void tell_committed(struct sim_worker *worker, uint64_t step, uint64_t generation)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    AUTO_FREE struct control_message *message = sim_allocate(1, sizeof(*message));
    struct control_checkpoint *told = &message->checkpoint;
    snapshot->committed_step = step;
    snapshot->committed_generation = generation;
    message->type = CONTROL_CHECKPOINT;
    told->step = step;
    told->generation = generation;
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

static void take_spread(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    int status;
    if (worker->rank != 0 || !sim_replication_done(snapshot->replication, &status))
        return;
    if (status < 0)
        snapshot->failed_step = snapshot->begun_step;
    else
        tell_committed(worker, snapshot->begun_step, snapshot->part.generation);
    sim_replication_stop(snapshot->replication);
    snapshot->replication = NULL;
}

void sim_snapshot_take_result(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    if (snapshot->replication)
        take_spread(worker);
    if (!snapshot->committing || worker->sim->now_ns < snapshot->commit_done_ns)
        return;
    snapshot->committing = false;
    int status = sim_disk_commit(worker->sim, snapshot->commit_step, snapshot->commit_generation,
                                 snapshot->commit_world, snapshot->commit_left_out);
    if (status == 0) {
        tell_committed(worker, snapshot->commit_step, snapshot->commit_generation);
        return;
    }
    if (snapshot->commit_step == snapshot->begun_step)
        snapshot->failed_step = snapshot->commit_step;
    if (status == -EEXIST)
        sim_fail(worker->sim, "the checkpoint of step %llu holds other bits than this run's",
                 (unsigned long long)snapshot->commit_step);
}
