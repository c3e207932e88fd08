/*
 * A miniature cluster for tests: real leader_decide() and agent_step(), and fakes of all else
 * (etcd, nodes, worker processes) on a simulated clock with seeded delays.
 *
 * Fake workers follow the protocol of DESIGN 4. Their state is one number a unit: the step that it
 * has applied, so a commit taken twice, a step lost for one unit or a move from a wrong source is
 * seen at once. Everything that the fakes assert is a promise of the protocol.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "elastic/agent.h"
#include "elastic/leader.h"

#define CLUSTER_NODES      4
#define CLUSTER_SLOTS      3 /* at most, of one node */
#define CLUSTER_WORKERS    512
#define CLUSTER_INBOX      64
#define CLUSTER_EXCHANGES  8
#define CLUSTER_TICK_NS    (10 * NS_PER_MS)
#define CLUSTER_TIMEOUT_NS (1500 * NS_PER_MS)
#define CLUSTER_LEASE_NS   (10 * NS_PER_SECOND)
#define UNITS_MAX          16

enum fake_activity {
    FAKE_BOOTING,
    FAKE_IDLE,     /* said hello, waits for orders */
    FAKE_JOINING,  /* told to be in `plan`, waits for the others */
    FAKE_TRAINING, /* in `plan` */
    FAKE_LEAVING,  /* switched to an empty plan: saves, then goes */
};

struct fake_worker {
    bool alive;
    unsigned node, slot;
    uint64_t instance;
    enum fake_activity activity;
    struct plan *plan;             /* of the generation it is in, or joins */
    struct plan *pending;          /* planned, told, not yet at its boundary */
    struct worker_report status;   /* what it says; phase, steps and ranges are its real ones */
    uint64_t unit_step[UNITS_MAX]; /* of held and old units */
    bool ready;                    /* joining: has all its units */
    bool must_switch;              /* the last commit it applied said so */
    uint64_t act_at_ns;            /* its next own act */
    uint64_t notice_at_ns;         /* will find its links broken; 0: has not */
    bool deaf;                     /* ignores STOP */
    uint64_t left_generation;      /* it said good-bye to the links of this one */
};

/* The exchange of one generation: what its ranks know together. */
struct fake_exchange {
    uint64_t generation;
    uint64_t start;     /* the step it began with */
    uint64_t committed; /* the last step that its root has committed */
    bool switches;      /* that commit carried the flag */
    bool broken;
    struct step_record record; /* of `committed` */
};

struct fake_node {
    char name[NAME_SIZE];
    bool up, draining, start_fails, refuses;
    uint64_t lease_until_ns, incarnation;
    unsigned slot_count;
    bool slot_bad[CLUSTER_SLOTS];
    struct agent *agent;
    uint64_t agent_wake_ns, sync_at_ns;
    uint64_t plan_seen, next_seen; /* versions */
    struct {
        uint64_t due_ns;
        struct agent_event event;
        struct worker_report status;
        unsigned worker;
    } inbox[CLUSTER_INBOX];
    unsigned inbox_first, inbox_count;
};

struct cluster {
    uint64_t now_ns, random;
    struct job_spec spec;
    struct fake_node nodes[CLUSTER_NODES];
    unsigned node_count, unit_count;
    struct fake_worker workers[CLUSTER_WORKERS];
    unsigned worker_count;
    struct fake_exchange exchanges[CLUSTER_EXCHANGES]; /* of the last generations, by number */
    uint64_t generation_open;                          /* the newest that has opened */
    uint64_t committed_ever;                           /* the largest committed step */
    /* etcd */
    struct plan *plan, *next;
    uint64_t plan_version, next_version;
    struct node_report *reports[CLUSTER_NODES]; /* each of the generation that it names */
    uint64_t checkpoint_step;
    bool finished;
    /* what the user wants */
    enum job_desired desired;
    unsigned devices_wanted, stages_wanted, replicas_wanted, frozen_layers;
    /* the leader */
    struct leader_memory memory;
    uint64_t leader_at_ns;
    enum job_state state;
    char text[512];
    bool over; /* LEADER_FINISH */
    /* what happened, for assertions */
    unsigned published, prepared, dropped, restarts_from_disk;
    unsigned publish_reasons[PLAN_REASON_CANCEL + 1];
    bool quiet_leader; /* nobody leads */
    bool verbose;
};

static inline unsigned cluster_random(struct cluster *cluster, unsigned below)
{
    cluster->random = cluster->random * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(cluster->random >> 33) % below;
}

static inline uint64_t cluster_delay(struct cluster *cluster, unsigned max_ms)
{
    return cluster->now_ns + (uint64_t)cluster_random(cluster, max_ms + 1) * NS_PER_MS;
}

#define cluster_note(cluster, ...)                                                                 \
    do {                                                                                           \
        if ((cluster)->verbose) {                                                                  \
            printf("%8.3f ", (double)(cluster)->now_ns / 1e9);                                     \
            printf(__VA_ARGS__);                                                                   \
            printf("\n");                                                                          \
        }                                                                                          \
    } while (0)

static inline double cluster_square(uint64_t step, unsigned unit)
{
    return (double)step + unit / 64.0;
}

/* --- workers --- */

static inline int fake_rank(const struct cluster *cluster, const struct fake_worker *worker,
                            const struct plan *plan)
{
    return plan_find(plan, cluster->nodes[worker->node].name, worker->slot);
}

