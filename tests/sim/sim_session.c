/*
 * The step loop and the end of a stay: worker/session/session.c and
 * worker/session/final_checkpoint.c, point by point.
 */
#include <errno.h>
#include <string.h>

#include "base/timeouts.h"
#include "elastic/plan/commit_tree.h"
#include "sim/sim_bits.h"
#include "sim/sim_check.h"
#include "sim/sim_store.h"
#include "sim/sim_stragglers.h"
#include "sim/sim_worker.h"

#define RETRY_NS       (2 * NS_PER_SECOND)
#define RECORD_LOOK_NS (NS_PER_SECOND / 20)
#define PROGRESS_NS    (NS_PER_SECOND / 4)

static unsigned stage_of(const struct sim_worker *worker)
{
    return worker->rank % worker->plan->layout.stage_count;
}

static bool is_last_stage(const struct sim_worker *worker)
{
    return stage_of(worker) + 1 == worker->plan->layout.stage_count;
}

static uint64_t next_step(const struct sim_worker *worker)
{
    return worker->state.applied_step + 1;
}

/* A wait for a message of this generation; with a failed mesh the generation is over instead. */
static bool take_one(struct sim_worker *worker, unsigned from, enum sim_tag tag, uint64_t step,
                     unsigned index, struct sim_payload *ret_payload, bool *ret_broken)
{
    *ret_broken = false;
    if (sim_mesh_take(worker->mesh, from, tag, step, index, ret_payload))
        return true;
    *ret_broken = worker->mesh->state == SIM_MESH_FAILED;
    if (*ret_broken)
        worker_broken(worker, -ECONNRESET);
    return false;
}

bool session_take(struct sim_worker *worker, unsigned from, enum sim_tag tag, uint64_t step,
                  struct sim_payload *ret_payload, bool *ret_broken)
{
    return take_one(worker, from, tag, step, 0, ret_payload, ret_broken);
}

/* ---- a step up to HOLD ---- */

void session_begin(struct sim_worker *worker)
{
    worker->readiness = (struct sim_readiness){0};
    memset(&worker->writers, 0, sizeof(worker->writers));
    sim_straggler_watch(worker);
    worker_go(worker, POINT_STEP);
}

/* Lanes that are done already take no time. */
static void compute_drawn(struct sim_worker *worker, double share)
{
    const struct sim *sim = worker->sim;
    worker_busy(worker, sim->compute_us / 2, sim->compute_us);
    if (worker->share.division.step == next_step(worker))
        worker->busy_until_ns =
            sim->now_ns + (uint64_t)((double)(worker->busy_until_ns - sim->now_ns) *
                                     MIN(1.0, share * worker->plan->layout.replica_count));
}

/* Compute forward and backward in one piece before sending the result on: nothing overlaps. */
static void compute(struct sim_worker *worker)
{
    const struct sim *sim = worker->sim;
    double share = sim_division_share(worker);
    uint64_t share_ns =
        (uint64_t)((double)(sim->costs.lane_ns * SIM_LANES * worker->unit_count) * share);
    worker->share.from_ns = sim->now_ns;
    if (sim->spec.elastic.evict_stragglers.factor > 0)
        worker->busy_until_ns = sim->now_ns + sim_straggler_compute(worker);
    else if (sim->costs.lane_ns == 0)
        compute_drawn(worker, share);
    else
        worker->busy_until_ns = sim->now_ns + share_ns / SIM_UNITS;
}

static bool at_step(struct sim_worker *worker)
{
    worker_messages(worker);
    if (worker->stopping) {
        worker_exit(worker, 0);
        return false;
    }
    if (worker->sim->bug == BUG_SWITCH_WITHOUT_FLAG && worker->pending &&
        worker->pending->layout.worker_count > 0) {
        worker_switch(worker);
        return worker->alive;
    }
    if (worker->sim->bug == BUG_WAITS_FOR_ETCD && worker->sim->store->down) {
        worker_alarm(worker, worker->sim->now_ns + RECORD_LOOK_NS);
        return false;
    }
    if (worker->state.applied_step >= worker->sim->spec.train.steps) {
        session_finish(worker, WORKER_FINISHED);
        return true;
    }
    worker->act_digest = 0;
    worker_go(worker, POINT_FORWARD);
    compute(worker);
    return true;
}

