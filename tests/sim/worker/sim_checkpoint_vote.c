/*
 * The vote on a checkpoint while a step is computed: the real vote (protocol/checkpoint_vote.h), as
 * worker/session/checkpoint_duty.c uses it.
 */
#include "protocol/checkpoint_vote.h"

#include <errno.h>

#include "sim/worker/sim_worker.h"

void sim_vote_begin(struct sim_worker *worker)
{
    checkpoint_vote_begin(&worker->snapshot.vote, &worker->plan->layout, worker->rank,
                          worker->state.applied_step);
}

bool sim_vote_is_watched(const struct sim_worker *worker)
{
    return worker->snapshot.vote.action != CHECKPOINT_VOTE_CLOSED ||
           !checkpoint_progress_is_settled(&worker->snapshot.progress);
}

static void cast(struct sim_worker *worker)
{
    struct checkpoint_vote *vote = &worker->snapshot.vote;
    const struct unit_digests *digests = NULL;
    if (vote->is_cast || (worker->snapshot.progress.durable != vote->step &&
                          worker->sim->bug != BUG_CHECKPOINT_NOT_DURABLE))
        return;
    if (worker->state.applied_step == vote->step) {
        dispute_compare_once(worker);
        digests = &worker->rounds.digests;
    }
    checkpoint_vote_cast(vote, digests);
}

static int take(void *context, unsigned peer, bool is_answer, struct bytes *ret_message)
{
    const struct sim_worker *worker = context;
    if (sim_mesh_take_bytes(worker->mesh, peer, is_answer ? SIM_VOTED : SIM_VOTE, 0, ret_message))
        return 0;
    return worker->mesh->state == SIM_MESH_FAILED ? -ECONNRESET : -EAGAIN;
}

static int send_to(void *context, unsigned peer, bool is_answer, const struct bytes *message)
{
    const struct sim_worker *worker = context;
    sim_mesh_send_bytes(worker->mesh, peer, is_answer ? SIM_VOTED : SIM_VOTE, 0, message);
    return 0;
}

static void run_vote(struct sim_worker *worker)
{
    const struct checkpoint_vote_links links = {worker, take, send_to};
    struct checkpoint_vote *vote = &worker->snapshot.vote;
    cast(worker);
    if (checkpoint_vote_run(vote, &links) == -EBADMSG)
        sim_fail(worker->sim, "rank %u takes a vote on the checkpoint of step %llu for nonsense",
                 worker->rank, (unsigned long long)vote->step);
    if (vote->action != CHECKPOINT_VOTE_AGREED)
        return;
    if (worker->rank == 0 || plan_keeps_copies(worker->plan))
        sim_snapshot_commit(worker, vote->step);
    checkpoint_vote_close(vote);
}

void sim_vote_look(struct sim_worker *worker)
{
    sim_snapshot_poll(worker);
    if (worker->snapshot.vote.action != CHECKPOINT_VOTE_CLOSED &&
        worker->sim->bug != BUG_LATE_RECORD)
        run_vote(worker);
    if (worker->rank == 0)
        sim_snapshot_take_result(worker);
}