static inline struct fake_worker *fake_at(struct cluster *cluster, const char *node, unsigned slot)
{
    for (unsigned i = cluster->worker_count; i-- > 0;)
        if (cluster->workers[i].alive && cluster->workers[i].slot == slot &&
            strcmp(cluster->nodes[cluster->workers[i].node].name, node) == 0)
            return &cluster->workers[i];
    return NULL;
}

static inline void inbox_put(struct cluster *cluster, struct fake_worker *worker,
                             enum agent_event_type type)
{
    struct fake_node *node = &cluster->nodes[worker->node];
    if (node->agent == NULL)
        return;
    assert_true(node->inbox_count < CLUSTER_INBOX);
    unsigned last = (node->inbox_first + node->inbox_count) % CLUSTER_INBOX;
    unsigned before = (last + CLUSTER_INBOX - 1) % CLUSTER_INBOX;
    uint64_t due = cluster_delay(cluster, 15);
    if (node->inbox_count > 0)
        due = MAX(due, node->inbox[before].due_ns);
    node->inbox[last].due_ns = due;
    node->inbox[last].event = (struct agent_event){.type = type, .slot = worker->slot};
    node->inbox[last].status = worker->status;
    node->inbox[last].worker = (unsigned)(worker - cluster->workers);
    node->inbox_count++;
}

static inline void fake_say(struct cluster *cluster, struct fake_worker *worker,
                            enum worker_phase phase)
{
    if (worker->status.phase != phase || worker->status.phase == WORKER_PREPARED)
        cluster_note(cluster, "  %s/%u says %s of %llu, applied %llu%s",
                     cluster->nodes[worker->node].name, worker->slot, worker_phase_word(phase),
                     (unsigned long long)worker->status.generation,
                     (unsigned long long)worker->status.applied_step,
                     worker->status.holds ? " and holds" : "");
    worker->status.phase = phase;
    inbox_put(cluster, worker, AGENT_WORKER_STATUS);
}

static inline void fake_exit(struct cluster *cluster, struct fake_worker *worker, int code)
{
    cluster_note(cluster, "  %s/%u exits with %d", cluster->nodes[worker->node].name, worker->slot,
                 code);
    worker->alive = false;
    inbox_put(cluster, worker, AGENT_WORKER_EXIT);
    struct fake_node *node = &cluster->nodes[worker->node];
    if (node->agent != NULL)
        node->inbox[(node->inbox_first + node->inbox_count - 1) % CLUSTER_INBOX].event.exit_code =
            code;
    plan_free(worker->plan);
    plan_free(worker->pending);
    worker->plan = worker->pending = NULL;
}

static inline void fake_go_stuck(struct cluster *cluster, struct fake_worker *worker)
{
    worker->activity = FAKE_IDLE;
    worker->notice_at_ns = 0;
    worker->status.generation = worker->plan->generation;
    plan_free(worker->pending);
    worker->pending = NULL;
    worker->must_switch = false;
    fake_say(cluster, worker, WORKER_STUCK);
}

static inline bool fake_has_unit(const struct fake_worker *worker, unsigned unit)
{
    const struct worker_report *status = &worker->status;
    return unit - status->held_first_unit < status->held_unit_count ||
           unit - status->old_first_unit < status->old_unit_count;
}

/* Is the state that the plan counts on here? Applies the plan's commit first. */
static inline bool fake_fits(struct cluster *cluster, struct fake_worker *worker)
{
    const struct plan *plan = worker->plan;
    struct worker_report *status = &worker->status;
    if (plan->source != PLAN_SOURCE_MEMORY)
        return true;
    if (plan->has_commit && status->holds && status->applied_step + 1 == plan->commit.step) {
        for (unsigned u = 0; u < status->held_unit_count; u++) {
            uint64_t *step = &worker->unit_step[status->held_first_unit + u];
            assert_int_equal(*step, status->applied_step);
            *step = plan->commit.step;
        }
        status->applied_step = plan->commit.step;
        status->record = plan->commit;
        status->old_unit_count = 0;
        status->holds = false;
    }
    int rank = fake_rank(cluster, worker, plan);
    unsigned total = 0;
    for (unsigned unit = 0; unit < cluster->unit_count; unit++) {
        bool owns = (unsigned)rank < plan->worker_count &&
                    unit >= plan->stage_first_unit[(unsigned)rank % plan->stage_count] &&
                    unit < plan->stage_first_unit[(unsigned)rank % plan->stage_count + 1];
        bool moved = false, pushes = false;
        for (unsigned m = 0; m < plan->move_count; m++) {
            if (plan->moves[m].unit != unit)
                continue;
            moved = moved || plan->moves[m].to_rank == (unsigned)rank;
            pushes = pushes || plan->moves[m].from_rank == (unsigned)rank;
        }
        if (!pushes && (!owns || moved))
            continue;
        total++;
        uint64_t resume = plan->planned ? status->applied_step : plan->resume_step;
        if (!fake_has_unit(worker, unit) || worker->unit_step[unit] != resume)
            return false;
    }
    if (total > 0 && status->holds) { /* thrown away: it will be replayed */
        status->holds = false;
        status->record.step = 0;
    }
    return true;
}

