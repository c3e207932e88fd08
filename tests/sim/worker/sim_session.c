/*
 * The step loop and the last evaluation: worker/session/session.c and
 * worker/session/last_evaluation.c, point by point, around the real protocol/.
 */
#include <errno.h>
#include <string.h>

#include "base/timeouts.h"
#include "protocol/step_commit_message.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_faults.h"
#include "sim/fault/sim_stragglers.h"
#include "sim/node/sim_node.h"
#include "sim/node/sim_store.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_bits.h"
#include "sim/worker/sim_worker.h"

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

/* Wait for a message of this generation; with a failed mesh the generation is over instead. */
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
    memset(&worker->snapshot.writers, 0, sizeof(worker->snapshot.writers));
    checkpoint_vote_close(&worker->snapshot.vote);
    checkpoint_calendar_begin(&worker->snapshot.calendar, &worker->sim->spec, worker->plan,
                              worker->state.applied_step);
    worker->rounds.all_step = UINT64_MAX;
    sim_straggler_watch(worker);
    stay_begin(&worker->stay, worker->plan, worker->state.applied_step,
               worker->sim->spec.train.steps, worker->sim->spec.evaluate.every > 0);
    worker_go(worker, POINT_STEP);
}

/* Draw a compute time; lanes that are already done take no time. */
static void compute_drawn(struct sim_worker *worker, double share)
{
    const struct sim *sim = worker->sim;
    worker_busy(worker, sim->compute_us / 2, sim->compute_us);
    if (worker->share.division.step == next_step(worker))
        worker->busy_until_ns =
            sim->now_ns + (uint64_t)((double)(worker->busy_until_ns - sim->now_ns) *
                                     MIN(1.0, share * worker->plan->layout.replica_count));
}

/* Use the durations of a scene: the slot computes @share of the stage, as slowly as the scene says.
 */
static void compute_given(struct sim_worker *worker, double share)
{
    const struct sim *sim = worker->sim;
    double slowness = sim->nodes[worker->node].machine.slowness[worker->slot];
    uint64_t share_ns =
        (uint64_t)((double)(sim->costs.lane_ns * SIM_LANES * worker->unit_count) * share);
    worker->computed_ns = share_ns / SIM_UNITS;
    if (slowness > 0)
        worker->computed_ns = (uint64_t)((double)worker->computed_ns * slowness);
    worker->busy_until_ns = sim->now_ns + worker->computed_ns;
}

/* Compute forward and backward in one piece before sending the result on: nothing overlaps. */
static void compute(struct sim_worker *worker)
{
    const struct sim *sim = worker->sim;
    double share = sim_division_share(worker);
    worker->share.from_ns = worker->share.until_ns = sim->now_ns;
    if (worker->mesh->state == SIM_MESH_FAILED) /* seen before the first micro-batch */
        return;
    if (sim->costs.lane_ns > 0)
        compute_given(worker, share);
    else if (sim->spec.elastic.evict_stragglers.factor > 0)
        worker->busy_until_ns = sim->now_ns + sim_straggler_compute(worker);
    else
        compute_drawn(worker, share);
    worker->share.until_ns = worker->busy_until_ns;
    sim_relay_begin(worker);
    sim_copies_begin(worker);
    sim_division_watch(worker);
}

static bool go_on(struct sim_worker *worker);

static bool at_step(struct sim_worker *worker)
{
    worker_messages(worker);
    if (worker->stopping) {
        worker_exit(worker, 0);
        return false;
    }
    if (worker->sim->bug == BUG_SWITCH_WITHOUT_FLAG && worker->pending.plan &&
        worker->pending.plan->layout.worker_count > 0) {
        worker_switch(worker);
        return worker->alive;
    }
    if (worker->sim->bug == BUG_WAITS_FOR_ETCD && worker->sim->store->down) {
        worker_alarm(worker, worker->sim->now_ns + RECORD_LOOK_NS);
        return false;
    }
    if (worker->stay.action != STAY_STEP)
        return go_on(worker);
    worker->act_digest = 0;
    pending_plan_begin_step(&worker->pending);
    worker->share.step_began_ns = worker->sim->now_ns;
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
    int status = sim_relay_run(worker);
    if (status && status != -EAGAIN)
        worker_broken(worker, status);
    if (status)
        return status != -EAGAIN && worker->alive;
    sim_relay_check(worker);
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
    worker->next_replica = 0;
}