static bool at_forward(struct sim_worker *worker)
{
    struct sim_payload payload = {.step = next_step(worker)};
    bool broken;
    if (worker->mesh->state == SIM_MESH_FAILED) {
        worker_broken(worker, -ECONNRESET);
        return worker->alive;
    }
    if (stage_of(worker) > 0 &&
        !session_take(worker, worker->rank - 1, SIM_ACTIVATION, payload.step, &payload, &broken))
        return broken && worker->alive;
    payload.digest = sim_forward(payload.digest, payload.step, worker->state.units,
                                 worker->first_unit, worker->unit_count);
    if (is_last_stage(worker))
        worker->act_digest = payload.digest;
    else
        sim_mesh_send(worker->mesh, worker->rank + 1, SIM_ACTIVATION, 0, &payload);
    worker_go(worker, POINT_BACKWARD);
    return true;
}

static void send_to_replicas(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    const struct sim_payload payload = {.step = next_step(worker), .digest = worker->act_digest};
    for (unsigned replica = 0; replica < plan->layout.replica_count; replica++) {
        unsigned rank = plan_layout_rank(&plan->layout, replica, stage_of(worker));
        if (rank != worker->rank)
            sim_mesh_send(worker->mesh, rank, SIM_REDUCE, 0, &payload);
    }
    worker->round.next_child = 0;
}

/* The stage's worker of replica 0 feeds the copy of its stage, and waits for nothing. */
static void feed_shadow(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    const struct sim_payload payload = {.step = next_step(worker), .digest = worker->act_digest};
    int keeper = plan_layout_shadow_of(&plan->layout, stage_of(worker));
    if (keeper >= 0 && worker->rank < plan->layout.stage_count)
        sim_mesh_send(worker->mesh, (unsigned)keeper, SIM_SHADOW, stage_of(worker), &payload);
}

/* Add this worker's part of the record once it has the reduced gradients of a stage, its own or a
 * shadowed stage. */
static void add_squares(struct sim_worker *worker, unsigned stage, uint64_t digest)
{
    const struct plan *plan = worker->plan;
    uint64_t step = next_step(worker);
    for (unsigned unit = plan->layout.stage_first_unit[stage];
         unit < plan->layout.stage_first_unit[stage + 1]; unit++) {
        bool flipped = sim_bits_flips_gradient(worker, unit);
        worker->state.hold.squares[unit] = sim_square(unit, step, flipped ? ~digest : digest);
        worker->gradients_step[unit] = flipped ? 0 : step;
        sim_check_gradients(worker, unit, step);
    }
}

static void hold(struct sim_worker *worker)
{
    struct sim_state *state = &worker->state;
    uint64_t step = next_step(worker);
    sim_record_init(&state->hold, step);
    add_squares(worker, stage_of(worker), worker->act_digest);
    for (unsigned lane = 0; is_last_stage(worker) && lane < SIM_LANES; lane++)
        if (sim_division_owns(worker, lane))
            state->hold.losses[lane] = sim_loss(lane, step, worker->act_digest);
}

static bool at_backward(struct sim_worker *worker)
{
    struct sim_payload payload = {.step = next_step(worker), .digest = worker->act_digest};
    bool broken;
    if (!is_last_stage(worker) &&
        !session_take(worker, worker->rank + 1, SIM_GRADIENT, payload.step, &payload, &broken))
        return broken && worker->alive;
    worker->act_digest = payload.digest;
    if (stage_of(worker) > 0)
        sim_mesh_send(worker->mesh, worker->rank - 1, SIM_GRADIENT, 0, &payload);
    send_to_replicas(worker);
    if (worker->plan->layout.replica_count == 1) /* final already */
        feed_shadow(worker);
    if (worker->sim->bug == BUG_HOLD_BEFORE_REDUCE) {
        hold(worker);
        worker->state.holds = true;
    }
    worker_go(worker, POINT_REDUCE);
    worker_busy(worker, 1000, 6000);
    return true;
}

