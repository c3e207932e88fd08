#include "sim/check/sim_check.h"

#include <string.h>

#include "elastic/plan/plan.h"
#include "membership/kv/keys.h"
#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_faults.h"
#include "sim/node/sim_folders.h"
#include "sim/node/sim_node.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_bits.h"
#include "sim/worker/sim_input.h"

#define TRIED_NS   (8 * SIM_FAILURE_TIMEOUT) /* at least, per unreadable checkpoint */
#define READING_NS (12 * NS_PER_SECOND)      /* until a lone node knows the registered nodes */
#define TELL_NS    (5 * NS_PER_SECOND)  /* until a known node has a lease again and reports it */
#define LEARN_NS   (3 * NS_PER_SECOND)  /* until a returned node has heard of all nodes */
#define WAKE_NS    (NS_PER_SECOND / 10) /* until a resumed process hears its firnd */
/*
 * Bound the time without a commit when all faults are over. The longest way back: the links of a
 * generation are waited for up to their limit (20 failure timeouts, 30 s), with one more timeout
 * for the workers that hear of it last. Then a slot that fell silent may be left alone for a while,
 * processes start, and the next generation begins. Without the first wait the recovery takes a few
 * seconds.
 */
#define STALL_MAX_NS (60 * NS_PER_SECOND)
#define LONG_STEPS   3 /* one slot alone takes as long as several, and repeats some of the step */
#define QUIET_NS     (5 * NS_PER_SECOND)
#define END_MAX_NS   (400 * NS_PER_SECOND)

/* ---- expected history ---- */

static uint64_t compute_record(const struct sim_unit *units, uint64_t step)
{
    struct sim_record record;
    uint64_t digest = sim_forward(0, step, units, 0, SIM_UNITS);
    sim_record_init(&record, step);
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        record.squares[unit] = sim_square(unit, step, digest);
    for (unsigned lane = 0; lane < SIM_LANES; lane++)
        record.losses[lane] = sim_loss(lane, step, digest);
    return sim_record_digest(&record);
}

struct sim_check *sim_check_new(struct sim *sim)
{
    struct sim_check *check = sim_allocate(1, sizeof(*check));
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        check->history[0][unit] = (struct sim_unit){.held = true, .hash = sim_initial_hash(unit)};
    for (uint64_t step = 1; step <= sim->spec.train.steps; step++) {
        uint64_t digest = compute_record(check->history[step - 1], step);
        check->record_digests[step] = digest;
        for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
            check->history[step][unit] = check->history[step - 1][unit];
            check->history[step][unit].step = step;
            sim_apply_unit(&check->history[step][unit], step, digest);
        }
    }
    return check;
}

/* ---- steps ---- */

static struct sim_witness *witness_in(struct sim_witness witnesses[16], const struct plan *plan,
                                      uint64_t step)
{
    struct sim_witness *witness = &witnesses[plan->generation % 16];
    if (witness->generation != plan->generation || witness->step != step)
        *witness = (struct sim_witness){.generation = plan->generation, .step = step};
    return witness;
}

static struct sim_witness *witness_of(struct sim *sim, const struct plan *plan, uint64_t step)
{
    return witness_in(sim->check->witnesses, plan, step);
}

void sim_check_hold(struct sim *sim, struct sim_worker *worker)
{
    uint64_t step = worker->state.applied_step + 1;
    witness_of(sim, worker->plan, step)->ranks |= (uint64_t)1 << worker->rank;
    worker->ledger.hold_generation = worker->plan->generation;
    worker->ledger.hold_step = step;
}

static bool is_on_one_node(const struct plan *plan)
{
    for (unsigned rank = 1; rank < plan->layout.worker_count; rank++)
        if (strcmp(plan->layout.workers[rank].node, plan->layout.workers[0].node) != 0)
            return false;
    return true;
}