/* The stage's worker of replica 0 sends gradients to the shadow of its stage, and does not wait. */
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
    if (worker->plan->layout.replica_count == 1) /* already final */
        feed_shadow(worker);
    if (worker->sim->bug == BUG_HOLD_BEFORE_REDUCE) {
        hold(worker);
        worker->state.holds = true;
    }
    worker_go(worker, POINT_REDUCE);
    worker_busy(worker, 1000, 6000);
    return true;
}

/* Fill this rank's part of a round, of the step that it holds or of an applied step. */
static void fill_up(const struct sim_worker *worker, struct step_commit_up *up)
{
    const struct checkpoint_progress *progress = &worker->snapshot.progress;
    enum sim_round kind = worker->rounds.kind;

    up->digests = worker->rounds.digests;
    if (kind == SIM_ROUND_LAST_STEP || kind == SIM_ROUND_EVALUATION) {
        step_record_init(&up->record, worker->state.applied_step + (kind == SIM_ROUND_EVALUATION),
                         0, 0);
        return;
    }
    up->checkpoint_durable =
        kind == SIM_ROUND_CHECKPOINT
            ? final_checkpoint_report(&worker->final, progress->durable, worker->recorded_step)
            : progress->durable;
    up->checkpoint_failed = progress->failed;
    if (checkpoint_progress_is_unable(progress))
        up->unable = (struct checkpoint_writers_unable){.count = 1, .ranks = {worker->rank}};
    if (kind == SIM_ROUND_CHECKPOINT) {
        step_record_init(&up->record, worker->state.applied_step, 0, 0);
        return;
    }
    up->checkpoint_busy = sim_snapshot_busy(worker);
    up->busy_ns = worker->computed_ns;
    readiness_init(&up->readiness, worker->rank,
                   worker->announced > worker->generation ? worker->announced : 0);
    sim_record_to(&worker->state.hold, &up->record);
    bool says_nothing = worker->sim->bug == BUG_UNSEEN_GRADIENTS &&
                        worker->rank >= worker->plan->layout.stage_count;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (says_nothing || (worker->sim->bug == BUG_UNSEEN_GRADIENTS &&
                             unit - worker->first_unit >= worker->unit_count))
            up->record.unit_squares[unit] = step_record_unknown();
}

void session_round(struct sim_worker *worker, enum sim_round kind)
{
    const struct plan *plan = worker->plan;
    struct sim_rounds *rounds = &worker->rounds;
    AUTO_FREE struct step_commit_up *up = sim_allocate(1, sizeof(*up));
    bool closing = kind != SIM_ROUND_STEP;

    rounds->kind = kind;
    fill_up(worker, up);
    worker->rounds.disputed = DISPUTE_NOTHING;
    rounds->tree.part_tag = closing ? SIM_CLOSING : SIM_HOLD;
    rounds->tree.answer_tag = closing ? SIM_CLOSED : SIM_COMMIT;
    rounds->tree.step = up->record.step;
    step_commit_begin(rounds->commit, &rounds->tree.round, &plan->layout, worker->rank, closing, up,
                      NULL);
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
    if (rank < worker->plan->layout.stage_count) /* the first replica */
        worker->sum_digest = digest;
    else if (digest != worker->sum_digest)
        worker->sum_digest = sim_mix(worker->sum_digest, digest);
}