/* Once all shares are durable, rank 0 decides: it reports whether the checkpoint is recorded. */
static uint64_t durable_when_closing(const struct sim_worker *worker)
{
    uint64_t step = worker->state.applied_step;
    if (worker->finish == FINISH_SHARES)
        return worker->snapshot.durable_step;
    return worker->rank == 0 && worker->recorded_step < step ? 0 : step;
}

static void begin_round(struct sim_worker *worker, bool closing)
{
    struct sim_round *round = &worker->round;
    round->closing = closing;
    round->next_child = 0;
    round->sum = (struct sim_payload){
        .step = worker->state.applied_step + (closing ? 0 : 1),
        .durable_step = closing ? durable_when_closing(worker) : worker->snapshot.durable_step,
        .failed_step = worker->snapshot.failed_step,
    };
    round->sum.digests = worker->digests;
    worker->disputed = SIM_DISPUTE_NOTHING;
    round->sum.busy = !closing && sim_snapshot_busy(worker);
    if (worker->snapshot.unable_step != 0 &&
        worker->snapshot.unable_step == worker->snapshot.failed_step)
        round->sum.unable = (struct checkpoint_writers_unable){.count = 1, .ranks = {worker->rank}};
    if (worker->announced > worker->generation)
        round->sum.readiness.announced_min = round->sum.readiness.announced_max = worker->announced;
    else
        round->sum.readiness.lacking = (uint64_t)1 << worker->rank;
    if (closing)
        sim_record_init(&round->sum.record, worker->state.applied_step);
    else
        round->sum.record = worker->state.hold;
    worker_go(worker, POINT_GATHER);
}

/*
 * A worker with other parameters computes other gradients, and all workers sum them in the same
 * order. The sum of equal digests is the digest itself, so the layout makes no difference.
 */
static void add_gradients(struct sim_worker *worker, unsigned rank, uint64_t digest)
{
    const struct sim *sim = worker->sim;
    if (digest != worker->act_digest && !sim_bits_may_be_wrong(sim, worker->generation))
        sim_fail(worker->sim,
                 "step %llu: rank %u and rank %u of generation %llu compute on different "
                 "parameters",
                 (unsigned long long)next_step(worker), rank, worker->rank,
                 (unsigned long long)worker->generation);
    if (rank < worker->plan->layout.stage_count) /* the first */
        worker->sum_digest = digest;
    else if (digest != worker->sum_digest)
        worker->sum_digest = sim_mix(worker->sum_digest, digest);
}

/* The sum over all replicas of the stage, in their order. */
static bool at_reduce(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    struct sim_round *round = &worker->round;
    struct sim_payload payload;
    bool broken;
    for (; round->next_child < plan->layout.replica_count; round->next_child++) {
        unsigned rank = plan_layout_rank(&plan->layout, round->next_child, stage_of(worker));
        payload.digest = worker->act_digest;
        if (rank != worker->rank &&
            !session_take(worker, rank, SIM_REDUCE, next_step(worker), &payload, &broken))
            return broken && worker->alive;
        add_gradients(worker, rank, payload.digest);
    }
    worker->act_digest = worker->sum_digest;
    if (plan->layout.replica_count > 1)
        feed_shadow(worker);
    hold(worker);
    worker->next_shadow = 0;
    worker_go(worker, POINT_SHADOW);
    return true;
}

/* HOLD only with the gradients of every copy that is kept here. */
static bool at_shadow(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    struct sim_payload payload;
    bool broken;
    for (; worker->next_shadow < plan->layout.shadow_count; worker->next_shadow++) {
        const struct plan_shadow *shadow = &plan->layout.shadows[worker->next_shadow];
        if (shadow->rank != worker->rank || worker->sim->bug == BUG_HOLD_BEFORE_SHADOW)
            continue;
        if (!take_one(worker, plan_layout_rank(&plan->layout, 0, shadow->stage), SIM_SHADOW,
                      next_step(worker), shadow->stage, &payload, &broken))
            return broken && worker->alive;
        add_squares(worker, shadow->stage, payload.digest);
    }
    dispute_compare(worker, sim_snapshot_due(worker->sim, worker->state.applied_step));
    worker->state.holds = true;
    sim_check_hold(worker->sim, worker);
    sim_snapshot_poll(worker);
    begin_round(worker, false);
    return true;
}

