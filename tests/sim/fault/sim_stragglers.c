#include "sim/fault/sim_stragglers.h"

#include <string.h>

#include "base/json.h"
#include "membership/kv/keys.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_faults.h"
#include "sim/node/sim_node.h"
#include "sim/node/sim_store.h"

#define EVICTING_PERCENT 20 /* of all jobs */
#define ALONE_PERCENT    50 /* of these histories: no other fault */
#define ONE_PERCENT      70 /* of the histories without other faults: one slot is slow, once */
#define SPELLS_MAX       3
#define FACTOR           3.0 /* steps vary by two, see sim_straggler_compute() */
#define STEPS            8
#define SLOWNESS_LEAST   5
#define SLOWNESS_SPREAD  4
#define FIRST_NS         (4 * NS_PER_SECOND)
#define GAP_NS           (15 * NS_PER_SECOND)
#define LEAST_MS         2000
#define MOST_MS          90000

/*
 * A slot that is found slow for the first time counts as slow for this long, even if it recovers.
 */
#define TERM_NS (40 * SIM_FAILURE_TIMEOUT)

/* Time from a judgement to its plan: progress once a second, the leader's decision, the start of a
 * process, and the switch. */
#define CHANGE_NS (8 * NS_PER_SECOND)

struct spell {
    struct sim *sim;
    unsigned node, slot, slowness;
    uint64_t begin_ns, end_ns;
    bool at_stake; /* the plan did not need the slot when the spell began */
};

struct sim_stragglers {
    bool alone;
    unsigned count;
    struct spell spells[SPELLS_MAX];
};

void sim_stragglers_draw(struct sim *sim)
{
    sim->stragglers = sim_allocate(1, sizeof(*sim->stragglers));
    bool other_bug =
        sim->bug != BUG_NONE && sim->bug != BUG_KEPT_STRAGGLER && sim->bug != BUG_WRONG_STRAGGLER;
    /* Planted bugs of other rules keep their histories unchanged. */
    if (other_bug || !sim_chance(sim, STREAM_STRAGGLERS, EVICTING_PERCENT))
        return;
    sim->spec.elastic.evict_stragglers.factor = FACTOR;
    sim->spec.elastic.evict_stragglers.steps = STEPS;
    sim->stragglers->alone = sim_chance(sim, STREAM_STRAGGLERS, ALONE_PERCENT);
}

bool sim_stragglers_alone(const struct sim *sim)
{
    return sim->stragglers->alone;
}

void sim_stragglers_free(struct sim *sim)
{
    free(sim->stragglers);
}

/* ---- slow slots ---- */

static const struct spell *spell_at(const struct sim *sim, unsigned node, unsigned slot)
{
    for (unsigned i = 0; sim->stragglers && i < sim->stragglers->count; i++) {
        const struct spell *spell = &sim->stragglers->spells[i];
        if (spell->node == node && spell->slot == slot && spell->begin_ns <= sim->now_ns &&
            sim->now_ns < spell->end_ns)
            return spell;
    }
    return NULL;
}

/* All lanes take equally long; together they take one step of this job. */
uint64_t sim_straggler_compute(struct sim_worker *worker)
{
    struct sim *sim = worker->sim;
    const struct plan *plan = worker->plan;
    double lanes =
        plan_layout_lanes_computed(&plan->layout, worker->rank / plan->layout.stage_count);
    const struct spell *spell = spell_at(sim, worker->node, worker->slot);
    uint64_t drawn_us =
        sim->compute_us / 2 + sim_random(sim, STREAM_STRAGGLERS, sim->compute_us / 2);
    worker->computed_ns = (uint64_t)((double)(drawn_us * 1000 * plan->layout.replica_count) *
                                     lanes / SIM_LANES * (spell ? spell->slowness : 1));
    return worker->computed_ns;
}

