/*
 * A step that continues in another generation: the real division (protocol/division_round.h), as
 * worker/step/kept_step.c, worker/session/step_agreement.c and worker/session/step_watch.c use it.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/timeouts.h"
#include "elastic/plan/commit_tree.h"
#include "elastic/plan/early_switch.h"
#include "sim/check/sim_check.h"
#include "sim/node/sim_node.h"
#include "sim/worker/sim_bits.h"
#include "sim/worker/sim_worker.h"

#define LOOK_LEAST_NS   NS_PER_MS
#define LOOK_WAITING_NS (100 * NS_PER_MS)

static unsigned micro_batches(const struct sim_worker *worker) /* of a lane */
{
    return worker->sim->spec.train.micro_batches_per_lane;
}

static uint64_t next_step(const struct sim_worker *worker)
{
    return worker->state.applied_step + 1;
}

static unsigned replica_of(const struct sim_worker *worker)
{
    return worker->rank / worker->plan->layout.stage_count;
}

void sim_division_find(const struct sim_worker *worker, struct step_division *ret_division)
{
    step_division_plan(&worker->plan->layout, SIM_LANES, micro_batches(worker), ret_division);
    if (worker->share.division.step != next_step(worker))
        return;
    *ret_division = worker->share.division;
}

unsigned sim_division_left(const struct sim_worker *worker)
{
    struct step_division division;
    sim_division_find(worker, &division);
    return step_division_left(&division, replica_of(worker));
}

double sim_division_share(const struct sim_worker *worker)
{
    return (double)sim_division_left(worker) / (SIM_LANES * micro_batches(worker));
}

bool sim_division_owns(const struct sim_worker *worker, unsigned lane)
{
    struct step_division division;
    sim_division_find(worker, &division);
    return division.owners[lane] == replica_of(worker);
}

/* ---- the kept step ---- */

/* Return how many micro-batches of this replica the worker has computed since the step began here.
 */
static unsigned count_done(const struct sim_worker *worker, unsigned left)
{
    const struct sim_share *share = &worker->share;
    if (worker->point != POINT_FORWARD)
        return left;
    if (share->until_ns <= share->from_ns)
        return 0;
    uint64_t end_ns = MIN(worker->sim->now_ns, worker->busy_until_ns); /* it may be interrupted */
    unsigned done =
        (unsigned)(left * (end_ns - share->from_ns) / (share->until_ns - share->from_ns));
    return MIN(done, left - sim_relay_rest(worker));
}

/* Find the subtrees of this replica's complete lanes. */
static void find_spans(const struct step_division *division, unsigned replica,
                       struct lane_fact *facts)
{
    struct lane_tree_part parts[SIM_LANES];
    uint16_t groups[SIM_LANES];
    for (unsigned lane = 0; lane < SIM_LANES; lane++) {
        bool own = division->owners[lane] == replica;
        groups[lane] = own && facts[lane].micro_batches == division->micro_batches ? UINT16_MAX : 0;
        if (facts[lane].micro_batches > 0) /* of another replica's lane: a head */
            facts[lane].span = (struct lane_tree_span){lane, 1};
    }
    unsigned count = lane_tree_parts(SIM_LANES, groups, parts);
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; parts[i].owner == UINT16_MAX && k < parts[i].span.count; k++)
            facts[parts[i].span.first + k].span = parts[i].span;
}

void sim_division_done(const struct sim_worker *worker, struct sim_kept *ret_kept)
{
    struct lane_run runs[LANE_TREE_LANES_MAX + 1];
    struct step_division division;
    sim_division_find(worker, &division);
    unsigned replica = replica_of(worker), count = step_division_runs(&division, replica, runs);
    unsigned done = count_done(worker, step_division_left(&division, replica));
    *ret_kept = (struct sim_kept){.step = next_step(worker),
                                  .first_unit = worker->first_unit,
                                  .unit_count = worker->unit_count};
    for (unsigned lane = 0; lane < SIM_LANES; lane++)
        if (sim_relay_has_head(worker, lane))
            ret_kept->lanes[lane].micro_batches = division.heads[lane];
        else if (step_division_first(&division, lane) == replica)
            ret_kept->lanes[lane].micro_batches = division.starts[lane];
    for (unsigned i = 0; i < count && done > 0; i++) {
        unsigned part = MIN(done, runs[i].end - runs[i].start);
        ret_kept->lanes[runs[i].lane].micro_batches += part;
        done -= part;
    }
    for (unsigned lane = 0; lane < SIM_LANES; lane++)
        if (sim_sums_misses(worker, lane))
            ret_kept->lanes[lane].micro_batches = 0;
    find_spans(&division, replica, ret_kept->lanes);
}

void sim_division_keep(struct sim_worker *worker)
{
    if (!worker->engine || worker->point < POINT_FORWARD || worker->point > POINT_REDUCE)
        return;
    sim_division_done(worker, &worker->share.kept);
}

/* Return whether the worker computes micro-batches, of a step or of the finished model's
 * evaluation. */
static bool computes(const struct sim_worker *worker)
{
    return (worker->point == POINT_FORWARD || worker->point == POINT_EVALUATE) &&
           worker->busy_until_ns > worker->sim->now_ns;
}