/* Sum over all replicas of the stage, in their order. */
static bool at_reduce(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    struct sim_payload payload;
    bool broken;
    for (; worker->next_replica < plan->layout.replica_count; worker->next_replica++) {
        unsigned rank = plan_layout_rank(&plan->layout, worker->next_replica, stage_of(worker));
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
    worker_go(worker, POINT_ARRIVE);
    return true;
}

void session_arrived(struct sim_worker *worker)
{
    switch (worker->stay.action) {
    case STAY_STEP:
        worker_go(worker, POINT_SHADOW);
        break;
    case STAY_EVALUATE:
        dispute_compare(worker, true);
        session_round(worker, SIM_ROUND_LAST_STEP);
        break;
    default:
        session_finish(worker);
    }
}

/* HOLD only with the gradients of every shadow on this worker. */
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
    if (checkpoint_calendar_due(&worker->snapshot.calendar, worker->state.applied_step))
        dispute_compare_once(worker);
    else
        dispute_compare(worker, false);
    worker->state.holds = true;
    sim_check_hold(worker->sim, worker);
    sim_snapshot_poll(worker);
    session_round(worker, SIM_ROUND_STEP);
    return true;
}

/* ---- HOLD to COMMIT ---- */

/* Planted bug: apply the right values before the step is known to be committed. */
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

/* Planted bug: do not wait for a child if the record is complete without its part. */
static int skip_child(struct sim_worker *worker)
{
    struct sim_rounds *rounds = &worker->rounds;
    const struct step_commit *commit = rounds->commit;
    const struct plan_layout *layout = &worker->plan->layout;
    unsigned stage = rounds->tree.round.peer % layout->stage_count;
    unsigned unit = layout->stage_first_unit[stage];
    if (rounds->kind != SIM_ROUND_STEP || rounds->tree.round.action != TREE_RECEIVE_PART ||
        stage + 1 >= layout->stage_count ||
        !step_record_is_known(commit->sum.up.record.unit_squares[unit]))
        return 0;
    CLEANUP(bytes_done) struct bytes message = {0};
    AUTO_FREE struct step_commit_part *part = sim_allocate(1, sizeof(*part));
    part->up.checkpoint_durable = commit->sum.up.checkpoint_durable;
    step_record_init(&part->up.record, commit->sum.up.record.step, SIM_UNITS, SIM_LANES);
    if (step_commit_pack_part(part, layout, &message))
        abort();
    return tree_round_take(&rounds->tree.round, message.data, message.size_bytes);
}

/* Return whether the round waits, or has failed and the generation is over. */
static bool round_stops(struct sim_worker *worker, int status)
{
    if (status == -EAGAIN)
        return false;
    worker_broken(worker, status);
    return worker->alive;
}

void session_hear_of_checkpoint(struct sim_worker *worker)
{
    const struct step_commit_down *down = &worker->rounds.commit->down;
    checkpoint_writers_hear(&worker->snapshot.writers, down->checkpoint_failed, &down->unable,
                            down->checkpoint_durable);
    if (MAX(down->checkpoint_durable, down->checkpoint_failed) >= worker->snapshot.vote.step)
        checkpoint_vote_close(&worker->snapshot.vote);
}

static bool at_gather(struct sim_worker *worker)
{
    int status = 0;
    if (worker->sim->bug == BUG_APPLY_WITHOUT_COMMIT && worker->rounds.kind == SIM_ROUND_STEP)
        apply_early(worker);
    while (!status && worker->rounds.tree.round.action == TREE_RECEIVE_PART) {
        if (worker->sim->bug == BUG_COMMIT_WITHOUT_HOLDS)
            status = skip_child(worker);
        if (!status)
            status = sim_tree_step(worker);
    }
    if (!status)
        status = sim_tree_run(worker, TREE_DECIDE);
    dispute_hear(worker);
    if (status)
        return round_stops(worker, status);
    worker_go(worker, POINT_ASK);
    return true;
}

static int decide_commit(struct sim_worker *worker)
{
    struct step_commit *commit = worker->rounds.commit;
    struct sim_record record;
    bool is_step = worker->rounds.kind == SIM_ROUND_STEP;
    if (is_step)
        step_commit_switch(commit, worker->plan, worker->pending.plan);
    int status = tree_round_decide(&worker->rounds.tree.round);
    if (status || commit->down.dispute)
        return status;
    if (worker->rounds.kind == SIM_ROUND_LAST_STEP)
        sim_check_confirmed(worker->sim, worker->plan);
    if (!is_step)
        return 0;
    if (worker->sim->bug == BUG_CHECKPOINT_NOT_DURABLE)
        commit->down.checkpoint_durable = worker->snapshot.progress.durable;
    sim_record_from(&commit->down.record, &record);
    sim_check_commit(worker->sim, worker->plan, &record, commit->down.switch_generation);
    if (worker->straggler)
        straggler_step(worker->straggler, commit->down.busy_ns);
    return 0;
}