/* A lone node reads the registered nodes now and then: note the nodes that it must know. */
static void note_company(struct sim *sim, struct sim_node *node)
{
    char key[KV_KEY_MAX];
    for (unsigned i = 0; i < sim->node_count; i++) {
        struct sim_company *other = &node->company[i];
        bool there = i != node->index &&
                     sim_store_find(sim->store, keys_node(key, SIM_CLUSTER, sim->nodes[i].name));
        other->registered_ns = !there                      ? 0
                               : other->registered_ns != 0 ? other->registered_ns
                                                           : sim->now_ns;
        other->known |= there && other->registered_ns + READING_NS <= sim->now_ns;
    }
    node->reached_ns = sim->now_ns;
}

/*
 * Return true if the node cannot know that it is the only node without etcd: no other node was
 * registered (or not for long enough to be known) when it last reached etcd, and none of the nodes
 * that it has known and reaches now reaches etcd.
 */
static bool knows_nobody(const struct sim *sim, const struct sim_node *node)
{
    for (unsigned i = 0; i < sim->node_count; i++) {
        const struct sim_company *other = &node->company[i];
        const struct sim_node *there = &sim->nodes[i];
        bool known_now =
            other->registered_ns != 0 && other->registered_ns + READING_NS <= node->reached_ns;
        bool tells = other->known && there->firnd && sim_reachable(sim, node->index, i) &&
                     sim_reachable(sim, i, SIM_STORE_PLACE) &&
                     there->disturbed_ns + TELL_NS <= sim->now_ns &&
                     there->firnd_pause.until_ns + TELL_NS <= sim->now_ns;
        if (known_now || tells)
            return false;
    }
    return true;
}

/* Return whether a neighbour of @node may answer that it does not reach the store either. */
static bool has_company(const struct sim *sim, const struct sim_node *node)
{
    for (unsigned i = 0; i < sim->node_count; i++)
        if (i != node->index && sim->nodes[i].firnd && sim_reachable(sim, node->index, i) &&
            !sim_reachable(sim, i, SIM_STORE_PLACE))
            return true;
    return false;
}

/* Rank 0 was stopped after it had the parts of all ranks, and continues before it hears its firnd.
 */
static bool has_just_woken(const struct sim *sim, unsigned node, const struct plan_worker *root)
{
    const struct sim_worker *worker = sim_worker_at(sim, node, root->slot);
    return worker && worker->pause.until_ns && worker->pause.until_ns + WAKE_NS > sim->now_ns;
}

/*
 * A replaced generation may train beside its successor only where firn cannot prevent it: the
 * daemon of the node is dead or has not yet learnt its predecessor's knowledge; the store was away
 * for all nodes and the news is in flight; or several nodes are cut off from the store together.
 */
static bool is_out_of_reach(const struct sim *sim, const struct plan *plan)
{
    const struct sim_node *node = &sim->nodes[sim_node_index(sim, plan->layout.workers[0].node)];
    bool serves = node->firnd && node->firnd->daemon.jobs &&
                  node->firnd_pause.until_ns + LEARN_NS <= sim->now_ns;
    bool store_is_well = !sim->store->down && sim->store->lost_answers_percent == 0 &&
                         sim->now_ns >= sim->faults->store_disturbed_ns + LEARN_NS;
    bool reaches = sim_reachable(sim, node->index, SIM_STORE_PLACE) &&
                   sim->now_ns >= node->disturbed_ns + LEARN_NS;
    return !serves || !store_is_well || has_just_woken(sim, node->index, plan->layout.workers) ||
           (!reaches &&
            (!is_on_one_node(plan) || has_company(sim, node) || knows_nobody(sim, node)));
}

void sim_check_gradients(struct sim_worker *worker, unsigned unit, uint64_t step)
{
    struct sim_ledger *ledger = &worker->ledger;
    if (ledger->gradients[0][unit].generation != worker->plan->generation)
        ledger->gradients[1][unit] = ledger->gradients[0][unit];
    ledger->gradients[0][unit].generation = worker->plan->generation;
    ledger->gradients[0][unit].step = step;
}

void sim_check_sums(const struct sim_worker *worker)
{
    for (unsigned lane = 0; lane < SIM_LANES; lane++)
        if (sim_sums_misses(worker, lane))
            sim_fail(worker->sim, "%s adds to a sum of lane %u that it has not got", worker->name,
                     lane);
}

