#include "lib/elastic/cluster_worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static int fake_rank(const struct cluster *cluster, const struct fake_worker *worker,
                     const struct plan *plan)
{
    return plan_layout_find(&plan->layout, cluster->nodes[worker->node].name, worker->slot);
}

struct fake_worker *fake_at(struct cluster *cluster, const char *node, unsigned slot)
{
    for (unsigned i = cluster->worker_count; i-- > 0;)
        if (cluster->workers[i].alive && cluster->workers[i].slot == slot &&
            strcmp(cluster->nodes[cluster->workers[i].node].name, node) == 0)
            return &cluster->workers[i];
    return NULL;
}

void fake_inbox_put(struct cluster *cluster, struct fake_worker *worker, enum agent_event_type type)
{
    struct fake_node *node = &cluster->nodes[worker->node];
    if (!node->agent)
        return;
    assert_true(node->inbox.count < CLUSTER_INBOX);
    unsigned last = (node->inbox.first + node->inbox.count) % CLUSTER_INBOX;
    unsigned before = (last + CLUSTER_INBOX - 1) % CLUSTER_INBOX;
    uint64_t due = cluster_delay(cluster, 15);
    if (node->inbox.count > 0)
        due = MAX(due, node->inbox.entries[before].due_ns);
    node->inbox.entries[last].due_ns = due;
    node->inbox.entries[last].event = (struct agent_event){.type = type, .slot = worker->slot};
    node->inbox.entries[last].status = worker->status;
    node->inbox.entries[last].worker = (unsigned)(worker - cluster->workers);
    node->inbox.count++;
}

void fake_say(struct cluster *cluster, struct fake_worker *worker, enum worker_phase phase)
{
    worker->status.phase = phase;
    fake_inbox_put(cluster, worker, AGENT_WORKER_STATUS);
}

void fake_exit(struct cluster *cluster, struct fake_worker *worker, int code)
{
    worker->alive = false;
    fake_inbox_put(cluster, worker, AGENT_WORKER_EXIT);
    struct fake_node *node = &cluster->nodes[worker->node];
    if (node->agent)
        node->inbox.entries[(node->inbox.first + node->inbox.count - 1) % CLUSTER_INBOX]
            .event.exit_code = code;
    plan_free(worker->plan);
    plan_free(worker->pending);
    worker->plan = worker->pending = NULL;
}

static void fake_go_stuck(struct cluster *cluster, struct fake_worker *worker)
{
    worker->activity = FAKE_IDLE;
    worker->notice_at_ns = 0;
    worker->status.generation = worker->plan->generation;
    plan_free(worker->pending);
    worker->pending = NULL;
    worker->must_switch = false;
    fake_say(cluster, worker, WORKER_STUCK);
}

bool fake_reports_unit(const struct fake_worker *worker, unsigned unit)
{
    const struct worker_report *status = &worker->status;
    for (unsigned i = 0; i < status->extra_count; i++)
        if (unit - status->extras[i].first < status->extras[i].count)
            return true;
    return unit - status->held_first_unit < status->held_unit_count ||
           unit - status->old_first_unit < status->old_unit_count;
}

/* Return whether @worker has gradients of @unit at HOLD: for its stage and the units it shadows. */
static bool fake_follows(const struct fake_worker *worker, unsigned unit)
{
    const struct worker_report *status = &worker->status;
    for (unsigned i = 0; i < status->extra_count; i++)
        if (status->extras[i].shadows && unit - status->extras[i].first < status->extras[i].count)
            return true;
    return unit - status->held_first_unit < status->held_unit_count;
}

/* Forget every unit that is left from the generation before. */
static void fake_drop_old(struct fake_worker *worker)
{
    struct worker_report *status = &worker->status;
    unsigned kept = 0;
    status->old_unit_count = 0;
    for (unsigned i = 0; i < status->extra_count; i++)
        if (status->extras[i].shadows)
            status->extras[kept++] = status->extras[i];
    status->extra_count = kept;
    for (unsigned unit = 0; unit < UNITS_MAX; unit++)
        worker->unit_kept[unit] = fake_reports_unit(worker, unit);
}