/* ---- HOLD to COMMIT ---- */

/* Planted bug: the right values, before the step is known to be committed. */
static void apply_early(struct sim_worker *worker)
{
    struct sim_state *state = &worker->state;
    if (!state->holds)
        return;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        if (!worker->keeps[unit])
            continue;
        state->units[unit] = worker->sim->check->history[next_step(worker)][unit];
        sim_check_apply(worker->sim, worker, unit);
    }
    state->holds = false;
}

/* Planted bug: the record can be complete without this worker's part. */
static bool adds_nothing(const struct sim_worker *worker, unsigned child)
{
    unsigned stage = child % worker->plan->layout.stage_count;
    unsigned unit = worker->plan->layout.stage_first_unit[stage];
    return stage + 1 < worker->plan->layout.stage_count &&
           step_record_is_known(worker->round.sum.record.squares[unit]);
}

static void merge_readiness(struct sim_readiness *sum, const struct sim_readiness *part)
{
    if (part->announced_min != 0)
        sum->announced_min = sum->announced_min != 0 ? MIN(sum->announced_min, part->announced_min)
                                                     : part->announced_min;
    sum->announced_max = MAX(sum->announced_max, part->announced_max);
    sum->lacking |= part->lacking;
}

/* The ranks unable to write belong to the newest step that failed. */
static void merge_failed(struct sim_payload *sum, const struct sim_payload *part)
{
    if (part->failed_step > sum->failed_step) {
        sum->failed_step = part->failed_step;
        sum->unable = part->unable;
    } else if (part->failed_step == sum->failed_step) {
        checkpoint_writers_merge(&sum->unable, &part->unable);
    }
}

static void hear_of_checkpoint(struct sim_worker *worker)
{
    const struct sim_payload *down = &worker->round.down;
    checkpoint_writers_hear(&worker->writers, down->failed_step, &down->unable, down->durable_step);
}

static bool at_gather(struct sim_worker *worker)
{
    struct sim_round *round = &worker->round;
    unsigned first, count = commit_tree_children(&worker->plan->layout, worker->rank, &first);
    struct sim_payload payload;
    bool broken;
    if (worker->sim->bug == BUG_APPLY_WITHOUT_COMMIT && !round->closing)
        apply_early(worker);
    for (; round->next_child < count; round->next_child++) {
        enum sim_tag tag = round->closing ? SIM_CLOSING : SIM_HOLD;
        if (worker->sim->bug == BUG_COMMIT_WITHOUT_HOLDS && !round->closing &&
            adds_nothing(worker, first + round->next_child))
            continue;
        if (!session_take(worker, first + round->next_child, tag, round->sum.step, &payload,
                          &broken))
            return broken && worker->alive;
        dispute_merge(worker, &payload);
        round->sum.durable_step = MIN(round->sum.durable_step, payload.durable_step);
        merge_failed(&round->sum, &payload);
        round->sum.busy |= payload.busy;
        merge_readiness(&round->sum.readiness, &payload.readiness);
    }
    if (worker->rank > 0)
        sim_mesh_send(worker->mesh, commit_tree_parent(worker->rank),
                      round->closing ? SIM_CLOSING : SIM_HOLD, 0, &round->sum);
    worker_go(worker, POINT_ASK);
    return true;
}

/* Return whether every worker of this plan that the next plan needs has the next plan. */
static bool is_ready(const struct sim_worker *worker)
{
    const struct plan *plan = worker->plan, *next = worker->pending;
    const struct sim_readiness *readiness = &worker->readiness;
    if (readiness->announced_min != next->generation ||
        readiness->announced_max != next->generation)
        return false;
    if (next->layout.worker_count == 0) /* all write the last checkpoint together */
        return readiness->lacking == 0;
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++)
        if ((readiness->lacking >> rank & 1) != 0 &&
            plan_layout_find(&next->layout, plan->layout.workers[rank].node,
                             plan->layout.workers[rank].slot) >= 0)
            return false;
    return true;
}

