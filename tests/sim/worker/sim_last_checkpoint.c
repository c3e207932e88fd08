/*
 * The last checkpoint: worker/session/final_checkpoint.c, point by point, around the real
 * protocol/final_checkpoint.h.
 */
#include <errno.h>

#include "sim/sim.h"
#include "sim/worker/sim_worker.h"

#define RETRY_NS       (2 * NS_PER_SECOND)
#define RECORD_LOOK_NS (NS_PER_SECOND / 20)

void session_finish(struct sim_worker *worker)
{
    if (checkpoint_progress_is_abandoned(&worker->snapshot.progress))
        sim_snapshot_reset(worker);
    checkpoint_writers_begin(&worker->snapshot.writers, worker->plan, worker->state.applied_step);
    final_checkpoint_begin(&worker->final, worker->state.applied_step, worker->rank == 0);
    worker_go(worker, POINT_SHARE);
}

/* Wait for a commit that is in flight here. */
static bool settle_before(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    const struct checkpoint_progress *progress = &snapshot->progress;
    uint64_t step = worker->state.applied_step;
    if (progress->begun.step != step)
        sim_snapshot_end_copies(worker); /* no later step can wait for them */
    sim_snapshot_take_result(worker);
    if (progress->commits) {
        worker_alarm(worker, MAX(snapshot->commit_done_ns, worker->sim->now_ns + RECORD_LOOK_NS));
        return false;
    }
    dispute_compare(worker, true);
    final_checkpoint_settled(&worker->final,
                             progress->committed == step &&
                                 progress->committed_generation == worker->generation);
    session_round(worker, SIM_ROUND_CHECKPOINT);
    return true;
}

/* Wait for this rank's share, durable or failed; then for all ranks' reports on the checkpoint. */
bool session_at_share(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    uint64_t step = worker->state.applied_step;
    if (worker->stopping) {
        worker_exit(worker, 0);
        return false;
    }
    if (worker->final.action == FINAL_CHECKPOINT_SETTLE)
        return settle_before(worker);
    sim_snapshot_poll(worker);
    if (snapshot->progress.durable != step) {
        if (!snapshot->progress.writes && snapshot->progress.failed != step)
            sim_snapshot_begin(worker);
        if (snapshot->progress.writes) {
            worker_alarm(worker, snapshot->done_ns);
            return false;
        }
    }
    dispute_compare(worker, true); /* a bit may have changed since settle_before() */
    final_checkpoint_written(&worker->final);
    session_round(worker, SIM_ROUND_CHECKPOINT);
    return true;
}

bool session_after_checkpoint_round(struct sim_worker *worker)
{
    struct final_checkpoint *final = &worker->final;
    session_hear_of_checkpoint(worker);
    if (final->round == FINAL_CHECKPOINT_BEFORE) /* a refusal of another generation's checkpoint */
        worker->refused_step = 0;
    final_checkpoint_hear(final, &worker->rounds.commit->down);
    switch (final->action) {
    case FINAL_CHECKPOINT_WRITE:
        worker_go(worker, POINT_SHARE);
        return true;
    case FINAL_CHECKPOINT_COMMIT:
        worker_go(worker, POINT_RECORD);
        worker->look_ns = worker->sim->now_ns + RECORD_LOOK_NS;
        return true;
    case FINAL_CHECKPOINT_GIVE_UP:
        sim_snapshot_abandon(worker, final->step);
        final_checkpoint_given_up(final);
        session_round(worker, SIM_ROUND_CHECKPOINT);
        return true;
    case FINAL_CHECKPOINT_RETRY:
        sim_snapshot_reset(worker);
        session_finish(worker);
        worker->busy_until_ns = worker->sim->now_ns + RETRY_NS;
        return true;
    default:
        worker_report(worker, stay_ends_job(&worker->stay) ? WORKER_FINISHED : WORKER_LEFT);
        worker_exit(worker, 0);
        return false;
    }
}

static bool looked(struct sim_worker *worker)
{
    final_checkpoint_looked(&worker->final);
    session_round(worker, SIM_ROUND_CHECKPOINT);
    return true;
}

/* From durable shares to a record in the store: rank 0 makes the record, the other ranks make
 * their copies, and all ranks report in each round whether the checkpoint can be completed. */
bool session_at_record(struct sim_worker *worker)
{
    uint64_t step = worker->state.applied_step;
    if (worker->rank != 0) {
        if (plan_keeps_copies(worker->plan))
            sim_snapshot_commit(worker, step);
        sim_snapshot_poll(worker);
        return looked(worker);
    }
    sim_snapshot_commit(worker, step);
    sim_snapshot_all_told(worker, step);
    sim_snapshot_take_result(worker);
    worker_messages(worker);
    if (worker->stopping || worker->mesh->state == SIM_MESH_FAILED ||
        worker->refused_step == step) {
        worker_broken(worker, -ECONNRESET);
        return worker->alive;
    }
    if (worker->recorded_step >= step || worker->snapshot.progress.failed == step ||
        worker->sim->now_ns >= worker->look_ns)
        return looked(worker);
    worker_alarm(worker, worker->look_ns);
    return false;
}