/* worker/session/generation.c's generation_confirm(): the state of the previous generation is no
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

/* worker/session/trainer.c's diverged(): no worker applies the step, and all workers report that.
 */
static bool refuse_step(struct sim_worker *worker)
{
    worker->cause = CAUSE_DIVERGED;
    worker_report(worker, WORKER_REFUSED);
    worker->cause = CAUSE_NONE;
    worker_go(worker, POINT_OUT);
    return true;
}

static bool after_closing(struct sim_worker *worker);

static bool at_ask(struct sim_worker *worker)
{
    struct sim_rounds *rounds = &worker->rounds;
    bool decides = rounds->tree.round.action == TREE_DECIDE;
    if (worker->mesh->state == SIM_MESH_FAILED)
        return round_stops(worker, -ECONNRESET);
    if (decides && rounds->kind == SIM_ROUND_STEP && worker->rounds.disputed == DISPUTE_NOTHING &&
        worker->held_generation >= worker->generation)
        return false;
    int status = decides ? decide_commit(worker) : 0;
    if (!status)
        status = sim_tree_run(worker, TREE_DONE);
    dispute_hear(worker);
    if (status)
        return round_stops(worker, status);
    if (worker->rounds.disputed != DISPUTE_NOTHING) {
        dispute_settle(worker);
        return true;
    }
    if (rounds->kind != SIM_ROUND_STEP)
        return after_closing(worker);
    if (next_step(worker) == worker->sim->faults->nan_step)
        return refuse_step(worker);
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
    message->progress.step_seconds =
        (double)(sim->now_ns - worker->share.step_began_ns) / NS_PER_SECOND;
    sim_straggler_tell(worker, &message->progress);
    worker_say(worker, message);
}

static void look_after_checkpoint(struct sim_worker *worker)
{
    const struct step_commit_down *down = &worker->rounds.commit->down;
    session_hear_of_checkpoint(worker);
    sim_snapshot_abandon(worker, down->checkpoint_failed);
    if (worker->rank == 0 || plan_keeps_copies(worker->plan))
        sim_snapshot_commit(worker, down->checkpoint_durable);
    sim_snapshot_all_told(worker, down->checkpoint_durable);
    if (worker->rank == 0)
        sim_snapshot_take_result(worker);
    if (!checkpoint_calendar_due(&worker->snapshot.calendar, worker->state.applied_step) ||
        down->switch_generation != 0)
        return;
    bool may_begin = !down->checkpoint_busy || worker->sim->bug == BUG_BEGUN_BY_SOME;
    if (may_begin) {
        checkpoint_writers_begin(&worker->snapshot.writers, worker->plan,
                                 worker->state.applied_step);
        sim_vote_begin(worker);
    } else {
        checkpoint_calendar_left_out(&worker->snapshot.calendar, worker->state.applied_step);
    }
    sim_check_begun(worker->sim, worker, may_begin && sim_snapshot_begin(worker));
}

static bool at_apply(struct sim_worker *worker)
{
    struct sim_record record;
    sim_record_from(&worker->rounds.commit->down.record, &record);
    session_apply(worker, &record);
    tell_progress(worker);
    look_after_checkpoint(worker);
    stay_stepped(&worker->stay, worker->rounds.commit->down.switch_generation);
    worker_go(worker, POINT_STEP);
    return true;
}

/* ---- the end of the stay ---- */

/* Evaluate the finished model once all ranks have compared their state. */
static void evaluate(struct sim_worker *worker)
{
    struct sim *sim = worker->sim;
    sim_check_gives_away(worker);
    settle_in(worker);
    worker->share.from_ns = sim->now_ns;
    worker->busy_until_ns = worker->share.until_ns = sim->now_ns + sim_scale_evaluation_ns(sim);
    worker_go(worker, POINT_EVALUATE);
    if (worker->rank == 0)
        sim_trace(sim, "  generation %llu evaluates the finished model",
                  (unsigned long long)worker->generation);
    sim_division_watch(worker);
}