/* Apply the plan's commit, then return whether the worker has the state that the plan expects. */
static bool fake_fits(struct cluster *cluster, struct fake_worker *worker)
{
    const struct plan *plan = worker->plan;
    struct worker_report *status = &worker->status;
    if (plan->start.source != PLAN_SOURCE_MEMORY)
        return true;
    if (plan->start.has_commit && status->holds &&
        status->applied_step + 1 == plan->start.commit.step) {
        for (unsigned unit = 0; unit < cluster->unit_count; unit++) {
            if (!fake_follows(worker, unit))
                continue;
            assert_int_equal(worker->unit_step[unit], status->applied_step);
            worker->unit_step[unit] = plan->start.commit.step;
        }
        status->applied_step = plan->start.commit.step;
        status->record = plan->start.commit;
        status->holds = false;
        fake_drop_old(worker);
    }
    int rank = fake_rank(cluster, worker, plan);
    unsigned total = 0;
    for (unsigned unit = 0; unit < cluster->unit_count; unit++) {
        bool owns = plan_layout_keeps(&plan->layout, (unsigned)rank, unit);
        bool moved = false, pushes = false;
        for (unsigned m = 0; m < plan->start.move_count; m++) {
            if (plan->start.moves[m].unit != unit)
                continue;
            moved = moved || plan->start.moves[m].to_rank == (unsigned)rank;
            pushes = pushes || plan->start.moves[m].from_rank == (unsigned)rank;
        }
        if (!pushes && (!owns || moved))
            continue;
        total++;
        uint64_t resume = plan->change.planned ? status->applied_step : plan->start.resume_step;
        if (!worker->unit_kept[unit] || worker->unit_step[unit] != resume)
            return false;
    }
    if (total > 0 && status->holds) { /* gradients are discarded: replayed */
        status->holds = false;
        status->record.step = 0;
    }
    return true;
}

static void fake_join(struct cluster *cluster, struct fake_worker *worker, struct plan *plan)
{
    bool from_training = worker->activity == FAKE_TRAINING && plan->change.planned;
    plan_free(worker->plan);
    worker->plan = plan;
    worker->must_switch = false;
    worker->ready = false;
    worker->notice_at_ns = 0;
    worker->act_at_ns = cluster_delay(cluster, 60);
    if (plan->layout.worker_count == 0) {
        worker->activity = FAKE_LEAVING;
    } else if (!fake_fits(cluster, worker)) {
        fake_go_stuck(cluster, worker);
    } else {
        worker->activity = FAKE_JOINING;
        if (from_training) {
            worker->status.generation = plan->generation;
            fake_say(cluster, worker, WORKER_PREPARED);
        }
    }
}

void fake_told(struct cluster *cluster, struct fake_worker *worker,
               const struct agent_action *action)
{
    if (action->type == AGENT_SEND_STOP || action->type == AGENT_KILL) {
        if (!worker->deaf || action->type == AGENT_KILL)
            fake_exit(cluster, worker, action->type == AGENT_KILL ? -9 : 0);
        return;
    }
    /* The daemon sent the action because of a stale status. */
    if (worker->plan && worker->plan->generation >= action->plan->generation &&
        (worker->activity != FAKE_IDLE || worker->status.phase == WORKER_STUCK))
        return;
    struct plan *plan = plan_copy(action->plan);
    assert_non_null(plan);
    if (action->type == AGENT_SEND_PREPARE) {
        assert_true(worker->activity == FAKE_IDLE || worker->activity == FAKE_JOINING);
        worker->activity = FAKE_IDLE;
        worker->status.generation = plan->generation;
        plan_free(worker->plan);
        worker->plan = plan;
        worker->status.phase = WORKER_STARTING;
        fake_say(cluster, worker, WORKER_PREPARED);
        return;
    }
    bool trains = worker->activity == FAKE_TRAINING;
    if (trains && plan->change.planned && plan->change.breaks_off &&
        worker->status.phase != WORKER_FINISHED) {
        plan_free(plan);
        fake_go_stuck(cluster, worker);
    } else if (trains && plan->change.planned && worker->status.phase != WORKER_FINISHED) {
        assert_true(plan->generation > worker->plan->generation);
        plan_free(worker->pending);
        worker->pending = plan;
    } else if (plan->change.planned && worker->status.phase == WORKER_STUCK) {
        plan_free(plan);
    } else {
        fake_join(cluster, worker, plan);
    }
}