static inline void fake_join(struct cluster *cluster, struct fake_worker *worker, struct plan *plan)
{
    bool from_training = worker->activity == FAKE_TRAINING && plan->planned;
    plan_free(worker->plan);
    worker->plan = plan;
    worker->must_switch = false;
    worker->ready = false;
    worker->notice_at_ns = 0;
    worker->act_at_ns = cluster_delay(cluster, 60);
    if (plan->worker_count == 0) {
        worker->activity = FAKE_LEAVING;
    } else if (!fake_fits(cluster, worker)) {
        cluster_note(cluster, "  %s/%u does not fit generation %llu",
                     cluster->nodes[worker->node].name, worker->slot,
                     (unsigned long long)plan->generation);
        fake_go_stuck(cluster, worker);
    } else {
        worker->activity = FAKE_JOINING;
        if (from_training) {
            worker->status.generation = plan->generation;
            fake_say(cluster, worker, WORKER_PREPARED);
        }
    }
}

static inline void fake_told(struct cluster *cluster, struct fake_worker *worker,
                             const struct agent_action *action)
{
    if (action->type == AGENT_SEND_STOP || action->type == AGENT_KILL) {
        if (!worker->deaf || action->type == AGENT_KILL)
            fake_exit(cluster, worker, action->type == AGENT_KILL ? -9 : 0);
        return;
    }
    /* Said on the strength of a status that is old news. */
    if (worker->plan != NULL && worker->plan->generation >= action->plan->generation &&
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
        fake_say(cluster, worker,
                 cluster->nodes[worker->node].refuses ? WORKER_REFUSED : WORKER_PREPARED);
        return;
    }
    bool trains = worker->activity == FAKE_TRAINING;
    if (trains && plan->planned && worker->status.phase != WORKER_FINISHED) {
        assert_true(plan->generation > worker->plan->generation);
        plan_free(worker->pending);
        worker->pending = plan;
    } else if (plan->planned && worker->status.phase == WORKER_STUCK) {
        plan_free(plan);
    } else {
        fake_join(cluster, worker, plan);
    }
}

static inline bool fake_in(const struct fake_worker *worker, uint64_t generation,
                           enum fake_activity activity)
{
    return worker != NULL && worker->activity == activity && worker->plan != NULL &&
           worker->plan->generation == generation;
}

/* Is every rank of the plan there, on its way in or further? */
static inline bool mesh_is_up(struct cluster *cluster, const struct plan *plan)
{
    for (unsigned rank = 0; rank < plan->worker_count + plan->donor_count; rank++) {
        struct fake_worker *peer =
            fake_at(cluster, plan->workers[rank].node, plan->workers[rank].slot);
        if (!fake_in(peer, plan->generation, FAKE_JOINING) &&
            !fake_in(peer, plan->generation, FAKE_TRAINING))
            return false;
    }
    return true;
}

static inline struct fake_exchange *exchange_of(struct cluster *cluster, const struct plan *plan)
{
    return &cluster->exchanges[plan->generation % CLUSTER_EXCHANGES];
}

/* The step that a generation begins with: of a planned one, where the one before has ended. */
static inline uint64_t join_step(struct cluster *cluster, const struct plan *plan)
{
    if (!plan->planned)
        return plan->resume_step;
    if (exchange_of(cluster, plan)->generation == plan->generation)
        return exchange_of(cluster, plan)->start;
    uint64_t step = 0;
    for (unsigned rank = 0; rank < plan->worker_count + plan->donor_count; rank++)
        step = MAX(step, fake_at(cluster, plan->workers[rank].node, plan->workers[rank].slot)
                             ->status.applied_step);
    return step;
}

/* Take what the moves bring, all or (a broken switch) nothing. */
static inline void fake_receive(struct cluster *cluster, struct fake_worker *worker)
{
    const struct plan *plan = worker->plan;
    struct worker_report *status = &worker->status;
    unsigned rank = (unsigned)fake_rank(cluster, worker, plan);
    uint64_t step = join_step(cluster, plan);
    if (rank >= plan->worker_count) {
        worker->ready = true;
        return;
    }
    unsigned first = plan->stage_first_unit[rank % plan->stage_count];
    unsigned end = plan->stage_first_unit[rank % plan->stage_count + 1];
    for (unsigned m = 0; m < plan->move_count; m++) {
        const struct plan_worker *from = &plan->workers[plan->moves[m].from_rank];
        if (plan->moves[m].to_rank == rank && fake_at(cluster, from->node, from->slot) == NULL)
            return; /* will notice */
    }
    bool keeps_old = plan->source == PLAN_SOURCE_MEMORY && status->held_unit_count > 0 &&
                     status->applied_step == step;
    for (unsigned m = 0; m < plan->move_count; m++) {
        if (plan->moves[m].to_rank != rank)
            continue;
        const struct plan_worker *from = &plan->workers[plan->moves[m].from_rank];
        struct fake_worker *source = fake_at(cluster, from->node, from->slot);
        unsigned unit = plan->moves[m].unit;
        assert_true(fake_has_unit(source, unit));
        assert_int_equal(source->unit_step[unit], step);
        worker->unit_step[unit] = step;
    }
    for (unsigned unit = first; unit < end && plan->source != PLAN_SOURCE_MEMORY; unit++)
        worker->unit_step[unit] = step;
    if (keeps_old) {
        status->old_first_unit = status->held_first_unit;
        status->old_unit_count = status->held_unit_count;
    } else {
        status->old_unit_count = 0;
    }
    status->held_first_unit = first;
    status->held_unit_count = end - first;
    status->applied_step = step;
    if (status->record.step != step)
        status->record.step = 0;
    for (unsigned unit = first; unit < end; unit++)
        assert_int_equal(worker->unit_step[unit], step);
    worker->ready = true;
}