void sim_straggler_watch(struct sim_worker *worker)
{
    double factor = worker->sim->spec.elastic.evict_stragglers.factor;
    straggler_free(worker->straggler);
    worker->straggler = NULL;
    if (worker->rank == 0 && factor > 0 &&
        straggler_new(worker->plan, factor, worker->sim->spec.elastic.evict_stragglers.steps,
                      &worker->straggler) < 0)
        abort();
}

void sim_straggler_tell(const struct sim_worker *root, struct control_progress *progress)
{
    if (!root->straggler || root->sim->bug == BUG_KEPT_STRAGGLER)
        return;
    progress->judgement_count = straggler_judgements(root->straggler, progress->judgements);
    for (unsigned i = 0; root->sim->bug == BUG_WRONG_STRAGGLER && i < progress->judgement_count;
         i++)
        progress->judgements[i].rank =
            (progress->judgements[i].rank + 1) % root->plan->layout.worker_count;
}

/* ---- check the reaction ---- */

static bool was_slow(const struct sim *sim, const struct plan_slow *slow)
{
    for (unsigned i = 0; i < sim->stragglers->count; i++) {
        const struct spell *spell = &sim->stragglers->spells[i];
        if (strcmp(sim_node_name(sim, spell->node), slow->node) == 0 && spell->slot == slow->slot &&
            spell->begin_ns <= sim->now_ns)
            return true;
    }
    return false;
}

void sim_check_accused(struct sim *sim, const struct plan *plan)
{
    for (unsigned i = 0; sim->stragglers && i < plan->slow_count; i++)
        if (!was_slow(sim, &plan->slow[i]))
            sim_fail(sim, "generation %llu takes %s/%u for slow, which never was",
                     (unsigned long long)plan->generation, plan->slow[i].node, plan->slow[i].slot);
}

static struct plan *plan_in_force(const struct sim *sim)
{
    char key[KV_KEY_MAX];
    const struct sim_store_key *entry =
        sim_store_find(sim->store, keys_job(key, SIM_CLUSTER, SIM_JOB, "generation"));
    AUTO_JSON json_t *tree = NULL;
    struct plan *plan = NULL;
    if (!entry || json_parse(entry->value, strlen(entry->value), "a plan", &tree, NULL) < 0 ||
        plan_decode(tree, &plan, NULL) < 0)
        return NULL;
    return plan;
}

/* Return the number of lanes of the slot's worker; 0: none. */
static double lanes_of(const struct plan *plan, const char *node, unsigned slot)
{
    int rank = plan_layout_find(&plan->layout, node, slot);
    if (rank < 0 || (unsigned)rank >= plan->layout.worker_count)
        return 0;
    return plan_layout_lanes_computed(&plan->layout, (unsigned)rank / plan->layout.stage_count);
}

/* Return whether other slots are slow, or were within the term: a recovery counts only after it. */
static bool others_are_slow(const struct spell *spell)
{
    for (unsigned i = 0; i < spell->sim->stragglers->count; i++) {
        const struct spell *other = &spell->sim->stragglers->spells[i];
        if (other != spell && other->begin_ns < spell->end_ns &&
            spell->begin_ns < other->end_ns + TERM_NS)
            return true;
    }
    return false;
}

/*
 * Every slot is a replica, and there are at least two: leaving one out costs less than keeping it.
 */
static void begin_spell(void *context)
{
    struct spell *spell = context;
    struct sim *sim = spell->sim;
    struct plan *plan = plan_in_force(sim);
    const char *node = sim_node_name(sim, spell->node);
    sim_trace(sim, "SLOW  %s/%u computes %u times slower until %.3f", node, spell->slot,
              spell->slowness, (double)spell->end_ns / 1e9);
    spell->at_stake = plan && sim->stragglers->alone && !others_are_slow(spell) &&
                      plan->layout.stage_count == 1 && plan->layout.replica_count >= 2 &&
                      sim->check->committing_generation == plan->generation &&
                      lanes_of(plan, node, spell->slot) > 0;
    plan_free(plan);
}