bool fake_in(const struct fake_worker *worker, uint64_t generation, enum fake_activity activity)
{
    return worker && worker->activity == activity && worker->plan &&
           worker->plan->generation == generation;
}

/* Return whether every rank of the plan is joining it, or further. */
static bool mesh_is_up(struct cluster *cluster, const struct plan *plan)
{
    for (unsigned rank = 0; rank < plan->layout.worker_count + plan->layout.donor_count; rank++) {
        struct fake_worker *peer =
            fake_at(cluster, plan->layout.workers[rank].node, plan->layout.workers[rank].slot);
        if (!fake_in(peer, plan->generation, FAKE_JOINING) &&
            !fake_in(peer, plan->generation, FAKE_TRAINING))
            return false;
    }
    return true;
}

static struct fake_exchange *exchange_of(struct cluster *cluster, const struct plan *plan)
{
    return &cluster->exchanges[plan->generation % CLUSTER_EXCHANGES];
}

/* Return the first step of a generation; a planned generation begins where the one before ended. */
static uint64_t join_step(struct cluster *cluster, const struct plan *plan)
{
    if (!plan->change.planned)
        return plan->start.resume_step;
    if (exchange_of(cluster, plan)->generation == plan->generation)
        return exchange_of(cluster, plan)->start;
    uint64_t step = 0;
    for (unsigned rank = 0; rank < plan->layout.worker_count + plan->layout.donor_count; rank++)
        step = MAX(
            step, fake_at(cluster, plan->layout.workers[rank].node, plan->layout.workers[rank].slot)
                      ->status.applied_step);
    return step;
}

/* Describe units outside the stage: ranges of one unit are as good as longer ranges. */
static void fake_describe_others(struct cluster *cluster, struct fake_worker *worker, unsigned rank)
{
    struct worker_report *status = &worker->status;
    status->old_unit_count = status->extra_count = 0;
    for (unsigned unit = 0; unit < cluster->unit_count; unit++)
        if (worker->unit_kept[unit] && unit - status->held_first_unit >= status->held_unit_count) {
            assert_true(status->extra_count < REPORT_EXTRAS_MAX);
            status->extras[status->extra_count++] = (struct report_extra){
                unit, 1, plan_layout_keeps(&worker->plan->layout, rank, unit)};
        }
}

/* Receive the units of all moves, or (in a broken switch) of none. */
static void fake_receive(struct cluster *cluster, struct fake_worker *worker)
{
    const struct plan *plan = worker->plan;
    struct worker_report *status = &worker->status;
    unsigned rank = (unsigned)fake_rank(cluster, worker, plan);
    uint64_t step = join_step(cluster, plan);
    if (rank >= plan->layout.worker_count) {
        worker->ready = true;
        return;
    }
    unsigned first = plan->layout.stage_first_unit[rank % plan->layout.stage_count];
    unsigned end = plan->layout.stage_first_unit[rank % plan->layout.stage_count + 1];
    for (unsigned m = 0; m < plan->start.move_count; m++) {
        const struct plan_worker *from = &plan->layout.workers[plan->start.moves[m].from_rank];
        if (plan->start.moves[m].to_rank == rank && !fake_at(cluster, from->node, from->slot))
            return; /* it detects the break later */
    }
    bool keeps_old = plan->start.source == PLAN_SOURCE_MEMORY && status->held_unit_count > 0 &&
                     status->applied_step == step;
    for (unsigned m = 0; m < plan->start.move_count; m++) {
        if (plan->start.moves[m].to_rank != rank)
            continue;
        const struct plan_worker *from = &plan->layout.workers[plan->start.moves[m].from_rank];
        struct fake_worker *source = fake_at(cluster, from->node, from->slot);
        unsigned unit = plan->start.moves[m].unit;
        assert_true(source->unit_kept[unit]);
        assert_int_equal(source->unit_step[unit], step);
        worker->unit_step[unit] = step;
        worker->unit_kept[unit] = true;
    }
    for (unsigned unit = 0; unit < cluster->unit_count; unit++)
        if (plan_layout_keeps(&plan->layout, rank, unit) &&
            plan->start.source != PLAN_SOURCE_MEMORY) {
            worker->unit_step[unit] = step;
            worker->unit_kept[unit] = true;
        } else if (!plan_layout_keeps(&plan->layout, rank, unit) && !keeps_old) {
            worker->unit_kept[unit] = false;
        }
    status->held_first_unit = first;
    status->held_unit_count = end - first;
    fake_describe_others(cluster, worker, rank);
    status->applied_step = step;
    if (status->record.step != step)
        status->record.step = 0;
    for (unsigned unit = 0; unit < cluster->unit_count; unit++)
        if (plan_layout_keeps(&plan->layout, rank, unit))
            assert_int_equal(worker->unit_step[unit], step);
    worker->ready = true;
}