/* The nodes on which @plan has a replica or a shadow of @unit, a bit each. */
static uint64_t nodes_that_keep(const struct sim *sim, const struct plan *plan, unsigned unit)
{
    uint64_t nodes = 0;
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++)
        if (plan_layout_keeps(&plan->layout, rank, unit))
            nodes |= (uint64_t)1 << sim_node_index(sim, plan->layout.workers[rank].node);
    return nodes;
}

static uint64_t nodes_with_gradients(const struct sim *sim, const struct plan *plan, unsigned unit,
                                     uint64_t step)
{
    uint64_t nodes = 0;
    for (unsigned i = 0; i < sim->worker_count; i++) {
        const struct sim_worker *worker = sim->workers[i]; /* it may have died since */
        for (unsigned k = 0; k < 2; k++)
            if (worker->ledger.gradients[k][unit].generation == plan->generation &&
                worker->ledger.gradients[k][unit].step == step)
                nodes |= (uint64_t)1 << worker->node;
    }
    return nodes;
}

static bool is_two(uint64_t bits)
{
    return (bits & (bits - 1)) != 0;
}

/* With shadows a commit proves that the gradients of every unit are on all nodes that keep it. */
static void check_shadowed_commit(struct sim *sim, const struct plan *plan, uint64_t step)
{
    for (unsigned unit = 0; sim->spec.elastic.shadow && unit < SIM_UNITS; unit++)
        if (is_two(nodes_that_keep(sim, plan, unit)) &&
            !is_two(nodes_with_gradients(sim, plan, unit, step)))
            sim_fail(sim,
                     "generation %llu commits step %llu, but one node alone has its gradients of "
                     "unit %u",
                     (unsigned long long)plan->generation, (unsigned long long)step, unit);
}

/* Return whether @plan keeps each unit on at least two nodes. */
static bool keeps_double(const struct sim *sim, const struct plan *plan)
{
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (!is_two(nodes_that_keep(sim, plan, unit)))
            return false;
    return sim->spec.elastic.shadow;
}

static uint64_t nodes_that_keep_any(const struct sim *sim, const struct plan *plan)
{
    uint64_t nodes = 0;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        nodes |= nodes_that_keep(sim, plan, unit);
    return nodes;
}

static void note_generation(struct sim *sim, const struct plan *plan)
{
    struct sim_check *check = sim->check;
    check->committing_generation = plan->generation;
    check->replicas = plan->layout.replica_count;
    check->first_commit_ns = sim->now_ns;
    check->doubled = keeps_double(sim, plan);
    check->nodes = nodes_that_keep_any(sim, plan);
}

void sim_check_commit(struct sim *sim, const struct plan *plan, const struct sim_record *record,
                      uint64_t next)
{
    struct sim_check *check = sim->check;
    unsigned place = plan->generation % ARRAY_COUNT(check->announced);
    if (check->announced[place].generation == plan->generation)
        sim_fail(sim, "generation %llu commits step %llu, but it was to be left after step %llu",
                 (unsigned long long)plan->generation, (unsigned long long)record->step,
                 (unsigned long long)check->announced[place].step);
    if (next != 0)
        sim_check_announced(sim, plan->generation, record->step, next);
    uint64_t all = ((uint64_t)1 << plan->layout.worker_count) - 1;
    if (witness_of(sim, plan, record->step)->ranks != all)
        sim_fail(sim, "generation %llu commits step %llu, which not everybody holds",
                 (unsigned long long)plan->generation, (unsigned long long)record->step);
    sim_check_noticed(sim, plan, record->step);
    sim_check_late(sim, plan, record->step);
    if (sim_record_digest(record) != check->record_digests[record->step] &&
        !sim_bits_may_be_wrong(sim, plan->generation))
        sim_fail(sim, "step %llu is committed with other values than in the undisturbed run",
                 (unsigned long long)record->step);
    check->committed_ever = MAX(check->committed_ever, record->step);
    if (plan->generation >= check->given_away)
        check->committed_step = MAX(check->committed_step, record->step);
    struct sim_node *root = &sim->nodes[sim_node_index(sim, plan->layout.workers[0].node)];
    if (is_on_one_node(plan) && !sim->store->down &&
        sim_reachable(sim, root->index, SIM_STORE_PLACE))
        note_company(sim, root);
    if (plan->generation < check->committing_generation && is_out_of_reach(sim, plan)) {
        check->counts.unfenced++;
        return;
    }
    if (plan->generation < check->committing_generation)
        sim_fail(sim, "generation %llu commits step %llu after generation %llu has committed",
                 (unsigned long long)plan->generation, (unsigned long long)record->step,
                 (unsigned long long)check->committing_generation);
    if (plan->generation != check->committing_generation) {
        sim_trace(sim, "generation %llu commits its first step, %llu",
                  (unsigned long long)plan->generation, (unsigned long long)record->step);
        note_generation(sim, plan);
    }
    check_shadowed_commit(sim, plan, record->step);
    check->committed_ns = sim->now_ns;
    check->commits++;
}

