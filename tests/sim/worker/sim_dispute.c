/*
 * Replicas that hold different values: the digests of worker/state/state_digest.c, and the waits of
 * worker/step/dispute_round.c around the real dispute (protocol/dispute.h).
 */
#include <errno.h>
#include <string.h>

#include "sim/check/sim_check.h"
#include "sim/worker/sim_bits.h"

void dispute_compare(struct sim_worker *worker, bool all)
{
    const struct plan *plan = worker->plan;
    worker->rounds.all_step = all ? worker->state.applied_step : UINT64_MAX;
    bool compares = (plan->layout.replica_count > 1 || plan->layout.shadow_count > 0) &&
                    worker->sim->bug != BUG_UNSEEN_STATE;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        bool in_turn = all || unit == worker->state.applied_step % SIM_UNITS;
        worker->rounds.digests.known[unit] = compares && in_turn && worker->keeps[unit];
        worker->rounds.digests.values[unit] = sim_unit_digest(&worker->state.units[unit]);
    }
}

void dispute_compare_once(struct sim_worker *worker)
{
    if (worker->rounds.all_step != worker->state.applied_step)
        dispute_compare(worker, true);
}

void dispute_hear(struct sim_worker *worker)
{
    enum dispute_about about = worker->rounds.commit->down.dispute;
    if (about <= worker->rounds.disputed)
        return;
    sim_check_dispute(worker->sim, worker, about);
    worker->rounds.disputed = about;
}

/* ---- the verdict ---- */

static void begin_tree(struct sim_worker *worker, enum sim_tag part, enum sim_tag answer)
{
    struct sim_tree *tree = &worker->rounds.tree;
    tree->part_tag = part;
    tree->answer_tag = answer;
    tree->step = worker->rounds.commit->sum.up.record.step;
}

void dispute_settle(struct sim_worker *worker)
{
    AUTO_FREE struct dispute_verdict_claim *claims =
        sim_allocate(STEP_RECORD_UNITS_MAX, sizeof(*claims));
    struct sim_rounds *rounds = &worker->rounds;
    struct step_record hold;
    sim_record_to(&worker->state.hold, &hold);
    size_t count = dispute_list_claims(&hold, &worker->rounds.digests, worker->rounds.disputed,
                                       worker->rank, claims);
    worker->state.holds = false;
    dispute_done(&rounds->dispute);
    rounds->judged = false;
    begin_tree(worker, SIM_CLAIMS, SIM_VERDICT);
    if (dispute_begin(&rounds->dispute, &rounds->tree.round, &worker->plan->layout, worker->rank,
                      claims, count))
        abort();
    worker_go(worker, POINT_CLAIMS);
}

bool dispute_at_claims(struct sim_worker *worker)
{
    int status = sim_tree_run(worker, TREE_DECIDE);
    if (status == -EAGAIN)
        return false;
    if (status)
        worker_broken(worker, status);
    else
        worker_go(worker, POINT_VERDICT);
    return worker->alive;
}

/* This slot cannot be trusted: firnd must know before the worker may leave. */
static void leave_service(struct sim_worker *worker)
{
    worker->rounds.disputed = DISPUTE_NOTHING;
    sim_mesh_fail(worker->mesh, -ECONNRESET);
    worker_report(worker, WORKER_BAD);
    worker_go(worker, POINT_OUT);
}

/* Planted bug: rank 0 accuses the other ranks, if there are any. */
static void accuse_others(struct sim_worker *root)
{
    struct dispute_verdict *verdict = &root->rounds.dispute.verdict;
    bool accused[JOB_DEVICES_MAX] = {false};
    for (unsigned i = 0; i < verdict->accused_count; i++)
        accused[verdict->accused[i]] = true;
    if (verdict->accused_count == root->plan->layout.worker_count)
        return;
    verdict->accused_count = 0;
    for (unsigned rank = 0; rank < root->plan->layout.worker_count; rank++)
        if (!accused[rank])
            verdict->accused[verdict->accused_count++] = rank;
}

/* Get the verdict, then wait until every rank has it. */
static int await_verdict(struct sim_worker *worker)
{
    struct sim_rounds *rounds = &worker->rounds;
    struct tree_round *round = &rounds->tree.round;
    int status = 0;
    if (!rounds->judged && round->action == TREE_DECIDE) {
        status = tree_round_decide(round);
        if (!status && worker->sim->bug == BUG_WRONG_VERDICT)
            accuse_others(worker);
    }
    if (!rounds->judged && !status)
        status = sim_tree_run(worker, TREE_DONE);
    if (status)
        return status;
    if (!rounds->judged) {
        rounds->judged = true;
        begin_tree(worker, SIM_HERE, SIM_ALL_HERE);
        tree_round_begin(round, &tree_question_all_here, NULL, &worker->plan->layout, worker->rank);
    }
    return sim_tree_run(worker, TREE_DONE) == -EAGAIN ? -EAGAIN : 0;
}

bool dispute_at_verdict(struct sim_worker *worker)
{
    const struct sim *sim = worker->sim;
    const struct dispute_verdict *verdict = &worker->rounds.dispute.verdict;
    uint64_t step = worker->rounds.tree.step;
    enum dispute_about about = worker->rounds.disputed;
    struct error error = {0};
    if (worker->mesh->state == SIM_MESH_FAILED && !worker->rounds.judged) {
        worker_broken(worker, -ECONNRESET);
        return worker->alive;
    }
    int status = await_verdict(worker);
    if (status == -EAGAIN)
        return false;
    if (status) {
        worker_broken(worker, status);
        return worker->alive;
    }
    bool again = dispute_memory_has_seen(&worker->rounds.disputes, about, step,
                                         sim->spec.checkpoint.every, SIM_UNITS);
    dispute_memory_note(&worker->rounds.disputes, about, step, verdict);
    status =
        dispute_outcome(&worker->plan->layout, worker->rank, about, step, verdict, again, &error);
    bool goes = status == -ENOTRECOVERABLE;
    sim_check_verdict(worker->sim, worker, verdict->settled, goes);
    if (goes)
        leave_service(worker);
    else
        worker_broken(worker, status);
    return worker->alive;
}

bool dispute_at_out(struct sim_worker *worker)
{
    worker_messages(worker);
    if (worker->stopping)
        worker_exit(worker, 0);
    return false;
}

enum worker_cause dispute_let_go(struct sim_worker *worker)
{
    enum dispute_about about = worker->rounds.disputed;
    worker->rounds.disputed = DISPUTE_NOTHING;
    if (about == DISPUTE_NOTHING)
        return CAUSE_NONE;
    worker->state.holds = false;
    if (about == DISPUTE_GRADIENTS || worker->sim->bug == BUG_KEPT_DISPUTED)
        return CAUSE_NONE;
    sim_state_drop(&worker->state, NULL);
    worker->state.applied_step = 0;
    worker->state.committed.step = 0;
    sim_check_forget(worker);
    return CAUSE_STATE_DISPUTED;
}