static inline bool everybody_ready(struct cluster *cluster, const struct plan *plan)
{
    for (unsigned rank = 0; rank < plan->worker_count; rank++) {
        const struct fake_worker *peer =
            fake_at(cluster, plan->workers[rank].node, plan->workers[rank].slot);
        if (peer == NULL || peer->plan == NULL || peer->plan->generation != plan->generation ||
            !peer->ready)
            return false;
    }
    return true;
}

/* The first in a generation opens its exchange; nobody opens an older one. */
static inline void open_exchange(struct cluster *cluster, const struct plan *plan)
{
    struct fake_exchange *exchange = exchange_of(cluster, plan);
    if (exchange->generation == plan->generation)
        return;
    assert_true(plan->generation > cluster->generation_open);
    cluster->generation_open = plan->generation;
    uint64_t start = join_step(cluster, plan);
    cluster_note(cluster, "generation %llu opens at step %llu",
                 (unsigned long long)plan->generation, (unsigned long long)start);
    if (plan->source == PLAN_SOURCE_MEMORY)
        assert_true(start + 1 >= cluster->committed_ever);
    exchange->generation = plan->generation;
    exchange->start = exchange->committed = start;
    exchange->switches = exchange->broken = false;
}

static inline void fake_act_joining(struct cluster *cluster, struct fake_worker *worker)
{
    const struct plan *plan = worker->plan;
    const struct fake_exchange *exchange = exchange_of(cluster, plan);
    if (exchange->generation != plan->generation && !mesh_is_up(cluster, plan))
        return;
    if (exchange->generation == plan->generation ? exchange->broken
                                                 : plan->generation < cluster->generation_open)
        return; /* will notice */
    open_exchange(cluster, plan);
    if (!worker->ready) {
        fake_receive(cluster, worker);
        return;
    }
    if (!everybody_ready(cluster, plan))
        return;
    unsigned rank = (unsigned)fake_rank(cluster, worker, plan);
    if (rank >= plan->worker_count) {
        /* A donor leaves when nobody needs it any more: all have begun. */
        for (unsigned r = 0; r < plan->worker_count; r++)
            if (!fake_in(fake_at(cluster, plan->workers[r].node, plan->workers[r].slot),
                         plan->generation, FAKE_TRAINING))
                return;
        worker->left_generation = plan->generation;
        fake_exit(cluster, worker, 0);
        return;
    }
    worker->activity = FAKE_TRAINING;
    worker->status.generation = plan->generation;
    fake_say(cluster, worker, WORKER_RUNNING);
}

static inline void make_record(struct cluster *cluster, const struct fake_worker *worker,
                               uint64_t step, bool all, struct step_record *ret_record)
{
    const struct plan *plan = worker->plan;
    unsigned rank = (unsigned)fake_rank(cluster, worker, plan);
    unsigned replica = rank / plan->stage_count;
    bool last = rank % plan->stage_count + 1 == plan->stage_count;
    step_record_init(ret_record, step, cluster->unit_count, cluster->spec.train.lanes);
    for (unsigned unit = 0; unit < cluster->unit_count; unit++)
        if (all || unit - worker->status.held_first_unit < worker->status.held_unit_count)
            ret_record->unit_squares[unit] = cluster_square(step, unit);
    for (unsigned lane = 0; lane < cluster->spec.train.lanes; lane++)
        if (all || (last && lane >= plan->replica_first_lane[replica] &&
                    lane < plan->replica_first_lane[replica + 1]))
            ret_record->lane_losses[lane] = cluster_square(step, lane);
}

static inline bool everybody_holds(struct cluster *cluster, const struct plan *plan, uint64_t step)
{
    for (unsigned rank = 0; rank < plan->worker_count; rank++) {
        struct fake_worker *peer =
            fake_at(cluster, plan->workers[rank].node, plan->workers[rank].slot);
        if (!fake_in(peer, plan->generation, FAKE_TRAINING) || !peer->status.holds ||
            peer->status.applied_step + 1 != step)
            return false;
    }
    return true;
}

static inline void fake_apply(struct cluster *cluster, struct fake_worker *worker, uint64_t step)
{
    struct worker_report *status = &worker->status;
    for (unsigned u = 0; u < status->held_unit_count; u++) {
        assert_int_equal(worker->unit_step[status->held_first_unit + u], step - 1);
        worker->unit_step[status->held_first_unit + u] = step;
    }
    status->applied_step = step;
    status->holds = false;
    status->old_unit_count = 0;
    status->frozen_layers = cluster->frozen_layers;
    make_record(cluster, worker, step, true, &status->record);
    worker->must_switch = exchange_of(cluster, worker->plan)->switches;
    bool root = fake_rank(cluster, worker, worker->plan) == 0;
    if (root && cluster->spec.checkpoint.every > 0 && step % cluster->spec.checkpoint.every == 0)
        cluster->checkpoint_step = step;
}