void sim_check_apply(struct sim *sim, struct sim_worker *worker, unsigned unit)
{
    const struct sim_unit *held = &worker->state.units[unit];
    const struct sim_unit *right =
        &sim->check->history[MIN(held->step, (uint64_t)SIM_STEPS_MAX)][unit];
    if (!held->held || held->step > sim->check->committed_ever)
        sim_fail(sim, "%s applies step %llu to unit %u, but that is not committed",
                 sim_worker_name(worker), (unsigned long long)held->step, unit);
    else if (sim_unit_digest(held) != sim_unit_digest(right) &&
             !sim_bits_may_be_wrong(sim, worker->generation))
        sim_fail(sim, "%s: unit %u has other bits at step %llu than in the undisturbed run",
                 sim_worker_name(worker), unit, (unsigned long long)held->step);
    worker->ledger.kept[unit] = held->step;
}

/* ---- generations ---- */

void sim_check_announced(struct sim *sim, uint64_t generation, uint64_t step, uint64_t next)
{
    struct sim_check *check = sim->check;
    unsigned place = generation % ARRAY_COUNT(check->announced);
    check->announced[place].generation = generation;
    check->announced[place].step = step;
    check->announced[place].next = next;
}

void sim_check_switch(struct sim *sim, const struct sim_worker *worker, const struct plan *next)
{
    struct sim_check *check = sim->check;
    unsigned place = worker->generation % ARRAY_COUNT(check->announced);
    if (!worker->engine || !next->change.planned || worker->phase != WORKER_RUNNING)
        return;
    check->doubled = check->doubled && keeps_double(sim, next); /* absent workers leave */
    check->nodes |= nodes_that_keep_any(sim, next); /* the copies move, and two may go there */
    if (check->announced[place].generation != worker->generation ||
        check->announced[place].step != worker->state.applied_step ||
        check->announced[place].next > next->generation)
        sim_fail(sim, "%s leaves generation %llu after step %llu, which no commit has announced",
                 sim_worker_name(worker), (unsigned long long)worker->generation,
                 (unsigned long long)worker->state.applied_step);
}

void sim_check_confirmed(struct sim *sim, const struct plan *plan)
{
    sim->check->newest.confirmed = MAX(sim->check->newest.confirmed, plan->generation);
}

void sim_check_gives_away(struct sim_worker *worker)
{
    if (worker->generation > worker->sim->check->newest.confirmed)
        sim_fail(worker->sim, "%s settles into generation %llu, which not everybody has begun",
                 sim_worker_name(worker), (unsigned long long)worker->generation);
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (!worker->keeps[unit])
            worker->ledger.kept[unit] = 0;
}

void sim_check_forget(struct sim_worker *worker)
{
    worker->ledger = (struct sim_ledger){.hold_step = 0};
}

void sim_check_missed(struct sim *sim, uint64_t step)
{
    sim->check->missed_ns[MIN(step, (uint64_t)SIM_STEPS_MAX)] = sim->now_ns;
}