/* Return the time of two windows and the first step at the slow slot's speed, plus the reaction. */
static uint64_t bound_ns(const struct spell *spell)
{
    uint64_t step_ns = spell->sim->compute_us * 1000 * spell->slowness * 2 + 100 * NS_PER_MS;
    return (2ull * STEPS + 2) * step_ns + CHANGE_NS;
}

/*
 * Return since when the slot has been slow with nothing else going on. Without a live daemon no
 * plan is made, and the slots of a daemon that has just begun have a clean slate.
 */
static uint64_t undisturbed_since_ns(const struct spell *spell)
{
    uint64_t since_ns = spell->begin_ns;
    for (unsigned i = 0; i < spell->sim->node_count; i++)
        since_ns = MAX(since_ns, spell->sim->nodes[i].disturbed_ns);
    return since_ns;
}

/* If nodes have lost each other meanwhile, the plan in force may not train yet, or the leader may
 * not yet know its slow slot again. */
static void look_after_bound(void *context)
{
    struct spell *spell = context;
    struct sim *sim = spell->sim;
    uint64_t due_ns = undisturbed_since_ns(spell) + bound_ns(spell);
    if (due_ns > sim->now_ns) {
        if (due_ns < spell->end_ns)
            sim_post(sim, due_ns, NULL, look_after_bound, spell);
        return;
    }
    struct plan *plan = plan_in_force(sim);
    const char *node = sim_node_name(sim, spell->node);
    if (spell->at_stake && !sim_cuts_pairs_apart(sim) && plan && plan->layout.stage_count == 1 &&
        plan->layout.replica_count >= 2 && sim->check->committed_step < sim->spec.train.steps &&
        lanes_of(plan, node, spell->slot) * plan->layout.replica_count > SIM_LANES - 0.001)
        sim_fail(sim,
                 "%s/%u has been %u times slower than its peers for %.1f s and still has its "
                 "whole share of the lanes",
                 node, spell->slot, spell->slowness, (double)(sim->now_ns - spell->begin_ns) / 1e9);
    plan_free(plan);
}

static void add_spell(struct sim *sim, uint64_t begin_ns)
{
    struct spell *spell = &sim->stragglers->spells[sim->stragglers->count++];
    spell->sim = sim;
    spell->node = (unsigned)sim_random(sim, STREAM_STRAGGLERS, sim->node_count);
    spell->slot = (unsigned)sim_random(sim, STREAM_STRAGGLERS, sim->nodes[spell->node].slot_count);
    spell->slowness =
        SLOWNESS_LEAST + (unsigned)sim_random(sim, STREAM_STRAGGLERS, SLOWNESS_SPREAD);
    spell->begin_ns = begin_ns;
    spell->end_ns =
        begin_ns + (LEAST_MS + sim_random(sim, STREAM_STRAGGLERS, MOST_MS - LEAST_MS)) * NS_PER_MS;
    sim->faults->over_ns = MAX(sim->faults->over_ns, spell->end_ns);
    sim_post(sim, begin_ns, NULL, begin_spell, spell);
    if (begin_ns + bound_ns(spell) < spell->end_ns)
        sim_post(sim, begin_ns + bound_ns(spell), NULL, look_after_bound, spell);
}

void sim_stragglers_begin(struct sim *sim)
{
    uint64_t at_ns = FIRST_NS;
    if (sim->spec.elastic.evict_stragglers.factor == 0)
        return;
    uint64_t count = 1 + sim_random(sim, STREAM_STRAGGLERS, SPELLS_MAX);
    if (sim->stragglers->alone && sim_chance(sim, STREAM_STRAGGLERS, ONE_PERCENT))
        count = 1;
    for (uint64_t i = 0; i < count; i++) {
        at_ns += sim_random(sim, STREAM_STRAGGLERS, count > 1 ? GAP_NS : NS_PER_SECOND);
        add_spell(sim, at_ns);
    }
}