static void decide_commit(struct sim_worker *worker)
{
    struct sim_round *round = &worker->round;
    round->down = round->sum;
    if (round->closing || worker->disputed != SIM_DISPUTE_NOTHING)
        return;
    if (worker->sim->bug == BUG_CHECKPOINT_NOT_DURABLE)
        round->down.durable_step = worker->snapshot.durable_step;
    bool follows = worker->pending && worker->pending->change.planned &&
                   worker->pending->follows == worker->generation && is_ready(worker);
    round->down.switch_generation = follows ? worker->pending->generation : 0;
    worker->readiness = round->sum.readiness;
    if (!sim_record_complete(&round->down.record))
        sim_fail(worker->sim, "step %llu: the record is incomplete at the root",
                 (unsigned long long)round->down.step);
    else
        sim_check_commit(worker->sim, worker->plan, &round->down.record,
                         round->down.switch_generation);
    sim_straggler_judge(worker);
}

static void send_down(struct sim_worker *worker)
{
    unsigned first, count = commit_tree_children(&worker->plan->layout, worker->rank, &first);
    for (unsigned child = first; child < first + count; child++)
        sim_mesh_send(worker->mesh, child, worker->round.closing ? SIM_CLOSED : SIM_COMMIT, 0,
                      &worker->round.down);
}

/* worker/session/session.c's settle_into_generation(): the state of the previous generation is no
 * longer needed. */
static void settle_in(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    if (!worker->first_commit)
        return;
    worker->first_commit = false;
    if (worker->sim->bug == BUG_DROPPED_SHADOW)
        for (unsigned unit = 0; unit < SIM_UNITS; unit++)
            worker->keeps[unit] &= unit - worker->first_unit < worker->unit_count;
    sim_state_drop(&worker->state, worker->keeps);
    for (unsigned donor = plan->layout.worker_count;
         donor < plan->layout.worker_count + plan->layout.donor_count; donor++) {
        bool served = false;
        for (unsigned m = 0; m < plan->start.move_count; m++)
            served |= plan->start.moves[m].to_rank == worker->rank &&
                      plan->start.moves[m].from_rank == donor;
        const struct sim_payload nothing = {0};
        if (served)
            sim_mesh_send(worker->mesh, donor, SIM_RELEASE, 0, &nothing);
    }
}

static bool after_closing(struct sim_worker *worker);

static bool at_ask(struct sim_worker *worker)
{
    struct sim_round *round = &worker->round;
    bool broken;
    if (worker->mesh->state == SIM_MESH_FAILED) {
        worker_broken(worker, -ECONNRESET);
        return worker->alive;
    }
    if (worker->rank == 0 && !round->closing && worker->disputed == SIM_DISPUTE_NOTHING &&
        worker->held_generation >= worker->generation)
        return false;
    if (worker->rank == 0)
        decide_commit(worker);
    else if (!session_take(worker, commit_tree_parent(worker->rank),
                           round->closing ? SIM_CLOSED : SIM_COMMIT, round->sum.step, &round->down,
                           &broken))
        return broken && worker->alive;
    send_down(worker);
    worker->disputed = MAX(worker->disputed, round->down.dispute);
    if (worker->disputed != SIM_DISPUTE_NOTHING) {
        dispute_begin(worker);
        return true;
    }
    if (round->closing)
        return after_closing(worker);
    settle_in(worker);
    worker_go(worker, POINT_APPLY);
    worker_busy(worker, 500, 6000);
    return true;
}

/* ---- APPLIED ---- */

void session_apply(struct sim_worker *worker, const struct sim_record *record)
{
    struct sim_state *state = &worker->state;
    uint64_t digest = sim_record_digest(record);
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        struct sim_unit *held = &state->units[unit];
        bool own = unit - worker->first_unit < worker->unit_count;
        if (!worker->keeps[unit] || (!own && worker->sim->bug == BUG_STALE_SHADOW))
            continue;
        /* Without this step's gradients the optimizer takes the stale content of the buffers. */
        sim_apply_unit(held, record->step, digest + (record->step - worker->gradients_step[unit]));
        held->step++;
        sim_check_apply(worker->sim, worker, unit);
    }
    state->applied_step = record->step;
    state->committed = *record;
    state->holds = false;
}