/* Check that a part that @worker needs is on no node of its plan, silent nodes included. */
static void check_lost(struct sim *sim, const struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    uint64_t nodes = 0, generation = strtoull(plan->start.restore_sha256, NULL, 16);
    bool all = plan->start.restore_sha256[0] != '\0';
    for (unsigned i = 0; i < plan->checkpoints.copy_node_count; i++)
        nodes |= (uint64_t)1 << sim_node_index(sim, plan->checkpoints.copy_nodes[i].node);
    for (unsigned unit = 0; all && unit < SIM_UNITS; unit++)
        all = !plan_layout_keeps(&plan->layout, worker->rank, unit) ||
              sim_folders_find(sim, nodes, plan->start.resume_step, generation, unit);
    if (all)
        sim_fail(sim,
                 "%s says that the checkpoint of step %llu is lost, but nodes of its plan have it",
                 sim_worker_name(worker), (unsigned long long)plan->start.resume_step);
}

/* Note that nodes that may have a part of the checkpoint do not answer. */
static void note_unread(struct sim *sim, uint64_t step)
{
    uint64_t index = MIN(step, (uint64_t)SIM_STEPS_MAX);
    uint64_t *unread_ns = &sim->check->unread_ns[index];
    if (*unread_ns <= sim->check->recorded_ns[index])
        *unread_ns = sim->now_ns;
}

bool sim_check_is_missed(const struct sim *sim, uint64_t step)
{
    const struct sim_check *check = sim->check;
    uint64_t index = MIN(step, (uint64_t)SIM_STEPS_MAX), recorded_ns = check->recorded_ns[index];
    return check->missed_ns[index] > recorded_ns ||
           (check->unread_ns[index] > recorded_ns &&
            check->unread_ns[index] + TRIED_NS <= sim->now_ns);
}

void sim_check_report(struct sim *sim, const struct sim_worker *worker,
                      const struct worker_report *report)
{
    const struct sim_ledger *ledger = &worker->ledger;
    uint64_t step = worker->state.applied_step;
    if (report->cause == CAUSE_CHECKPOINT_LOST) {
        check_lost(sim, worker);
        sim_check_missed(sim, worker->plan->start.resume_step);
    }
    if (report->cause == CAUSE_CHECKPOINT_AWAY)
        note_unread(sim, worker->plan->start.resume_step);
    for (unsigned unit = 0; step > 0 && unit < SIM_UNITS; unit++)
        if (ledger->kept[unit] == step && !worker->state.units[unit].held)
            sim_fail(sim, "%s gave unit %u of step %llu away before its new owner had committed",
                     sim_worker_name(worker), unit, (unsigned long long)step);
    if (report->holds && (ledger->hold_generation != report->generation ||
                          ledger->hold_step != report->applied_step + 1))
        sim_fail(sim, "%s says that it holds step %llu in generation %llu, but does not",
                 sim_worker_name(worker), (unsigned long long)(report->applied_step + 1),
                 (unsigned long long)report->generation);
}

void sim_check_frame(struct sim *sim, const struct sim_worker *worker, uint64_t generation)
{
    bool ends = worker->mesh && worker->mesh->ends; /* links have the next generation's number */
    if (generation != worker->generation && !(ends && generation == worker->mesh->generation))
        sim_fail(sim, "%s listens in generation %llu to a message of generation %llu",
                 sim_worker_name(worker), (unsigned long long)worker->generation,
                 (unsigned long long)generation);
}

/* A worker at another step than the other workers would wait for them forever. */
static void check_same_step(struct sim *sim, const struct sim_worker *worker)
{
    uint64_t generation = worker->plan->generation, step = worker->state.applied_step;
    struct sim_witness *begun = &sim->check->begun[generation % ARRAY_COUNT(sim->check->begun)];
    if (begun->generation != generation)
        *begun = (struct sim_witness){.generation = generation, .step = step};
    const struct plan *plan = worker->plan;
    if (plan->change.planned ? step < plan->start.resume_step : step != plan->start.resume_step)
        sim_fail(sim, "%s begins generation %llu at step %llu, but its plan says %llu",
                 sim_worker_name(worker), (unsigned long long)generation, (unsigned long long)step,
                 (unsigned long long)plan->start.resume_step);
    if (begun->step != step)
        sim_fail(sim, "%s begins generation %llu at step %llu, others at step %llu",
                 sim_worker_name(worker), (unsigned long long)generation, (unsigned long long)step,
                 (unsigned long long)begun->step);
}