static inline void fake_act_training(struct cluster *cluster, struct fake_worker *worker)
{
    struct worker_report *status = &worker->status;
    const struct plan *plan = worker->plan;
    struct fake_exchange *exchange = exchange_of(cluster, plan);
    uint64_t step = status->applied_step + 1;
    worker->act_at_ns = cluster_delay(cluster, 40);
    if (worker->must_switch) {
        if (worker->pending == NULL)
            return; /* its daemon will tell */
        struct plan *next = worker->pending;
        worker->pending = NULL;
        if (fake_rank(cluster, worker, next) < 0 && next->worker_count > 0) {
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
            cluster->checkpoint_step = status->applied_step;
            cluster->finished = true;
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
        exchange->switches = worker->pending != NULL;
        assert_true(step + 1 > cluster->committed_ever);
        cluster->committed_ever = MAX(cluster->committed_ever, step);
    }
    /* The commit may have reached some and not others when the links broke. */
    if (status->holds && exchange->committed >= step &&
        (!exchange->broken || cluster_random(cluster, 3) == 0))
        fake_apply(cluster, worker, step);
}

static inline void fake_act_leaving(struct cluster *cluster, struct fake_worker *worker)
{
    /* The checkpoint needs everybody of the generation that ends: those have the same old exchange.
     */
    const struct plan *plan = worker->plan;
    for (unsigned rank = 0; rank < plan->donor_count; rank++) {
        struct fake_worker *peer =
            fake_at(cluster, plan->workers[rank].node, plan->workers[rank].slot);
        if (cluster->checkpoint_step < worker->status.applied_step &&
            !fake_in(peer, plan->generation, FAKE_LEAVING))
            return;
    }
    cluster->checkpoint_step = MAX(cluster->checkpoint_step, worker->status.applied_step);
    fake_exit(cluster, worker, 0);
}

static inline bool said_good_bye(const struct cluster *cluster, const struct plan_worker *peer,
                                 uint64_t generation)
{
    for (unsigned i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].left_generation == generation &&
            cluster->workers[i].slot == peer->slot &&
            strcmp(cluster->nodes[cluster->workers[i].node].name, peer->node) == 0)
            return true;
    return false;
}

/* Somebody that this worker talks to is not in its generation any more. */
static inline bool links_broken(struct cluster *cluster, const struct fake_worker *worker)
{
    const struct plan *plan = worker->plan;
    if (worker->activity == FAKE_LEAVING) {
        if (cluster->checkpoint_step >= worker->status.applied_step)
            return false;
        for (unsigned rank = 0; rank < plan->donor_count; rank++) {
            struct fake_worker *peer =
                fake_at(cluster, plan->workers[rank].node, plan->workers[rank].slot);
            if (peer == NULL || peer->status.phase == WORKER_STUCK)
                return true;
        }
        return false;
    }
    if (worker->activity != FAKE_JOINING && worker->activity != FAKE_TRAINING)
        return false;
    if (plan == NULL || worker->must_switch)
        return false; /* has all that it needs from this generation */
    const struct fake_exchange *exchange = exchange_of(cluster, plan);
    if (exchange->generation != plan->generation)
        return false; /* still waits for links: only its daemon can tell it something new */
    for (unsigned rank = 0; rank < plan->worker_count; rank++) {
        struct fake_worker *peer =
            fake_at(cluster, plan->workers[rank].node, plan->workers[rank].slot);
        bool switched = peer != NULL && peer->plan != NULL &&
                        peer->plan->generation > plan->generation && peer->plan->planned &&
                        peer->activity != FAKE_IDLE;
        bool same_process = peer != NULL && (plan->workers[rank].instance == 0 ||
                                             plan->workers[rank].instance == peer->instance);
        if (switched && exchange->switches)
            continue;
        if (exchange->switches && peer == NULL &&
            said_good_bye(cluster, &plan->workers[rank], plan->generation))
            continue;
        if (!same_process || (!fake_in(peer, plan->generation, FAKE_JOINING) &&
                              !fake_in(peer, plan->generation, FAKE_TRAINING)))
            return true;
    }
    return false;
}

static inline void name_lost(struct cluster *cluster, struct fake_worker *worker)
{
    const struct plan *plan = worker->plan;
    worker->status.lost_count = 0;
    for (unsigned rank = 0; rank < plan->worker_count; rank++)
        if (fake_at(cluster, plan->workers[rank].node, plan->workers[rank].slot) == NULL)
            snprintf(worker->status.lost[worker->status.lost_count++],
                     sizeof(worker->status.lost[0]), "%s/%u", plan->workers[rank].node,
                     plan->workers[rank].slot);
}

static inline void fake_act(struct cluster *cluster, struct fake_worker *worker)
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
        inbox_put(cluster, worker, AGENT_WORKER_UP);
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

/* --- nodes --- */

static inline void fake_spawn(struct cluster *cluster, unsigned node, unsigned slot)
{
    assert_null(fake_at(cluster, cluster->nodes[node].name, slot));
    assert_true(cluster->worker_count < CLUSTER_WORKERS);
    struct fake_worker *worker = &cluster->workers[cluster->worker_count++];
    memset(worker, 0, sizeof(*worker));
    worker->alive = true;
    worker->node = node;
    worker->slot = slot;
    worker->instance = cluster->worker_count;
    worker->status.slot = slot;
    worker->status.instance = worker->instance;
    worker->act_at_ns = cluster_delay(cluster, 80);
}

