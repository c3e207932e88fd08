/*
 * Replicas that hold different values: worker/state/state_digest.c, its use in
 * worker/step/step_commit.c, and worker/step/dispute.c, point by point. The real code decides which
 * replica is wrong.
 */
#include <errno.h>
#include <string.h>

#include "elastic/plan/commit_tree.h"
#include "elastic/step/dispute_verdict.h"
#include "sim/sim_bits.h"
#include "sim/sim_check.h"

#define CLAIMS_MAX ((size_t)SIM_NODES_MAX * SIM_SLOTS_MAX * SIM_UNITS)

void dispute_compare(struct sim_worker *worker, bool all)
{
    const struct plan *plan = worker->plan;
    bool compares = plan->layout.replica_count > 1 || plan->layout.shadow_count > 0;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        bool in_turn = all || unit == worker->state.applied_step % SIM_UNITS;
        worker->digests.known[unit] = compares && in_turn && worker->keeps[unit];
        worker->digests.values[unit] = sim_unit_digest(&worker->state.units[unit]);
    }
}

static void find(struct sim_worker *worker, enum sim_dispute about)
{
    sim_check_dispute(worker->sim, worker, about);
    worker->disputed = MAX(worker->disputed, about);
}

void dispute_merge(struct sim_worker *worker, const struct sim_payload *from)
{
    struct sim_payload *sum = &worker->round.sum;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        if (!from->digests.known[unit])
            continue;
        if (sum->digests.known[unit] && sum->digests.values[unit] != from->digests.values[unit] &&
            worker->sim->bug != BUG_UNSEEN_STATE)
            find(worker, SIM_DISPUTE_STATE);
        sum->digests.known[unit] = true;
        sum->digests.values[unit] = from->digests.values[unit];
    }
    worker->disputed = MAX(worker->disputed, from->dispute);
    if (!sim_record_merge(&sum->record, &from->record) && worker->disputed == SIM_DISPUTE_NOTHING &&
        worker->sim->bug != BUG_UNSEEN_GRADIENTS)
        find(worker, SIM_DISPUTE_GRADIENTS);
    sum->dispute = worker->disputed;
}

void dispute_begin(struct sim_worker *worker)
{
    worker->state.holds = false;
    worker->round.next_child = 0;
    worker_go(worker, POINT_CLAIMS);
}

/* ---- the verdict ---- */

static size_t list_claims(const struct sim_worker *worker, enum sim_dispute about,
                          struct dispute_verdict_claim *claims)
{
    size_t count = 0;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        struct dispute_verdict_claim claim = {worker->rank, unit, worker->digests.values[unit]};
        bool known = worker->digests.known[unit];
        if (about == SIM_DISPUTE_GRADIENTS) {
            known = step_record_is_known(worker->state.hold.squares[unit]);
            memcpy(&claim.bits, &worker->state.hold.squares[unit], sizeof(claim.bits));
        }
        if (known)
            claims[count++] = claim;
    }
    return count;
}

/* Rank 0 has the claims of all workers, which went up the tree with their messages. */
static void judge(struct sim_worker *root)
{
    const struct sim *sim = root->sim;
    AUTO_FREE struct dispute_verdict_claim *claims = sim_allocate(CLAIMS_MAX, sizeof(*claims));
    AUTO_FREE struct dispute_verdict *verdict = sim_allocate(1, sizeof(*verdict));
    size_t count = 0;
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (sim->workers[i]->generation == root->generation && sim->workers[i]->engine &&
            sim->workers[i]->disputed != SIM_DISPUTE_NOTHING)
            count += list_claims(sim->workers[i], root->disputed, claims + count);
    if (dispute_verdict_judge(claims, count, root->plan->layout.worker_count, verdict) < 0)
        abort();
    root->verdict = (struct sim_verdict){.settled = verdict->settled};
    for (unsigned i = 0; i < verdict->accused_count; i++)
        root->verdict.accused |= (uint64_t)1 << verdict->accused[i];
    if (sim->bug == BUG_WRONG_VERDICT)
        root->verdict.accused = ~root->verdict.accused;
}

bool dispute_at_claims(struct sim_worker *worker)
{
    struct sim_round *round = &worker->round;
    struct sim_payload payload = {.step = round->sum.step};
    unsigned first, count = commit_tree_children(&worker->plan->layout, worker->rank, &first);
    bool broken;
    for (; round->next_child < count; round->next_child++)
        if (!session_take(worker, first + round->next_child, SIM_CLAIMS, payload.step, &payload,
                          &broken))
            return broken && worker->alive;
    if (worker->rank == 0)
        judge(worker);
    else
        sim_mesh_send(worker->mesh, commit_tree_parent(worker->rank), SIM_CLAIMS, 0, &payload);
    worker_go(worker, POINT_VERDICT);
    return true;
}

static bool seen_before(const struct sim_worker *worker, uint64_t step)
{
    uint64_t interval = worker->sim->spec.checkpoint.every;
    if (worker->disputed == SIM_DISPUTE_GRADIENTS)
        return worker->doubted_step[0] == step;
    return worker->doubted_step[1] != 0 &&
           (interval == 0 || step <= worker->doubted_step[1] + MAX(interval, (uint64_t)SIM_UNITS));
}

/* The state of this slot is not to be trusted: firnd has to know before the worker may leave. */
static void leave_service(struct sim_worker *worker)
{
    worker->disputed = SIM_DISPUTE_NOTHING;
    sim_mesh_fail(worker->mesh, -ECONNRESET);
    worker_report(worker, WORKER_BAD);
    worker_go(worker, POINT_OUT);
}

bool dispute_at_verdict(struct sim_worker *worker)
{
    struct sim_payload payload = {.step = worker->round.sum.step};
    unsigned first, count = commit_tree_children(&worker->plan->layout, worker->rank, &first);
    bool broken;
    if (worker->mesh->state == SIM_MESH_FAILED) {
        worker_broken(worker, -ECONNRESET);
        return worker->alive;
    }
    if (worker->rank > 0) {
        if (!session_take(worker, commit_tree_parent(worker->rank), SIM_VERDICT, payload.step,
                          &payload, &broken))
            return broken && worker->alive;
        worker->verdict = payload.verdict;
    }
    payload.verdict = worker->verdict;
    for (unsigned child = first; child < first + count; child++)
        sim_mesh_send(worker->mesh, child, SIM_VERDICT, 0, &payload);
    bool accused = (worker->verdict.accused >> worker->rank & 1) != 0;
    bool goes = accused && (worker->verdict.settled || seen_before(worker, payload.step));
    if (!worker->verdict.settled)
        worker->doubted_step[worker->disputed == SIM_DISPUTE_STATE] = payload.step;
    sim_check_verdict(worker->sim, worker, worker->verdict.settled, goes);
    if (goes)
        leave_service(worker);
    else
        worker_broken(worker, -EAGAIN);
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
    enum sim_dispute about = worker->disputed;
    worker->disputed = SIM_DISPUTE_NOTHING;
    if (about == SIM_DISPUTE_NOTHING)
        return CAUSE_NONE;
    worker->state.holds = false;
    if (about == SIM_DISPUTE_GRADIENTS || worker->sim->bug == BUG_KEPT_DISPUTED)
        return CAUSE_NONE;
    sim_state_drop(&worker->state, NULL);
    worker->state.applied_step = 0;
    worker->state.committed.step = 0;
    sim_check_forget(worker);
    return CAUSE_STATE_DISPUTED;
}