void sim_check_begin(struct sim *sim, const struct sim_worker *worker)
{
    check_same_step(sim, worker);
    if (worker->plan->start.source == PLAN_SOURCE_CHECKPOINT)
        sim->check->unread_ns[MIN(worker->plan->start.resume_step, (uint64_t)SIM_STEPS_MAX)] = 0;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        if (!plan_layout_keeps(&worker->plan->layout, worker->rank, unit))
            continue;
        const struct sim_unit *held = &worker->state.units[unit];
        uint64_t step = worker->state.applied_step;
        const struct sim_unit *right = &sim->check->history[step][unit];
        bool equal = unit_arrivals_is_copy(&worker->handover.arrivals, unit)
                         ? sim_unit_digest(held) == sim_unit_digest(right)
                         : held->hash == right->hash; /* its moments are checked when applied */
        if (!held->held || held->step != step || !equal)
            sim_fail(sim, "%s begins generation %llu at step %llu with unit %u %s",
                     sim_worker_name(worker), (unsigned long long)worker->plan->generation,
                     (unsigned long long)step, unit,
                     !held->held ? "missing" : "at another step or with other bits");
    }
}

void sim_check_begun(struct sim *sim, const struct sim_worker *worker, bool begins)
{
    struct sim_check *check = sim->check;
    const struct plan *plan = worker->plan;
    uint64_t step = worker->state.applied_step;
    struct sim_witness *those = witness_in(check->begins, plan, step);
    struct sim_witness *others = witness_in(check->leaves_out, plan, step);
    (begins ? those : others)->ranks |= (uint64_t)1 << worker->rank;
    if (those->ranks != 0 && others->ranks != 0)
        sim_fail(sim,
                 "generation %llu: some ranks begin a checkpoint of step %llu, and others leave it "
                 "out",
                 (unsigned long long)plan->generation, (unsigned long long)step);
}

void sim_check_checkpoint(struct sim *sim, const struct sim_checkpoint *checkpoint)
{
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        const struct sim_unit *saved = &checkpoint->units[unit];
        if (!saved->held || saved->step != checkpoint->step ||
            sim_unit_digest(saved) != sim_unit_digest(&sim->check->history[checkpoint->step][unit]))
            sim_fail(sim, "the checkpoint of step %llu has unit %u %s",
                     (unsigned long long)checkpoint->step, unit,
                     saved->held ? "with other bits" : "missing");
    }
}

/* ---- detection ---- */

#define SILENCE_MAX_NS (2 * SIM_FAILURE_TIMEOUT)

static void look_for_deaf(void *context)
{
    struct sim *sim = context;
    for (unsigned i = 0; i < sim->worker_count; i++) {
        const struct sim_worker *worker = sim->workers[i];
        if (worker->alive && worker->mesh &&
            worker->pause.until_ns + SILENCE_MAX_NS <= sim->now_ns &&
            sim_mesh_has_dead_link(worker->mesh, sim->now_ns - SILENCE_MAX_NS))
            sim_fail(sim, "%s has not noticed for %.1f s that a peer of generation %llu is dead",
                     sim_worker_name(worker), (double)SILENCE_MAX_NS / 1e9,
                     (unsigned long long)worker->generation);
    }
}

void sim_check_node_died(struct sim *sim)
{
    sim_post(sim, sim->now_ns + SILENCE_MAX_NS + 1, NULL, look_for_deaf, sim);
}

/* ---- training without the store ---- */

#define OUTAGE_LEAST_NS (3 * NS_PER_SECOND)
#define SETTLED_NS      (10 * NS_PER_SECOND) /* since the last disturbance */
#define STEP_MAX_NS     (2 * NS_PER_SECOND)  /* undisturbed, a switch of layouts included */

static uint64_t step_max_ns(const struct sim *sim)
{
    return STEP_MAX_NS + sim_scale_beyond_ns(sim);
}