static inline void carry_out(struct cluster *cluster, unsigned index, struct agent_actions *actions)
{
    struct fake_node *node = &cluster->nodes[index];
    for (unsigned i = 0; i < actions->count; i++) {
        struct agent_action *action = &actions->list[i];
        struct fake_worker *worker = fake_at(cluster, node->name, action->slot);
        switch (action->type) {
        case AGENT_SPAWN:
            cluster_note(cluster, "  %s/%u is started", node->name, action->slot);
            fake_spawn(cluster, index, action->slot);
            break;
        case AGENT_SEND_PREPARE:
        case AGENT_SEND_SWITCH:
        case AGENT_SEND_STOP:
        case AGENT_KILL:
            if (worker != NULL)
                fake_told(cluster, worker, action);
            break;
        case AGENT_REPORT:
            if (cluster->reports[index]->generation <= action->report->generation)
                memcpy(cluster->reports[index], action->report, sizeof(*action->report));
            break;
        case AGENT_SLOT_BAD:
            node->slot_bad[action->slot] = true;
            break;
        }
    }
    node->agent_wake_ns = actions->wake_at_ns;
    agent_actions_done(actions);
}

static inline void feed(struct cluster *cluster, unsigned index, struct agent_event *event)
{
    static struct agent_actions actions;
    event->now_ns = cluster->now_ns;
    assert_int_equal(agent_step(cluster->nodes[index].agent, event, &actions), 0);
    carry_out(cluster, index, &actions);
}

static inline void node_tick(struct cluster *cluster, unsigned index)
{
    struct fake_node *node = &cluster->nodes[index];
    if (node->agent == NULL)
        return;
    node->lease_until_ns = cluster->now_ns + CLUSTER_LEASE_NS;
    while (node->inbox_count > 0 && node->inbox[node->inbox_first].due_ns <= cluster->now_ns) {
        unsigned first = node->inbox_first;
        struct agent_event event = node->inbox[first].event;
        struct worker_report status = node->inbox[first].status;
        event.status = &status;
        node->inbox_first = (first + 1) % CLUSTER_INBOX;
        node->inbox_count--;
        feed(cluster, index, &event);
    }
    if (cluster->now_ns >= node->sync_at_ns) {
        node->sync_at_ns = cluster_delay(cluster, 40);
        if (node->plan_seen != cluster->plan_version) {
            node->plan_seen = cluster->plan_version;
            struct agent_event event = {.type = AGENT_PLAN, .plan = cluster->plan};
            feed(cluster, index, &event);
        }
        if (node->next_seen != cluster->next_version) {
            node->next_seen = cluster->next_version;
            struct agent_event event = {.type = AGENT_NEXT, .plan = cluster->next};
            feed(cluster, index, &event);
        }
    }
    if (cluster->now_ns >= node->agent_wake_ns) {
        struct agent_event event = {.type = AGENT_TICK};
        feed(cluster, index, &event);
    }
}

/* --- the leader --- */

static inline void build_view(struct cluster *cluster, struct leader_view *view,
                              struct leader_node *nodes, struct node_report *reports)
{
    memset(view, 0, sizeof(*view));
    view->now_ns = cluster->now_ns;
    view->failure_timeout_ns = CLUSTER_TIMEOUT_NS;
    view->spec = &cluster->spec;
    view->desired = cluster->desired;
    view->devices_wanted = cluster->devices_wanted;
    view->stages_wanted = cluster->stages_wanted;
    view->replicas_wanted = cluster->replicas_wanted;
    view->plan = cluster->plan;
    view->next = cluster->next;
    view->finished = cluster->finished;
    view->nodes = nodes;
    view->reports = reports;
    view->checkpoint.step = cluster->checkpoint_step;
    snprintf(view->checkpoint.path, sizeof(view->checkpoint.path), "/checkpoint");
    view->frozen_layers = cluster->frozen_layers;
    view->progress_step = cluster->committed_ever;
    for (unsigned i = 0; i < cluster->node_count; i++) {
        const struct fake_node *from = &cluster->nodes[i];
        if (cluster->plan != NULL && cluster->reports[i]->generation == cluster->plan->generation) {
            struct node_report *report = &reports[view->report_count++];
            memcpy(report, cluster->reports[i], offsetof(struct node_report, workers));
            memcpy(report->workers, cluster->reports[i]->workers,
                   report->worker_count * sizeof(report->workers[0]));
        }
        if (from->lease_until_ns <= cluster->now_ns)
            continue;
        struct leader_node *node = &nodes[view->node_count++];
        memset(node, 0, sizeof(*node));
        snprintf(node->name, sizeof(node->name), "%s", from->name);
        snprintf(node->host, sizeof(node->host), "127.0.0.1");
        node->link_port = 7000 + 100 * i;
        node->incarnation = from->incarnation;
        node->draining = from->draining;
        node->slot_count = from->slot_count;
        for (unsigned s = 0; s < from->slot_count; s++)
            node->slots[s] = (struct leader_slot){s, 0, 1, from->slot_bad[s], false};
    }
}

/* Every unit of a plan from memory is where the plan says: on a live process or on its way. */
static inline void check_plan(struct cluster *cluster, const struct plan *plan)
{
    struct error error = {0};
    if (plan_check(plan, &error) < 0)
        fail_msg("plan: %s", error.text);
    assert_true(cluster->plan == NULL || plan->generation > cluster->plan->generation);
    if (plan->worker_count > 0)
        assert_int_equal(plan_unit_count(plan), cluster->unit_count);
}