static bool everybody_ready(struct cluster *cluster, const struct plan *plan)
{
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++) {
        const struct fake_worker *peer =
            fake_at(cluster, plan->layout.workers[rank].node, plan->layout.workers[rank].slot);
        if (!peer || !peer->plan || peer->plan->generation != plan->generation || !peer->ready)
            return false;
    }
    return true;
}

/* The first rank in a generation opens its exchange; no rank opens an older exchange. */
static void open_exchange(struct cluster *cluster, const struct plan *plan)
{
    struct fake_exchange *exchange = exchange_of(cluster, plan);
    if (exchange->generation == plan->generation)
        return;
    assert_true(plan->generation > cluster->generation_open);
    cluster->generation_open = plan->generation;
    uint64_t start = join_step(cluster, plan);
    if (plan->start.source == PLAN_SOURCE_MEMORY)
        assert_true(start + 1 >= cluster->committed_ever);
    exchange->generation = plan->generation;
    exchange->start = exchange->committed = start;
    exchange->switches = exchange->broken = false;
}

static void fake_act_joining(struct cluster *cluster, struct fake_worker *worker)
{
    const struct plan *plan = worker->plan;
    const struct fake_exchange *exchange = exchange_of(cluster, plan);
    if (exchange->generation != plan->generation && !mesh_is_up(cluster, plan))
        return;
    if (exchange->generation == plan->generation ? exchange->broken
                                                 : plan->generation < cluster->generation_open)
        return; /* it detects the break later */
    open_exchange(cluster, plan);
    if (!worker->ready) {
        fake_receive(cluster, worker);
        return;
    }
    if (!everybody_ready(cluster, plan))
        return;
    unsigned rank = (unsigned)fake_rank(cluster, worker, plan);
    if (rank >= plan->layout.worker_count) {
        /* A donor leaves when no rank needs it any more: all ranks have begun. */
        for (unsigned r = 0; r < plan->layout.worker_count; r++)
            if (!fake_in(
                    fake_at(cluster, plan->layout.workers[r].node, plan->layout.workers[r].slot),
                    plan->generation, FAKE_TRAINING))
                return;
        worker->left_generation = plan->generation;
        fake_exit(cluster, worker, 0);
        return;
    }
    worker->activity = FAKE_TRAINING;
    worker->status.generation = plan->generation;
    worker->status.root = rank == 0;
    fake_say(cluster, worker, WORKER_RUNNING);
}

static void make_record(struct cluster *cluster, const struct fake_worker *worker, uint64_t step,
                        bool all, struct step_record *ret_record)
{
    const struct plan *plan = worker->plan;
    unsigned rank = (unsigned)fake_rank(cluster, worker, plan);
    unsigned replica = rank / plan->layout.stage_count;
    bool last = rank % plan->layout.stage_count + 1 == plan->layout.stage_count;
    step_record_init(ret_record, step, cluster->unit_count, cluster->spec.train.lanes);
    for (unsigned unit = 0; unit < cluster->unit_count; unit++)
        if (all || fake_follows(worker, unit))
            ret_record->unit_squares[unit] = cluster_square(step, unit);
    for (unsigned lane = 0; lane < cluster->spec.train.lanes; lane++)
        if (all || (last && lane >= plan->layout.replica_first_lane[replica] &&
                    lane < plan->layout.replica_first_lane[replica + 1]))
            ret_record->lane_losses[lane] = cluster_square(step, lane);
}