static void tell_progress(struct sim_worker *worker)
{
    struct sim *sim = worker->sim;
    uint64_t step = worker->state.applied_step;
    if (sim->now_ns - worker->progress_ns < PROGRESS_NS && step < sim->spec.train.steps)
        return;
    AUTO_FREE struct control_message *message = sim_allocate(1, sizeof(*message));
    worker->progress_ns = sim->now_ns;
    message->type = CONTROL_PROGRESS;
    message->progress.generation = worker->generation;
    message->progress.step = step;
    message->progress.frozen_layers = sim_frozen_layers(sim, step);
    message->progress.step_seconds = 0.05;
    sim_straggler_tell(worker, &message->progress);
    worker_say(worker, message);
}

static void look_after_checkpoint(struct sim_worker *worker)
{
    const struct sim_payload *down = &worker->round.down;
    hear_of_checkpoint(worker);
    sim_snapshot_abandon(worker, down->failed_step);
    if (worker->rank == 0 || worker->plan->checkpoints.copies > 1)
        sim_snapshot_commit(worker, down->durable_step);
    if (worker->rank == 0)
        sim_snapshot_take_result(worker);
    if (!sim_snapshot_due(worker->sim, worker->state.applied_step) || down->switch_generation != 0)
        return;
    bool may_begin = !down->busy || worker->sim->bug == BUG_BEGUN_BY_SOME;
    if (may_begin)
        checkpoint_writers_begin(&worker->writers, worker->plan, worker->state.applied_step);
    sim_check_begun(worker->sim, worker, may_begin && sim_snapshot_begin(worker));
}

static bool at_apply(struct sim_worker *worker)
{
    session_apply(worker, &worker->round.down.record);
    tell_progress(worker);
    look_after_checkpoint(worker);
    bool more = worker->state.applied_step < worker->sim->spec.train.steps;
    if (worker->round.down.switch_generation != 0 && more) {
        worker->deadline_ns = worker->sim->now_ns + TIMEOUTS_ANNOUNCED_PLAN * SIM_FAILURE_TIMEOUT;
        worker_alarm(worker, worker->deadline_ns);
        worker_go(worker, POINT_ANNOUNCED);
    } else {
        worker_go(worker, POINT_STEP);
    }
    return true;
}

/* The commit announced the next generation: its plan is here, or in flight. */
static bool at_announced(struct sim_worker *worker)
{
    worker_messages(worker);
    if (worker->stopping) {
        worker_exit(worker, 0);
        return false;
    }
    bool is_here =
        worker->pending && worker->pending->generation >= worker->round.down.switch_generation;
    if (!is_here && worker->sim->now_ns < worker->deadline_ns)
        return false;
    if (!is_here)
        worker_broken(worker, -ETIMEDOUT);
    else if (worker->pending->layout.worker_count > 0)
        worker_switch(worker);
    else
        session_finish(worker, WORKER_LEFT);
    return worker->alive;
}

/* ---- the end (worker/session/final_checkpoint.c) ---- */

void session_finish(struct sim_worker *worker, enum worker_phase leaves_as)
{
    const struct sim_snapshot *snapshot = &worker->snapshot;
    if (snapshot->begun_step != 0 && snapshot->begun_step == snapshot->abandoned_step)
        sim_snapshot_forget(worker);
    checkpoint_writers_begin(&worker->writers, worker->plan, worker->state.applied_step);
    worker->leaves_as = leaves_as;
    worker->finish = FINISH_SHARES;
    worker_go(worker, POINT_SHARE);
}