uint64_t sim_division_operation_ns(const struct sim_worker *worker)
{
    uint64_t whole_ns = worker->share.until_ns - worker->share.from_ns;
    if (session_is_evaluating(worker)) /* a micro-batch has no more samples than that of a step */
        whole_ns = worker->sim->compute_us * NS_PER_US;
    return MAX((uint64_t)1, whole_ns / MAX(1u, sim_division_left(worker)));
}

uint64_t sim_division_longest_ns(const struct sim *sim)
{
    uint64_t longest_ns = 0;
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (sim->workers[i]->alive && sim->workers[i]->engine && sim->workers[i]->plan)
            longest_ns = MAX(longest_ns, sim_division_operation_ns(sim->workers[i]));
    return longest_ns;
}

void sim_division_interrupt(struct sim_worker *worker)
{
    const struct sim *sim = worker->sim;
    if (!worker->alive || !computes(worker))
        return;
    uint64_t each_ns = sim_division_operation_ns(worker);
    uint64_t begun = (sim->now_ns - worker->share.from_ns + each_ns - 1) / each_ns;
    worker->busy_until_ns = MIN(worker->busy_until_ns, worker->share.from_ns + begun * each_ns);
    sim_cancel(worker->sim, worker->wake);
    worker->wake = NULL;
}

/* ---- the agreement ---- */

static void begin_session(struct sim_worker *worker)
{
    session_begin(worker);
    handover_tell(worker);
}

void sim_division_begin(struct sim_worker *worker)
{
    worker->share.division.step = 0;
    if (worker->plan->start.source != PLAN_SOURCE_MEMORY)
        sim_division_forget(
            worker); /* the round replaces that of the data, and gathers all ranks */
    sim_sums_begin(worker);
    worker_go(worker, POINT_OFFERS);
}

static void begin_round(struct sim_worker *worker)
{
    struct sim_rounds *rounds = &worker->rounds;
    const struct division_question question = {.layout = &worker->plan->layout,
                                               .rank = worker->rank,
                                               .step = next_step(worker),
                                               .lanes = SIM_LANES,
                                               .micro_batches = micro_batches(worker)};
    struct step_facts facts = sim_sums_facts(worker);
    division_round_done(&rounds->division);
    rounds->tree =
        (struct sim_tree){.part_tag = SIM_FACTS, .answer_tag = SIM_DIVISION, .step = question.step};
    if (division_round_begin(&rounds->division, &rounds->tree.round, &question, &facts))
        abort();
    worker_go(worker, POINT_FACTS);
}

/* Return whether the wait with @status is over; otherwise the worker waits, or its links broke. */
static bool passes(struct sim_worker *worker, int status)
{
    if (status && status != -EAGAIN)
        worker_broken(worker, status);
    return !status;
}

bool sim_division_at_offers(struct sim_worker *worker)
{
    int status = sim_sums_take_offers(worker);
    if (passes(worker, status))
        begin_round(worker);
    return status != -EAGAIN && worker->alive;
}

bool sim_division_at_facts(struct sim_worker *worker)
{
    int status = sim_tree_run(worker, TREE_DECIDE);
    if (passes(worker, status))
        worker_go(worker, POINT_DIVISION);
    return status != -EAGAIN && worker->alive;
}

bool sim_division_at_division(struct sim_worker *worker)
{
    const struct step_division *division = &worker->rounds.division.division;
    int status = sim_tree_run(worker, TREE_DONE);
    if (!passes(worker, status))
        return status != -EAGAIN && worker->alive;
    worker->share.division = *division;
    if (division->step && worker->rank == 0)
        sim_trace(worker->sim, "  step %llu goes on with %u of %u micro-batches",
                  (unsigned long long)division->step,
                  SIM_LANES * micro_batches(worker) - step_division_left(division, UINT_MAX),
                  SIM_LANES * micro_batches(worker));
    sim_sums_settle(worker, division);
    worker_go(worker, POINT_WANTED);
    return true;
}

bool sim_division_at_wanted(struct sim_worker *worker)
{
    int status = sim_sums_take_wanted(worker);
    if (passes(worker, status))
        begin_session(worker);
    return status != -EAGAIN && worker->alive;
}

/* ---- a change within the step ---- */

static struct sim_worker *worker_of(const struct sim_worker *root, unsigned rank)
{
    const struct plan_worker *at = &root->plan->layout.workers[rank];
    return sim_worker_at(root->sim, sim_node_index(root->sim, at->node), at->slot);
}

/* Return whether @other is in the same step, or in the same evaluation, as @root. */
static bool is_in_the_same(const struct sim_worker *root, const struct sim_worker *other)
{
    return other->generation == root->generation && other->stay.plan &&
           other->state.applied_step == root->state.applied_step &&
           session_is_evaluating(other) == session_is_evaluating(root);
}

/* Return whether all ranks have the plan and are in rank 0's step, so they have the commit of the
 * step before. */