/* Falling back is only right when no set of live processes has every unit at the last steps. */
static inline void check_fallback(struct cluster *cluster)
{
    for (unsigned i = 0; i < cluster->worker_count; i++) {
        const struct fake_worker *one = &cluster->workers[i];
        if (!one->alive || one->status.held_unit_count == 0 ||
            one->status.applied_step + 1 < cluster->committed_ever ||
            one->status.applied_step <= cluster->checkpoint_step)
            continue;
        unsigned covered = 0;
        for (unsigned unit = 0; unit < cluster->unit_count; unit++)
            for (unsigned j = 0; j < cluster->worker_count; j++)
                if (cluster->workers[j].alive && fake_has_unit(&cluster->workers[j], unit) &&
                    cluster->workers[j].unit_step[unit] == one->status.applied_step) {
                    covered++;
                    break;
                }
        if (covered == cluster->unit_count)
            fail_msg("fell back to disk although step %llu lives: %s",
                     (unsigned long long)one->status.applied_step, cluster->text);
    }
}

static inline void set_plan(struct plan **key, uint64_t *version, struct plan *plan)
{
    plan_free(*key);
    *key = plan;
    (*version)++;
}

static inline void apply_decision(struct cluster *cluster, struct leader_decision *decision)
{
    struct plan *plan = decision->plan;
    cluster->state = decision->state;
    memcpy(cluster->text, decision->text, sizeof(cluster->text));
    if (plan != NULL && plan->key[0] == '\0')
        for (unsigned i = 0; i < PLAN_KEY_HEX_SIZE - 1; i++)
            plan->key[i] = "0123456789abcdef"[cluster_random(cluster, 16)];
    switch (decision->action) {
    case LEADER_NOTHING:
        break;
    case LEADER_PREPARE:
        cluster_note(cluster, "prepare %llu: %s", (unsigned long long)plan->generation,
                     decision->text);
        check_plan(cluster, plan);
        set_plan(&cluster->next, &cluster->next_version, plan);
        cluster->prepared++;
        break;
    case LEADER_PUBLISH:
        cluster_note(cluster, "publish %llu: %s", (unsigned long long)plan->generation,
                     decision->text);
        check_plan(cluster, plan);
        if (cluster->plan != NULL && plan->source != PLAN_SOURCE_MEMORY &&
            plan->reason == PLAN_REASON_FAILURE) {
            check_fallback(cluster);
            cluster->restarts_from_disk++;
            cluster->committed_ever = plan->resume_step;
        }
        if (plan->reason == PLAN_REASON_RESUME)
            cluster->committed_ever = plan->resume_step;
        cluster->published++;
        cluster->publish_reasons[plan->reason]++;
        set_plan(&cluster->plan, &cluster->plan_version, plan);
        set_plan(&cluster->next, &cluster->next_version, NULL);
        break;
    case LEADER_DROP_NEXT:
        cluster_note(cluster, "drop: %s", decision->text);
        set_plan(&cluster->next, &cluster->next_version, NULL);
        cluster->dropped++;
        break;
    case LEADER_FINISH:
        cluster->over = true;
        break;
    }
}

static inline void leader_tick(struct cluster *cluster)
{
    static struct leader_node nodes[CLUSTER_NODES];
    static struct node_report reports[CLUSTER_NODES];
    if (cluster->quiet_leader || cluster->now_ns < cluster->leader_at_ns)
        return;
    cluster->leader_at_ns = cluster_delay(cluster, 40);
    struct leader_view view;
    struct leader_decision decision;
    struct error error;
    build_view(cluster, &view, nodes, reports);
    cluster->over = false;
    int r = leader_decide(&view, &cluster->memory, &decision, &error);
    if (r < 0)
        fail_msg("leader: %s", error.text);
    apply_decision(cluster, &decision);
}

/* --- what a test does --- */

static inline void cluster_tick(struct cluster *cluster)
{
    cluster->now_ns += CLUSTER_TICK_NS;
    for (unsigned i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].alive)
            fake_act(cluster, &cluster->workers[i]);
    for (unsigned i = 0; i < cluster->node_count; i++)
        node_tick(cluster, i);
    leader_tick(cluster);
}

/* A new daemon: finds the workers that run. */
static inline void cluster_start_daemon(struct cluster *cluster, unsigned index)
{
    struct fake_node *node = &cluster->nodes[index];
    assert_null(node->agent);
    node->agent = agent_new(cluster->spec.name, node->name, CLUSTER_TIMEOUT_NS);
    assert_non_null(node->agent);
    node->up = true;
    node->incarnation++;
    node->inbox_count = 0;
    node->agent_wake_ns = UINT64_MAX;
    node->plan_seen = node->next_seen = UINT64_MAX;
    node->sync_at_ns = cluster->now_ns;
    if (cluster->plan != NULL && cluster->reports[index]->generation == cluster->plan->generation) {
        struct agent_event said = {.type = AGENT_REPORTED, .report = cluster->reports[index]};
        feed(cluster, index, &said);
    }
    for (unsigned i = 0; i < cluster->worker_count; i++) {
        struct fake_worker *worker = &cluster->workers[i];
        if (!worker->alive || worker->node != index || worker->activity == FAKE_BOOTING)
            continue;
        struct agent_event up = {.type = AGENT_WORKER_UP, .slot = worker->slot};
        feed(cluster, index, &up);
        inbox_put(cluster, worker, AGENT_WORKER_STATUS);
    }
    if (cluster->next == NULL)
        node->next_seen = cluster->next_version;
    if (cluster->plan == NULL)
        node->plan_seen = cluster->plan_version;
}

