/*
 * The vote on a checkpoint while a step is computed: the real one (protocol/checkpoint_vote.h),
 * with what worker/session/checkpoint_duty.c does around it.
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

static int hear(struct sim_worker *worker, unsigned peer, bool answer)
{
    struct checkpoint_vote *vote = &worker->snapshot.vote;
    int status = 0;
    while (!status) {
        CLEANUP(bytes_done) struct bytes content = {0};
        if (!sim_mesh_take_bytes(worker->mesh, peer, answer ? SIM_VOTED : SIM_VOTE, 0, &content))
            return worker->mesh->state == SIM_MESH_FAILED ? -ECONNRESET : 0;
        status = answer ? checkpoint_vote_hear(vote, content.data, content.size_bytes)
                        : checkpoint_vote_take(vote, peer - vote->first_child, content.data,
                                               content.size_bytes);
    }
    return status;
}

static int listen(struct sim_worker *worker)
{
    const struct checkpoint_vote *vote = &worker->snapshot.vote;
    int status = 0;
    for (unsigned child = 0; !status && child < vote->child_count; child++)
        status = hear(worker, vote->first_child + child, false);
    if (!status && vote->is_sent)
        status = hear(worker, commit_tree_parent(vote->rank), true);
    return status;
}

static void say(struct sim_worker *worker)
{
    struct checkpoint_vote *vote = &worker->snapshot.vote;
    CLEANUP(bytes_done) struct bytes content = {0};
    bool up = vote->action == CHECKPOINT_VOTE_SEND_UP;
    unsigned first = up ? commit_tree_parent(vote->rank) : vote->first_child;
    unsigned count = up ? 1 : vote->child_count;
    if (checkpoint_vote_pack(vote, &content))
        abort();
    for (unsigned i = 0; i < count; i++)
        sim_mesh_send_bytes(worker->mesh, first + i, up ? SIM_VOTE : SIM_VOTED, 0, &content);
}

static void run_vote(struct sim_worker *worker)
{
    struct checkpoint_vote *vote = &worker->snapshot.vote;
    cast(worker);
    int status = listen(worker);
    while (!status &&
           (vote->action == CHECKPOINT_VOTE_SEND_UP || vote->action == CHECKPOINT_VOTE_SEND_DOWN))
        say(worker);
    if (status == -EBADMSG)
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