static bool all_have(const struct sim_worker *root, uint64_t generation)
{
    for (unsigned rank = 0; rank < root->plan->layout.worker_count; rank++) {
        const struct sim_worker *other = worker_of(root, rank);
        if (!other || other->announced != generation || !is_in_the_same(root, other) ||
            !unit_arrivals_are_complete(&other->handover.arrivals) || !sim_sums_have_arrived(other))
            return false;
    }
    for (unsigned rank = 0; rank < root->plan->layout.worker_count; rank++) {
        struct sim_worker *other = worker_of(root, rank);
        worker_messages(other);
        pending_plan_tell(&other->pending, generation);
    }
    return true;
}

/* Return whether the worker computes its part of a step, or of the finished model's evaluation, or
 * waits for others' parts. */
static bool is_in_step(const struct sim_worker *worker)
{
    bool computes_step = worker->point >= POINT_FORWARD && worker->point <= POINT_SHADOW;
    bool evaluates = session_is_evaluating(worker) && worker->point != POINT_ASK &&
                     worker->sim->bug != BUG_DEAF_EVALUATION;
    return worker->alive && worker->engine && worker->mesh &&
           worker->mesh->state == SIM_MESH_OPEN && (computes_step || evaluates);
}

/* Return whether rank 0 can break the links for the next generation. BUG_HASTY_NEWCOMER shows only
 * if newcomers wait for the end of a long step. */
static bool may_decide(const struct sim_worker *root)
{
    const struct sim *sim = root->sim;
    return sim->bug != BUG_HASTY_NEWCOMER && root->rank == 0 && is_in_step(root) &&
           root->pause.until_ns <= sim->now_ns && root->announced > root->generation;
}

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / NS_PER_SECOND : 0;
}

/* The end is near with as many micro-batches left as stages. */
static bool is_near_end(const struct sim_worker *root)
{
    return !computes(root) ||
           (root->share.until_ns - root->sim->now_ns) / sim_division_operation_ns(root) <=
               root->plan->layout.stage_count;
}

static void decide(struct sim_worker *root)
{
    const struct sim *sim = root->sim;
    if (!may_decide(root) || !all_have(root, root->announced))
        return;
    const struct plan *next = root->pending.plan;
    bool evaluates = session_is_evaluating(root);
    const struct early_switch step = {
        .passed_seconds = seconds(root->share.from_ns, sim->now_ns),
        .left_seconds = seconds(sim->now_ns, root->share.until_ns),
        .pause_seconds = next ? next->change.switch_seconds : 0,
        .waited_seconds = sim->bug == BUG_PATIENT_SWITCH
                              ? -INFINITY
                              : seconds(root->share.announced_ns, sim->now_ns),
        .kept = next && !evaluates ? early_switch_kept(&root->plan->layout, next) : 0,
        .near_end = !evaluates && is_near_end(root),
        .ends = evaluates,
    };
    if (next && next->generation == root->announced &&
        early_switch_begins(root->plan, next, &step)) {
        sim_check_announced(root->sim, root->generation, root->state.applied_step,
                            next->generation);
        sim_mesh_leave_for(root->mesh, next->generation);
    }
}

/* ---- between two micro-batches ---- */

static bool has_cause_to_look(const struct sim_worker *worker)
{
    return (is_in_step(worker) && sim_vote_is_watched(worker)) || may_decide(worker);
}

static void look(void *context)
{
    struct sim_worker *worker = context;
    worker->share.looks = false;
    if (is_in_step(worker) && sim_vote_is_watched(worker))
        sim_vote_look(worker);
    decide(worker);
    sim_division_watch(worker);
}

void sim_division_watch(struct sim_worker *worker)
{
    const struct sim *sim = worker->sim;
    if (worker->share.looks || !has_cause_to_look(worker))
        return;
    worker->share.looks = true;
    uint64_t each_ns = computes(worker) ? sim_division_operation_ns(worker) : LOOK_WAITING_NS;
    sim_post(worker->sim, sim->now_ns + MAX(LOOK_LEAST_NS, each_ns), &worker->pause, look, worker);
}

void sim_division_forget(struct sim_worker *worker)
{
    worker->share.kept.step = 0;
    sim_copies_forget(worker);
}

void sim_division_announced(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    if (!worker->engine || !plan || !worker->mesh)
        return;
    const struct plan_worker *first = &plan->layout.workers[0];
    struct sim_worker *root =
        sim_worker_at(worker->sim, sim_node_index(worker->sim, first->node), first->slot);
    if (!root || root->generation != worker->generation)
        return;
    decide(root);
    sim_division_watch(root);
}

bool sim_division_leaves(struct sim_worker *worker)
{
    uint64_t early = worker->mesh ? worker->mesh->early : 0;
    bool blind = worker->sim->bug == BUG_BLIND_SWITCH && worker->announced > worker->generation &&
                 worker->stay.announced != worker->announced; /* only once: links stay broken */
    if (!worker->engine || !worker->stay.plan || worker->stay.action > STAY_EVALUATE ||
        (!blind && early <= worker->generation))
        return false;
    worker->share.turn_ns = sim_division_operation_ns(worker);
    stay_left(&worker->stay, blind ? worker->announced : early);
    session_await_plan(worker);
    return true;
}
