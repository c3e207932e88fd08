/*
 * Checkpoints as worker/snapshot.c makes them: shares are written while training goes on, rank 0
 * commits when all are durable, and firnd is told when the folder is there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/sim_worker.h"

bool sim_snapshot_due(const struct sim *sim, uint64_t step)
{
    return sim->spec.checkpoint.every != 0 && step % sim->spec.checkpoint.every == 0 &&
           step != sim->spec.train.steps;
}

void sim_snapshot_reset(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    snapshot->begun_step = snapshot->durable_step = snapshot->failed_step = 0;
}

void sim_snapshot_forget(struct sim_worker *worker)
{
    sim_snapshot_reset(worker);
}

bool sim_snapshot_begin(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    const struct plan *plan = worker->plan;
    unsigned replica = worker->rank / plan->stage_count;
    if (snapshot->writing)
        return false;
    snapshot->part = (struct sim_part){
        .step = worker->state.applied_step, .generation = plan->generation, .rank = worker->rank};
    for (unsigned unit = worker->first_unit; unit < worker->first_unit + worker->unit_count; unit++)
        if (unit % plan->replica_count == replica)
            snapshot->part.units[unit] = worker->state.units[unit];
    snapshot->writing = true;
    snapshot->begun_step = worker->state.applied_step;
    snapshot->world = plan->worker_count;
    snapshot->done_ns = sim_soon(worker->sim, 5000, 200000);
    return true;
}

void sim_snapshot_poll(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    if (!snapshot->writing || worker->sim->now_ns < snapshot->done_ns)
        return;
    snapshot->writing = false;
    if (snapshot->begun_step == 0)
        return; /* of a generation that is over */
    if (worker->sim->disk->broken) {
        snapshot->failed_step = snapshot->begun_step;
        return;
    }
    sim_disk_write_part(worker->sim, &snapshot->part);
    snapshot->durable_step = snapshot->begun_step;
}

void sim_snapshot_commit(struct sim_worker *worker, uint64_t durable_step)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    if (durable_step == 0 || durable_step != snapshot->begun_step ||
        durable_step == snapshot->failed_step || snapshot->committing ||
        (durable_step == snapshot->committed_step &&
         snapshot->part.generation == snapshot->committed_generation))
        return;
    snapshot->committing = true;
    snapshot->commit_step = durable_step;
    snapshot->commit_generation = snapshot->part.generation;
    snapshot->commit_world = snapshot->world;
    snapshot->commit_done_ns = sim_soon(worker->sim, 2000, 60000);
}

void sim_snapshot_take_result(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    if (!snapshot->committing || worker->sim->now_ns < snapshot->commit_done_ns)
        return;
    snapshot->committing = false;
    int status = sim_disk_commit(worker->sim, snapshot->commit_step, snapshot->commit_generation,
                                 snapshot->commit_world);
    if (status < 0) {
        if (snapshot->commit_step == snapshot->begun_step)
            snapshot->failed_step = snapshot->commit_step;
        if (status == -EEXIST)
            sim_fail(worker->sim, "the checkpoint of step %llu holds other bits than this run's",
                     (unsigned long long)snapshot->commit_step);
        return;
    }
    AUTO_FREE struct control_message *message = sim_allocate(1, sizeof(*message));
    snapshot->committed_step = snapshot->commit_step;
    snapshot->committed_generation = snapshot->commit_generation;
    message->type = CONTROL_CHECKPOINT;
    message->checkpoint.step = snapshot->commit_step;
    message->checkpoint.generation = snapshot->commit_generation;
    sim_disk_path(snapshot->commit_step, message->checkpoint.path,
                  sizeof(message->checkpoint.path));
    snprintf(message->checkpoint.manifest_sha256, sizeof(message->checkpoint.manifest_sha256),
             "%064llx",
             (unsigned long long)sim_disk_find(worker->sim, snapshot->commit_step)->made_by);
    worker_say(worker, message);
}