static inline void cluster_stop_daemon(struct cluster *cluster, unsigned index)
{
    agent_free(cluster->nodes[index].agent);
    cluster->nodes[index].agent = NULL;
    cluster->nodes[index].inbox_count = 0;
    /* One that was just being started has nobody to greet. */
    for (unsigned i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].alive && cluster->workers[i].node == index &&
            cluster->workers[i].activity == FAKE_BOOTING)
            fake_exit(cluster, &cluster->workers[i], -9);
}

static inline void cluster_kill_worker(struct cluster *cluster, struct fake_worker *worker)
{
    cluster_note(cluster, "KILL %s/%u", cluster->nodes[worker->node].name, worker->slot);
    fake_exit(cluster, worker, -9);
}

static inline void cluster_kill_node(struct cluster *cluster, unsigned index)
{
    cluster_note(cluster, "KILL node %s", cluster->nodes[index].name);
    if (cluster->nodes[index].agent != NULL)
        cluster_stop_daemon(cluster, index);
    cluster->nodes[index].up = false;
    for (unsigned i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].alive && cluster->workers[i].node == index)
            fake_exit(cluster, &cluster->workers[i], -9);
}

static inline struct cluster *cluster_new(uint64_t seed, unsigned nodes, unsigned slots)
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));
    assert_non_null(cluster);
    cluster->random = seed * 2654435761u + 1;
    cluster->now_ns = NS_PER_SECOND;
    cluster->node_count = nodes;
    snprintf(cluster->spec.name, sizeof(cluster->spec.name), "job");
    cluster->spec.model.layers = 3;
    cluster->spec.model.width = 512;
    cluster->spec.model.heads = 4;
    cluster->spec.model.context = 128;
    cluster->spec.model.vocab = 256;
    cluster->spec.train.steps = 1000000;
    cluster->spec.train.lanes = 6;
    cluster->spec.train.micro_batch = 4;
    cluster->spec.train.micro_batches_per_lane = 2;
    cluster->spec.elastic.devices_min = 1;
    cluster->spec.elastic.devices_max = 64;
    cluster->spec.checkpoint.every = 20;
    cluster->unit_count = job_spec_unit_count(&cluster->spec);
    assert_true(cluster->unit_count <= UNITS_MAX);
    for (unsigned i = 0; i < nodes; i++) {
        snprintf(cluster->nodes[i].name, sizeof(cluster->nodes[i].name), "%c", 'a' + i);
        cluster->nodes[i].slot_count = slots;
        cluster->reports[i] = calloc(1, sizeof(struct node_report));
        assert_non_null(cluster->reports[i]);
        cluster_start_daemon(cluster, i);
    }
    return cluster;
}

static inline void cluster_free(struct cluster *cluster)
{
    for (unsigned i = 0; i < cluster->worker_count; i++) {
        plan_free(cluster->workers[i].plan);
        plan_free(cluster->workers[i].pending);
    }
    for (unsigned i = 0; i < cluster->node_count; i++) {
        agent_free(cluster->nodes[i].agent);
        free(cluster->reports[i]);
    }
    plan_free(cluster->plan);
    plan_free(cluster->next);
    free(cluster);
}

/* Everybody of the plan in force trains in it. */
static inline bool cluster_trains(struct cluster *cluster)
{
    const struct plan *plan = cluster->plan;
    if (plan == NULL || plan->worker_count == 0)
        return false;
    for (unsigned rank = 0; rank < plan->worker_count; rank++)
        if (!fake_in(fake_at(cluster, plan->workers[rank].node, plan->workers[rank].slot),
                     plan->generation, FAKE_TRAINING))
            return false;
    return true;
}

static inline void cluster_run(struct cluster *cluster, double seconds)
{
    uint64_t end = cluster->now_ns + (uint64_t)(seconds * 1e9);
    while (cluster->now_ns < end)
        cluster_tick(cluster);
}

/* Run until @condition, at most @seconds of the cluster's time. */
#define cluster_until(cluster, seconds, condition)                                                 \
    do {                                                                                           \
        uint64_t until_ = (cluster)->now_ns + (uint64_t)((seconds)*1e9);                           \
        while (!(condition)) {                                                                     \
            if ((cluster)->now_ns >= until_)                                                       \
                fail_msg("not in %.0f s: %s (%s)", (double)(seconds), #condition,                  \
                         (cluster)->text);                                                         \
            cluster_tick(cluster);                                                                 \
        }                                                                                          \
    } while (0)

/* Some steps further, in whatever generation. */
static inline void cluster_progress(struct cluster *cluster, unsigned steps, double seconds)
{
    uint64_t target = cluster->committed_ever + steps;
    cluster_until(cluster, seconds, cluster_trains(cluster) && cluster->committed_ever >= target);
}

static inline unsigned cluster_alive(const struct cluster *cluster)
{
    unsigned alive = 0;
    for (unsigned i = 0; i < cluster->worker_count; i++)
        alive += cluster->workers[i].alive;
    return alive;
}