/* Wait for this rank's share, durable or failed; then for all ranks' reports on the checkpoint. */
static bool at_share(struct sim_worker *worker)
{
    struct sim_snapshot *snapshot = &worker->snapshot;
    uint64_t step = worker->state.applied_step;
    if (worker->stopping) {
        worker_exit(worker, 0);
        return false;
    }
    if (snapshot->begun_step != step)
        sim_snapshot_end_copies(worker); /* there is no later step to wait for them in */
    sim_snapshot_poll(worker);
    if (snapshot->durable_step != step) {
        if (!snapshot->writing && snapshot->failed_step != step)
            sim_snapshot_begin(worker);
        if (snapshot->writing) {
            worker_alarm(worker, snapshot->done_ns);
            return false;
        }
    }
    dispute_compare(worker, true);
    begin_round(worker, true);
    return true;
}

static bool give_up(struct sim_worker *worker)
{
    worker->finish = FINISH_GIVEN_UP;
    sim_snapshot_abandon(worker, worker->state.applied_step);
    begin_round(worker, true);
    return true;
}

static bool record_it(struct sim_worker *worker)
{
    worker_go(worker, POINT_RECORD);
    worker->look_ns = worker->sim->now_ns + RECORD_LOOK_NS;
    return true;
}

static bool after_closing(struct sim_worker *worker)
{
    uint64_t step = worker->state.applied_step;
    hear_of_checkpoint(worker);
    bool failed = worker->round.down.failed_step == step;
    bool durable = worker->round.down.durable_step == step && !failed;
    if (worker->finish == FINISH_GIVEN_UP) {
        sim_snapshot_forget(worker); /* tried again, until it succeeds */
        session_finish(worker, worker->leaves_as);
        worker->busy_until_ns = worker->sim->now_ns + RETRY_NS;
        return true;
    }
    if (worker->finish == FINISH_SHARES && durable) {
        worker->finish = FINISH_RECORD;
        worker->refused_step = 0; /* the refusal belonged to another generation's checkpoint */
        return record_it(worker);
    }
    if (durable) {
        worker_report(worker, worker->leaves_as);
        worker_exit(worker, 0);
        return false;
    }
    return failed || worker->finish == FINISH_SHARES ? give_up(worker) : record_it(worker);
}

/* From durable shares to a record in the store: rank 0 makes the record, the other ranks make
 * their copies, and all ranks report in each round whether the checkpoint can be completed. */
static bool at_record(struct sim_worker *worker)
{
    uint64_t step = worker->state.applied_step;
    if (worker->rank != 0) {
        if (worker->plan->checkpoints.copies > 1)
            sim_snapshot_commit(worker, step);
        sim_snapshot_poll(worker);
        begin_round(worker, true);
        return true;
    }
    sim_snapshot_commit(worker, step);
    sim_snapshot_take_result(worker);
    worker_messages(worker);
    if (worker->stopping || worker->mesh->state == SIM_MESH_FAILED ||
        worker->refused_step == step) {
        worker_broken(worker, -ECONNRESET);
        return worker->alive;
    }
    if (worker->recorded_step >= step || worker->snapshot.failed_step == step ||
        worker->sim->now_ns >= worker->look_ns) {
        begin_round(worker, true);
        return true;
    }
    worker_alarm(worker, worker->look_ns);
    return false;
}

bool session_step(struct sim_worker *worker)
{
    static bool (*const at[POINT_COUNT])(struct sim_worker *) = {
        [POINT_FACTS] = sim_division_at_facts,
        [POINT_DIVISION] = sim_division_at_division,
        [POINT_STEP] = at_step,
        [POINT_FORWARD] = at_forward,
        [POINT_BACKWARD] = at_backward,
        [POINT_REDUCE] = at_reduce,
        [POINT_SHADOW] = at_shadow,
        [POINT_GATHER] = at_gather,
        [POINT_ASK] = at_ask,
        [POINT_APPLY] = at_apply,
        [POINT_ANNOUNCED] = at_announced,
        [POINT_SHARE] = at_share,
        [POINT_RECORD] = at_record,
        [POINT_CLAIMS] = dispute_at_claims,
        [POINT_VERDICT] = dispute_at_verdict,
        [POINT_OUT] = dispute_at_out,
    };
    return at[worker->point](worker);
}