bool session_is_evaluating(const struct sim_worker *worker)
{
    bool waits = worker->point == POINT_GATHER || worker->point == POINT_ASK;
    return worker->point == POINT_EVALUATE ||
           (waits && worker->rounds.kind == SIM_ROUND_EVALUATION);
}

static bool at_evaluate(struct sim_worker *worker)
{
    if (worker->mesh->state == SIM_MESH_FAILED) {
        worker_broken(worker, -ECONNRESET);
        return worker->alive;
    }
    session_round(worker, SIM_ROUND_EVALUATION);
    return true;
}

void session_await_plan(struct sim_worker *worker)
{
    worker->deadline_ns = worker->sim->now_ns + TIMEOUTS_ANNOUNCED_PLAN * SIM_FAILURE_TIMEOUT;
    worker_alarm(worker, worker->deadline_ns);
    worker_go(worker, POINT_ANNOUNCED);
}

/* Carry out the next action of the stay, other than a step. */
static bool go_on(struct sim_worker *worker)
{
    switch (worker->stay.action) {
    case STAY_EVALUATE:
        pending_plan_begin_step(&worker->pending);
        worker->share.step_began_ns = worker->sim->now_ns;
        worker_go(worker, POINT_ARRIVE);
        break;
    case STAY_AWAIT_PLAN:
        session_await_plan(worker);
        break;
    case STAY_SWITCH:
        worker_switch(worker);
        break;
    case STAY_FINISH_EARLY:
        worker_finish_early(worker);
        break;
    case STAY_LEAVE:
        worker_leave(worker);
        break;
    case STAY_BREAK:
        worker_broken(worker, -ETIMEDOUT);
        break;
    default:
        worker_go(worker, POINT_ARRIVE);
    }
    return worker->alive;
}

/* After a commit announced the next generation: its plan is here, or in flight. */
static bool at_announced(struct sim_worker *worker)
{
    pending_plan_await(&worker->pending, worker->stay.announced);
    worker_messages(worker);
    if (worker->stopping) {
        worker_exit(worker, 0);
        return false;
    }
    bool is_here = pending_plan_is_here(&worker->pending);
    if (!is_here && worker->sim->now_ns < worker->deadline_ns)
        return false;
    stay_has_plan(&worker->stay, is_here ? worker->pending.plan : NULL);
    return go_on(worker);
}

static bool after_closing(struct sim_worker *worker)
{
    switch (worker->rounds.kind) {
    case SIM_ROUND_LAST_STEP:
        evaluate(worker);
        return true;
    case SIM_ROUND_EVALUATION:
        stay_evaluated(&worker->stay);
        worker_go(worker, POINT_STEP);
        return true;
    default:
        return session_after_checkpoint_round(worker);
    }
}

bool session_step(struct sim_worker *worker)
{
    static bool (*const at[POINT_COUNT])(struct sim_worker *) = {
        [POINT_OFFERS] = sim_division_at_offers,
        [POINT_FACTS] = sim_division_at_facts,
        [POINT_DIVISION] = sim_division_at_division,
        [POINT_WANTED] = sim_division_at_wanted,
        [POINT_STEP] = at_step,
        [POINT_FORWARD] = at_forward,
        [POINT_BACKWARD] = at_backward,
        [POINT_REDUCE] = at_reduce,
        [POINT_ARRIVE] = handover_at_arrive,
        [POINT_SHADOW] = at_shadow,
        [POINT_GATHER] = at_gather,
        [POINT_ASK] = at_ask,
        [POINT_APPLY] = at_apply,
        [POINT_EVALUATE] = at_evaluate,
        [POINT_ANNOUNCED] = at_announced,
        [POINT_SHARE] = session_at_share,
        [POINT_RECORD] = session_at_record,
        [POINT_CLAIMS] = dispute_at_claims,
        [POINT_VERDICT] = dispute_at_verdict,
        [POINT_OUT] = dispute_at_out,
    };
    return at[worker->point](worker);
}