static bool everybody_holds(struct cluster *cluster, const struct plan *plan, uint64_t step)
{
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++) {
        struct fake_worker *peer =
            fake_at(cluster, plan->layout.workers[rank].node, plan->layout.workers[rank].slot);
        if (!fake_in(peer, plan->generation, FAKE_TRAINING) || !peer->status.holds ||
            peer->status.applied_step + 1 != step)
            return false;
    }
    return true;
}

static void fake_apply(struct cluster *cluster, struct fake_worker *worker, uint64_t step)
{
    struct worker_report *status = &worker->status;
    for (unsigned unit = 0; unit < cluster->unit_count; unit++)
        if (fake_follows(worker, unit)) {
            assert_int_equal(worker->unit_step[unit], step - 1);
            worker->unit_step[unit] = step;
        }
    status->applied_step = step;
    status->holds = false;
    fake_drop_old(worker);
    status->frozen_layers = cluster->frozen_layers;
    make_record(cluster, worker, step, true, &status->record);
    worker->must_switch = exchange_of(cluster, worker->plan)->switches;
    bool root = fake_rank(cluster, worker, worker->plan) == 0;
    if (root && cluster->spec.checkpoint.every > 0 && step % cluster->spec.checkpoint.every == 0)
        cluster->etcd.checkpoint_step = step;
}

static void fake_act_training(struct cluster *cluster, struct fake_worker *worker)
{
    struct worker_report *status = &worker->status;
    const struct plan *plan = worker->plan;
    struct fake_exchange *exchange = exchange_of(cluster, plan);
    uint64_t step = status->applied_step + 1;
    worker->act_at_ns = cluster_delay(cluster, 40);
    if (worker->must_switch) {
        if (!worker->pending)
            return; /* its daemon reports */
        struct plan *next = worker->pending;
        worker->pending = NULL;
        if (fake_rank(cluster, worker, next) < 0 && next->layout.worker_count > 0) {
            worker->left_generation = plan->generation;
            fake_exit(cluster, worker, 0);
            plan_free(next);
            return;
        }
        fake_join(cluster, worker, next);
        return;
    }
    if (status->applied_step == cluster->spec.train.steps) {
        if (status->phase != WORKER_FINISHED) {
            cluster->etcd.checkpoint_step = status->applied_step;
            cluster->etcd.finished = true;
            fake_say(cluster, worker, WORKER_FINISHED);
        }
        return;
    }
    if (!status->holds && exchange->committed < step && !exchange->broken) {
        status->holds = true;
        make_record(cluster, worker, step, false, &status->record);
        return;
    }
    bool root = fake_rank(cluster, worker, plan) == 0;
    if (root && exchange->committed < step && !exchange->broken &&
        everybody_holds(cluster, plan, step)) {
        exchange->committed = step;
        exchange->switches = worker->pending;
        assert_true(step + 1 > cluster->committed_ever);
        cluster->committed_ever = MAX(cluster->committed_ever, step);
    }
    /* The commit may have reached some ranks and not others when the links broke. */
    if (status->holds && exchange->committed >= step &&
        (!exchange->broken || cluster_random(cluster, 3) == 0))
        fake_apply(cluster, worker, step);
}

static void fake_act_leaving(struct cluster *cluster, struct fake_worker *worker)
{
    /*
     * The checkpoint needs every rank of the generation that ends: its ranks share the old
     * exchange.
     */
    const struct plan *plan = worker->plan;
    for (unsigned rank = 0; rank < plan->layout.donor_count; rank++) {
        struct fake_worker *peer =
            fake_at(cluster, plan->layout.workers[rank].node, plan->layout.workers[rank].slot);
        if (cluster->etcd.checkpoint_step < worker->status.applied_step &&
            !fake_in(peer, plan->generation, FAKE_LEAVING))
            return;
    }
    cluster->etcd.checkpoint_step = MAX(cluster->etcd.checkpoint_step, worker->status.applied_step);
    fake_exit(cluster, worker, 0);
}