void sim_check_outage_begins(struct sim *sim)
{
    struct sim_faults *faults = sim->faults;
    /* After lost answers, one node's lease may be older than its neighbour knows. */
    bool settled = sim->check->commits > 0 && faults->disturbing == 0 && !sim->store->down &&
                   sim->store->late_requests_percent == 0 &&
                   (faults->disturbed_ns == 0 || faults->disturbed_ns + SETTLED_NS < sim->now_ns) &&
                   sim->check->committed_ns + step_max_ns(sim) > sim->now_ns;
    faults->outage_ns = settled ? sim->now_ns : 0;
}

/* Return whether one node trains alone and reaches no other node: it cannot know that etcd is away
 * for the other nodes too. */
static bool trains_cut_off(const struct sim *sim)
{
    const struct sim_worker *first = NULL;
    for (unsigned i = 0; i < sim->worker_count; i++) {
        const struct sim_worker *worker = sim->workers[i];
        if (!worker->alive || !worker->engine ||
            worker->generation != sim->check->committing_generation)
            continue;
        if (first && first->node != worker->node)
            return false;
        first = worker;
    }
    for (unsigned i = 0; first && i < sim->node_count; i++)
        if (i != first->node && sim->nodes[i].firnd && sim_reachable(sim, first->node, i))
            return false;
    return first;
}

void sim_check_outage_ends(struct sim *sim)
{
    struct sim_faults *faults = sim->faults;
    const struct sim_check *check = sim->check;
    uint64_t began_ns = faults->outage_ns;
    faults->outage_ns = 0; /* the first of two overlapping outages to end ends both */
    if (began_ns == 0 || faults->disturbing > 0 || faults->disturbed_ns > began_ns ||
        sim->now_ns < began_ns + OUTAGE_LEAST_NS || trains_cut_off(sim) || check->pace.rests ||
        check->committed_step == sim->spec.train.steps)
        return;
    if (check->committed_ns + step_max_ns(sim) < sim->now_ns)
        sim_fail(sim, "without etcd no step was committed for %.1f s (step %llu)",
                 (double)(sim->now_ns - check->committed_ns) / 1e9,
                 (unsigned long long)check->committed_step);
}

/* ---- the end ---- */

static bool is_complete(const struct sim *sim)
{
    char key[KV_KEY_MAX];
    const struct sim_store_key *state =
        sim_store_find(sim->store, keys_said(key, SIM_CLUSTER, SIM_JOB, "state"));
    return state && (strstr(state->value, "\"completed\"") ||
                     (sim_input_ended(sim) && strstr(state->value, "\"failed\"")));
}

/* Return the number of workers that own @unit in the generation that commits. */
static unsigned owners_of(const struct sim *sim, unsigned unit)
{
    unsigned owners = 0;
    for (unsigned i = 0; i < sim->worker_count; i++) {
        const struct sim_worker *worker = sim->workers[i];
        owners += worker->alive && worker->engine && unit >= worker->first_unit &&
                  worker->generation == sim->check->committing_generation &&
                  unit < worker->first_unit + worker->unit_count && worker->state.units[unit].held;
    }
    return owners;
}

/* The job waits for two needed workers that have lost each other for good before it goes back. They
 * may find out about each other in two generations before that. */
static uint64_t stall_max_ns(const struct sim *sim)
{
    uint64_t once_ns = STALL_MAX_NS + LONG_STEPS * sim_scale_long_step_ns(sim) +
                       2 * sim_scale_start_max_ns(sim) + sim_scale_evaluation_max_ns(sim);
    return sim_cuts_pairs_apart(sim) ? 3 * once_ns : once_ns;
}

/* A wrong bit that is found without other faults ends the workers that hold it, after all workers
 * have left the step: another generation is about to begin. */
static bool has_lost_worker(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->worker_count; i++) {
        const struct sim_worker *worker = sim->workers[i];
        if (worker->alive ? worker->phase == WORKER_STUCK &&
                                worker->generation == sim->check->committing_generation
                          : worker->died_ns + stall_max_ns(sim) > sim->now_ns)
            return true;
    }
    return false;
}