static bool said_good_bye(const struct cluster *cluster, const struct plan_worker *peer,
                          uint64_t generation)
{
    for (unsigned i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].left_generation == generation &&
            cluster->workers[i].slot == peer->slot &&
            strcmp(cluster->nodes[cluster->workers[i].node].name, peer->node) == 0)
            return true;
    return false;
}

/* Return whether a peer of this worker has left its generation. */
static bool links_broken(struct cluster *cluster, const struct fake_worker *worker)
{
    const struct plan *plan = worker->plan;
    if (worker->activity == FAKE_LEAVING) {
        if (cluster->etcd.checkpoint_step >= worker->status.applied_step)
            return false;
        for (unsigned rank = 0; rank < plan->layout.donor_count; rank++) {
            struct fake_worker *peer =
                fake_at(cluster, plan->layout.workers[rank].node, plan->layout.workers[rank].slot);
            if (!peer || peer->status.phase == WORKER_STUCK)
                return true;
        }
        return false;
    }
    if (worker->activity != FAKE_JOINING && worker->activity != FAKE_TRAINING)
        return false;
    if (!plan || worker->must_switch)
        return false; /* has all it needs from this generation */
    const struct fake_exchange *exchange = exchange_of(cluster, plan);
    if (exchange->generation != plan->generation)
        return false; /* still waits for links: only its daemon can give it new orders */
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++) {
        struct fake_worker *peer =
            fake_at(cluster, plan->layout.workers[rank].node, plan->layout.workers[rank].slot);
        bool switched = peer && peer->plan && peer->plan->generation > plan->generation &&
                        peer->plan->change.planned && peer->activity != FAKE_IDLE;
        bool same_process = peer && (plan->layout.workers[rank].instance == 0 ||
                                     plan->layout.workers[rank].instance == peer->instance);
        if (switched && exchange->switches)
            continue;
        if (exchange->switches && !peer &&
            said_good_bye(cluster, &plan->layout.workers[rank], plan->generation))
            continue;
        if (!same_process || (!fake_in(peer, plan->generation, FAKE_JOINING) &&
                              !fake_in(peer, plan->generation, FAKE_TRAINING)))
            return true;
    }
    return false;
}

static void name_lost(struct cluster *cluster, struct fake_worker *worker)
{
    const struct plan *plan = worker->plan;
    worker->status.lost_count = 0;
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++)
        if (!fake_at(cluster, plan->layout.workers[rank].node, plan->layout.workers[rank].slot))
            snprintf(worker->status.lost[worker->status.lost_count++],
                     sizeof(worker->status.lost[0]), "%s/%u", plan->layout.workers[rank].node,
                     plan->layout.workers[rank].slot);
}

void fake_act(struct cluster *cluster, struct fake_worker *worker)
{
    if (worker->notice_at_ns == 0 && links_broken(cluster, worker)) {
        struct fake_exchange *exchange = exchange_of(cluster, worker->plan);
        if (exchange->generation == worker->plan->generation)
            exchange->broken = true;
        worker->notice_at_ns = cluster_delay(cluster, 150) + 1;
    }
    if (worker->notice_at_ns != 0 && cluster->now_ns >= worker->notice_at_ns) {
        name_lost(cluster, worker);
        fake_go_stuck(cluster, worker);
        return;
    }
    if (cluster->now_ns < worker->act_at_ns)
        return;
    switch (worker->activity) {
    case FAKE_BOOTING:
        if (cluster->nodes[worker->node].start_fails) {
            fake_exit(cluster, worker, 1);
            return;
        }
        worker->activity = FAKE_IDLE;
        fake_inbox_put(cluster, worker, AGENT_WORKER_UP);
        fake_say(cluster, worker, WORKER_STARTING);
        break;
    case FAKE_JOINING:
        fake_act_joining(cluster, worker);
        break;
    case FAKE_TRAINING:
        fake_act_training(cluster, worker);
        break;
    case FAKE_LEAVING:
        fake_act_leaving(cluster, worker);
        break;
    case FAKE_IDLE:
        break;
    }
}