/* Check that after a while without changes, as many workers own each unit as there are replicas. */
static void check_owners(struct sim *sim)
{
    const struct sim_check *check = sim->check;
    if (check->newest.at_ns + QUIET_NS > sim->now_ns ||
        check->committed_ns + step_max_ns(sim) < sim->now_ns ||
        check->newest.generation != check->committing_generation ||
        check->committed_step == sim->spec.train.steps || has_lost_worker(sim))
        return;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (owners_of(sim, unit) != check->replicas)
            sim_fail(sim, "unit %u has %u owners in generation %llu of %u replicas", unit,
                     owners_of(sim, unit), (unsigned long long)check->newest.generation,
                     check->replicas);
}

static unsigned slots_out(const struct sim *sim)
{
    unsigned count = 0;
    for (unsigned i = 0; i < sim->node_count; i++) {
        const struct sim_firnd *firnd = sim->nodes[i].firnd;
        for (unsigned slot = 0; firnd && slot < firnd->daemon.node.self.slot_count; slot++)
            count += firnd->daemon.node.self.slots[slot].bad[0] != '\0';
    }
    return count;
}

/* Slots whose workers died repeatedly return to service by themselves, but not at once. */
uint64_t sim_check_slots_back_ns(const struct sim *sim)
{
    uint64_t back_ns = sim->faults->slots_back_ns;
    for (unsigned i = 0; i < sim->node_count; i++) {
        const struct sim_firnd *firnd = sim->nodes[i].firnd;
        for (unsigned slot = 0; firnd && slot < firnd->daemon.node.self.slot_count; slot++)
            if (firnd->daemon.node.self.slots[slot].retry_unix_ns != 0)
                back_ns =
                    MAX(back_ns, firnd->daemon.node.self.slots[slot].retry_unix_ns + NS_PER_SECOND);
    }
    return back_ns;
}

bool sim_check_liveness(struct sim *sim, uint64_t calm_since_ns)
{
    struct sim_check *check = sim->check;
    /* A job may need slots that are still out of service. */
    if (slots_out(sim) > 0)
        check->slots_out_ns = MIN(sim->now_ns, sim_check_slots_back_ns(sim));
    calm_since_ns = MAX(calm_since_ns, check->slots_out_ns);
    uint64_t last_ns = MAX(check->committed_ns, calm_since_ns);
    if (is_complete(sim))
        return true;
    if (sim->now_ns > calm_since_ns + QUIET_NS) {
        check_owners(sim);
        sim_check_idle(sim);
        sim_check_causes(sim);
    }
    check->longest_wait_ns = MAX(check->longest_wait_ns, sim->now_ns - last_ns);
    if (sim->now_ns > last_ns + stall_max_ns(sim))
        sim_fail(sim, "no step was committed for %llu s with all faults over (step %llu of %llu)",
                 (unsigned long long)(stall_max_ns(sim) / NS_PER_SECOND),
                 (unsigned long long)check->committed_step,
                 (unsigned long long)sim->spec.train.steps);
    if (sim->now_ns > calm_since_ns + END_MAX_NS +
                          sim->spec.train.steps * sim_scale_beyond_ns(sim) +
                          4 * sim_scale_start_max_ns(sim))
        sim_fail(sim, "the job does not come to its end (step %llu of %llu)",
                 (unsigned long long)check->committed_step,
                 (unsigned long long)sim->spec.train.steps);
    return false;
}

void sim_check_end(struct sim *sim)
{
    if (slots_out(sim) > 0)
        sim_fail(sim, "%u slots stay out of service", slots_out(sim));
    if (!sim_input_ended(sim) && sim_check_newest_record(sim) != sim->spec.train.steps)
        sim_fail(sim, "the job is complete, but its last checkpoint is of step %llu",
                 (unsigned long long)sim_check_newest_record(sim));
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (sim->workers[i]->alive)
            sim_fail(sim, "%s still runs after the job's end%s", sim_worker_name(sim->workers[i]),
                     sim->workers[i]->unlinked ? ", and nobody can find it" : "");
}
