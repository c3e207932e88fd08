/*
 * A cluster from a seed, and its life: nodes come up, a job is submitted, faults strike, faults
 * end, the job ends.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "elastic/planner/planner_time.h"
#include "elastic/planner/process_memory.h"
#include "membership/kv/keys.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_faults.h"
#include "sim/fault/sim_notices.h"
#include "sim/fault/sim_stragglers.h"
#include "sim/node/sim_node.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_bits.h"
#include "sim/worker/sim_input.h"

#define LOOK_NS          NS_PER_SECOND
#define AFTERMATH_NS     (40 * NS_PER_SECOND) /* for workers that are ordered to stop */
#define EVENTS_MAX       2000000
#define STEPS_LEAST      30
#define CHECKPOINT_EVERY 100
#define STEPS_SPREAD     300

#define LINKS_AT_FIRST 2 /* link protocol of the first programs of a run */
#define UPGRADED_ONE_IN                                                                            \
    5 /* runs in which an upgraded firnd has another link protocol from then on                    \
       */
#define UPGRADED_SALT 0x6c696e6b73
/* These two salts change no history that is kept as a test. */
#define THAW_SALT            0x18963
#define EVALUATED_SALT       0x479
#define EVALUATED_ONE_IN     4
#define THAW_ONE_IN          3 /* of the histories that freeze */
#define ONE_FAULT_PERCENT    3
#define ONE_FAULT_COMPUTE_US 100000

struct sim *sim_now;

const struct sim_broken_rule sim_broken_rules[BUG_COUNT] = {
    [BUG_NONE] = {"none", 0},
    [BUG_APPLY_WITHOUT_COMMIT] = {"apply-without-commit", 1},
    [BUG_COMMIT_WITHOUT_HOLDS] = {"commit-without-holds", 1},
    [BUG_DROP_BEFORE_COMMIT] = {"drop-before-commit", 8},
    [BUG_OLD_FRAMES] = {"old-frames", 68},
    [BUG_OLD_CHECKPOINT] = {"old-checkpoint", 8},
    [BUG_UNGUARDED_LEADER] = {"unguarded-leader", 22},
    [BUG_IGNORED_HOLD] = {"ignored-hold", 857},
    [BUG_SILENT_AGENT] = {"silent-agent", 4},
    [BUG_MOVE_OF_OTHER_STEP] = {"move-of-other-step", 17},
    [BUG_SWITCH_WITHOUT_FLAG] = {"switch-without-flag", 8},
    [BUG_KEPT_GRADIENTS] = {"kept-gradients", 23},
    [BUG_CHECKPOINT_NOT_DURABLE] = {"checkpoint-not-durable", 1},
    [BUG_HOLD_BEFORE_REDUCE] = {"hold-before-reduce", 1},
    [BUG_OTHER_CHECKPOINT] = {"other-checkpoint", 1},
    [BUG_LATE_WORKER] = {"late-worker", 278},
    [BUG_DEAF_LINKS] = {"deaf-links", 7},
    [BUG_WAITS_FOR_ETCD] = {"waits-for-etcd", 261},
    [BUG_KEPT_STRAGGLER] = {"kept-straggler", 382},
    [BUG_WRONG_STRAGGLER] = {"wrong-straggler", 4},
    [BUG_PARTIAL_LEADER] = {"partial-leader", 1},
    [BUG_HOLD_BEFORE_SHADOW] = {"hold-before-shadow", 9},
    [BUG_UNTOLD_SHADOW] = {"untold-shadow", 30},
    [BUG_DROPPED_SHADOW] = {"dropped-shadow", 30},
    [BUG_STALE_SHADOW] = {"stale-shadow", 9},
    [BUG_CLAIMED_COPIES] = {"claimed-copies", 2},
    [BUG_PLACED_UNHEARD] = {"placed-unheard", 2},
    [BUG_EARLY_SWEEP] = {"early-sweep", 2},
    [BUG_UNTOLD_CUT] = {"untold-cut", 8},
    [BUG_WRONG_CUT] = {"wrong-cut", 100},
    [BUG_OVERTAKEN_RECORD] = {"overtaken-record", 295},
    [BUG_HELD_UP] = {"held-up", 348},
    [BUG_GOES_ON_ALONE] = {"goes-on-alone", 140},
    [BUG_AWAY_AS_LOST] = {"away-as-lost", 121},
    [BUG_UNHEARD_NOTICE] = {"unheard-notice", 254},
    [BUG_SILENT_KEEPER] = {"silent-keeper", 445},
    [BUG_FORGOTTEN_SLOT] = {"forgotten-slot", 279},
    [BUG_BEGUN_BY_SOME] = {"begun-by-some", 4},
    [BUG_UNSEEN_STATE] = {"unseen-state", 12},
    [BUG_UNSEEN_GRADIENTS] = {"unseen-gradients", 12},
    [BUG_KEPT_DISPUTED] = {"kept-disputed", 12},
    [BUG_WRONG_VERDICT] = {"wrong-verdict", 23},
    [BUG_HASTY_LEADER] = {"hasty-leader", 246},
    [BUG_HASTY_NEWCOMER] = {"hasty-newcomer", 26},
    [BUG_RESTLESS_LEADER] = {"restless-leader", 2},
    [BUG_BLIND_SWITCH] = {"blind-switch", 1},
    [BUG_PATIENT_SWITCH] = {"patient-switch", 560},
    [BUG_LATE_RECORD] = {"late-record", 14},
    [BUG_HASTY_PEER] = {"hasty-peer", 9},
    [BUG_DEAF_EVALUATION] = {"deaf-evaluation", 560},
    [BUG_HOLD_BEFORE_MOMENTS] = {"hold-before-moments", 7},
    [BUG_KEPT_PARTIAL] = {"kept-partial", 27},
    [BUG_HOLD_BEFORE_SUMS] = {"hold-before-sums", 779},
    [BUG_LONE_REST] = {"lone-rest", 7},
    [BUG_STALE_COPIES] = {"stale-copies", 61},
};

static void describe_job(struct sim *sim)
{
    struct job_spec *spec = &sim->spec;
    snprintf(spec->name, sizeof(spec->name), SIM_JOB);
    snprintf(spec->model.family, sizeof(spec->model.family), "gpt2");
    spec->train.optimizer.min_lr_factor = 0.1;
    snprintf(spec->train.optimizer.name, sizeof(spec->train.optimizer.name), "adamw");
    snprintf(spec->data.path.paths[0], sizeof(spec->data.path.paths[0]), "/data");
    spec->data.path.count = 1;
    spec->model.layers = (SIM_UNITS - 2) / 2;
    spec->model.width = 512;
    spec->model.heads = 4;
    spec->model.context = 128;
    spec->model.vocab = 256;
    spec->model.kv_heads = 4; /* with gpt2 they follow from the other settings */
    spec->model.head_width = 512 / 4;
    spec->model.hidden = 4 * 512;
    spec->model.rope_theta = 10000;
    spec->model.norm_epsilon = 1e-5;
    spec->model.rope_scaling.factor = 1;
    spec->model.rope_scaling.low_frequency_factor = 1;
    spec->model.rope_scaling.high_frequency_factor = 4;
    spec->model.rope_scaling.original_context = 8192;
    spec->train.lanes = SIM_LANES;
    spec->train.micro_batch = 4;
    spec->train.micro_batches_per_lane = 2;
    spec->train.optimizer.lr = 1e-3;
    spec->train.optimizer.epsilon = 1e-8;
    spec->elastic.devices_min = 1;
    spec->elastic.devices_max = SIM_NODES_MAX > 16 ? SIM_NODES_MAX : 16;
    spec->elastic.evict_stragglers.steps = 5;
    spec->elastic.freeze.policy = JOB_FREEZE_NONE;
    spec->elastic.freeze.alpha = 0.3;
    spec->elastic.freeze.every = 1;
    spec->elastic.freeze.tolerance = 0.3;
    spec->elastic.freeze.patience = 3;
    spec->elastic.freeze.budget = 0.5;
    spec->checkpoint.every = CHECKPOINT_EVERY;
    spec->checkpoint.keep = 1;
    spec->checkpoint.copies = 1;
    spec->checkpoint.object_keep = 3;
    spec->evaluate.batches = 1;
}

static void draw_job(struct sim *sim)
{
    describe_job(sim);
    sim->spec.train.steps = STEPS_LEAST + sim_random(sim, STREAM_SETUP, STEPS_SPREAD);
    sim->spec.elastic.freeze.policy =
        sim_chance(sim, STREAM_SETUP, 30) ? JOB_FREEZE_SCHEDULE : JOB_FREEZE_NONE;
    sim->spec.elastic.freeze.every = 20 + sim_random(sim, STREAM_SETUP, 60);
    sim->spec.checkpoint.every =
        sim_chance(sim, STREAM_SETUP, 15) ? 0 : 5 + sim_random(sim, STREAM_SETUP, 30);
    sim->spec.checkpoint.keep = 1 + (unsigned)sim_random(sim, STREAM_SETUP, 3);
    sim->compute_us = 30000 + sim_random(sim, STREAM_SETUP, 120000);
    sim->spec.elastic.shadow = sim_chance(sim, STREAM_SETUP, 35);
    if (sim_chance(sim, STREAM_SETUP, 30))
        sim->spec.checkpoint.copies = sim_chance(sim, STREAM_SETUP, 70) ? 2 : 3;
}

/* In some histories of jobs that freeze, the validation loss gets worse now and then, and layers
 * thaw. Drawn by the seed alone, so that other draws are the same with and without thawing. */
static void draw_thawing(struct sim *sim)
{
    if (sim->spec.elastic.freeze.policy == JOB_FREEZE_NONE ||
        sim_mix(sim->seed, THAW_SALT) % THAW_ONE_IN != 0)
        return;
    sim->spec.elastic.freeze.thaw = 0.1;
    sim->spec.evaluate.every = 1;
    sim->spec.data.validation_share = 0.1;
    sim_trace(sim, "THAW layers freeze and thaw");
}

/* Drawn by the seed alone, too. A simulated worker has no model, but its evaluation takes time. */
static void draw_evaluation(struct sim *sim)
{
    if (sim_mix(sim->seed, EVALUATED_SALT) % EVALUATED_ONE_IN != 0)
        return;
    sim->spec.evaluate.every = sim->spec.train.steps;
    sim->spec.data.validation_share = 0.1;
    sim_trace(sim, "EVALUATION of the finished model");
}

/* Make the job long enough for one fault that needs time, and allow no other fault. */
static void draw_one_fault(struct sim *sim)
{
    sim->one_fault = sim_chance(sim, STREAM_SETUP, ONE_FAULT_PERCENT);
    if (!sim->one_fault)
        return;
    sim->spec.train.steps = SIM_STEPS_LONG;
    sim->spec.elastic.shadow = false;
    sim->compute_us = ONE_FAULT_COMPUTE_US;
}

void sim_submit(struct sim *sim)
{
    char key[KV_KEY_MAX];
    AUTO_JSON json_t *tree = job_spec_encode(&sim->spec);
    AUTO_FREE char *text = json_text(tree);
    sim_store_put(sim->store, keys_job(key, SIM_CLUSTER, SIM_JOB, "spec"), text);
}

/* A job that does not fit one slot needs a pipeline, and spare slots for it. */
static void limit_memory(struct sim *sim, unsigned slots)
{
    struct planner_unit units[SIM_UNITS];
    const struct slot_rates rates = slot_rates(false, JOB_PRECISION_F32);
    planner_units(&sim->spec.model, &sim->spec.train, 0, &rates, units);
    size_t whole =
        planner_stage_bytes(units, 0, SIM_UNITS, 1, gradient_room(buffers_even(SIM_LANES, 0, 1), 0),
                            PLAN_RECOMPUTE_NONE, 0);
    size_t process = process_bytes(&sim->spec.model, 1);
    if (slots >= 6 && sim_chance(sim, STREAM_SETUP, 40))
        sim->slot_memory = process + whole / 2;
    else if (slots >= 4 && sim_chance(sim, STREAM_SETUP, 60))
        sim->slot_memory = process + whole * 3 / 4;
}

/*
 * Shadows matter if a stage is on one node only: in a requested pipeline, often without replicas,
 * or in a pipeline that memory requires, which then needs room for copies, too.
 */
static void make_exposed(struct sim *sim, unsigned slots)
{
    struct planner_unit units[SIM_UNITS];
    unsigned stages = 2 + (unsigned)sim_random(sim, STREAM_SETUP, 2);
    const struct slot_rates rates = slot_rates(false, JOB_PRECISION_F32);
    planner_units(&sim->spec.model, &sim->spec.train, 0, &rates, units);
    if (slots < 3 || sim_chance(sim, STREAM_SETUP, 30)) {
        size_t whole = planner_stage_bytes(units, 0, SIM_UNITS, 1,
                                           gradient_room(buffers_even(SIM_LANES, 0, 1), 0),
                                           PLAN_RECOMPUTE_FULL, 0);
        sim->slot_memory = slots >= 3 ? process_bytes(&sim->spec.model, 1) + whole * 9 / 10 : 0;
        return;
    }
    sim->stages = stages;
    if (sim_chance(sim, STREAM_SETUP, 50))
        sim->spec.elastic.devices_max = stages;
}

static void name_node(struct sim *sim, unsigned index)
{
    struct sim_node *node = &sim->nodes[index];
    node->sim = sim;
    node->index = index;
    if (SIM_NODES_MAX <= 26)
        snprintf(node->name, sizeof(node->name), "%c", (char)('a' + index));
    else
        snprintf(node->name, sizeof(node->name), "n%u", index);
}

/* Draw by the seed alone, so that the rest of the history is the same with and without versions. */
static void draw_versions(struct sim *sim)
{
    bool upgraded = sim_mix(sim->seed, UPGRADED_SALT) % UPGRADED_ONE_IN == 0;
    sim->links_newest = upgraded ? LINKS_AT_FIRST + 1 : LINKS_AT_FIRST;
}

static void add_nodes(struct sim *sim)
{
    unsigned slots = 0;
    sim->node_count = 2 + (unsigned)sim_random(sim, STREAM_SETUP, SIM_NODES_MAX - 1);
    sim->nodes = sim_allocate(SIM_NODES_MAX, sizeof(*sim->nodes));
    for (unsigned i = 0; i < sim->node_count; i++) {
        struct sim_node *node = &sim->nodes[i];
        name_node(sim, i);
        node->slot_count = 1 + (unsigned)sim_random(sim, STREAM_SETUP, sim->node_count > 3 ? 2 : 3);
        node->up = true;
        node->links = LINKS_AT_FIRST;
        slots += node->slot_count;
    }
    if (sim->spec.elastic.shadow)
        make_exposed(sim, slots);
    else if (!sim->one_fault && !sim_cuts_lone(sim) && !sim_notices_alone(sim) &&
             !sim_bits_alone(sim))
        limit_memory(sim, slots);
    sim_submit(sim);
    for (unsigned i = 0; i < sim->node_count; i++)
        sim_firnd_start(&sim->nodes[i]);
}

static struct sim *begin(uint64_t seed)
{
    struct sim *sim = sim_now = sim_allocate(1, sizeof(*sim));
    sim->seed = seed;
    sim->events_max = EVENTS_MAX;
    sim->now_ns = NS_PER_SECOND;
    for (unsigned stream = 0; stream < STREAM_COUNT; stream++)
        sim->random[stream].key = philox_key_make(seed, stream);
    return sim;
}

/* Create everything but the nodes. */
static void surround(struct sim *sim)
{
    sim->network = sim_allocate(1, sizeof(*sim->network));
    sim->disk = sim_allocate(1, sizeof(*sim->disk));
    sim->store = sim_store_new(sim);
    sim->check = sim_check_new(sim);
}

struct sim *sim_new(uint64_t seed, enum sim_bug bug, bool trace)
{
    struct sim *sim = begin(seed);
    sim->bug = bug;
    sim->trace = trace;
    draw_job(sim);
    draw_thawing(sim);
    draw_evaluation(sim);
    draw_one_fault(sim);
    sim_stragglers_draw(sim);
    sim_cuts_draw(sim);
    sim_notices_draw(sim);
    sim_bits_draw(sim);
    sim_input_draw(sim);
    sim_scale_draw(sim);
    draw_versions(sim);
    surround(sim);
    add_nodes(sim);
    sim->faults = sim_faults_new(sim);
    sim_faults_wish(sim);
    sim_stragglers_begin(sim);
    sim_cuts_begin(sim);
    sim_notices_begin(sim);
    sim_bits_begin(sim);
    sim_input_begin(sim);
    return sim;
}

struct sim *sim_new_scene(uint64_t steps, uint64_t checkpoint_every, unsigned node_count,
                          const struct sim_costs *costs)
{
    struct sim *sim = begin(1);
    assert(steps <= SIM_STEPS_MAX && node_count <= SIM_NODES_MAX);
    sim->events_max = UINT64_MAX;
    sim->costs = *costs;
    describe_job(sim);
    sim->spec.train.steps = steps;
    sim->spec.checkpoint.every = checkpoint_every;
    surround(sim);
    sim->node_count = node_count;
    sim->nodes = sim_allocate(SIM_NODES_MAX, sizeof(*sim->nodes));
    for (unsigned i = 0; i < node_count; i++) {
        name_node(sim, i);
        sim->nodes[i].slot_count = 1;
        sim->nodes[i].links = LINKS_AT_FIRST;
        sim->network->down[i] = true;
    }
    sim->faults = sim_allocate(1, sizeof(*sim->faults)); /* none */
    return sim;
}

bool sim_run_until(struct sim *sim, uint64_t until_ns)
{
    while (!sim->failed && !sim->unjudged && sim->event_count > 0 && sim->now_ns < until_ns &&
           sim_step(sim))
        if (sim->fired > sim->events_max)
            sim_fail(sim, "more than %llu events: somebody runs in circles",
                     (unsigned long long)sim->events_max);
    return !sim->failed;
}

/* Log the state of every node at the end of a failed run. */
static void tell_state(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->node_count; i++) {
        const struct sim_firnd *firnd = sim->nodes[i].firnd;
        if (firnd)
            sim_tell(sim, "%s: leader %s%s, %sregistered, etcd %s, revision %lld",
                     sim->nodes[i].name, election_leader(firnd->daemon.node.election),
                     election_leads(firnd->daemon.node.election) ? " (leads)" : "",
                     firnd->daemon.node.registered ? "" : "not ",
                     firnd->daemon.keys.away ? "away" : "there",
                     (long long)firnd->daemon.keys.mirror.revision);
    }
    for (size_t i = 0; i < sim->store->key_count; i++)
        sim_tell(sim, "%lld %s = %.300s", (long long)sim->store->keys[i].mod_revision,
                 sim->store->keys[i].key, sim->store->keys[i].value);
}

/* Upgrade the last nodes, as operator. */
static void finish_upgrade(struct sim *sim)
{
    bool begun = false;
    for (unsigned i = 0; i < sim->node_count; i++)
        begun = begun || sim->nodes[i].links == sim->links_newest;
    for (unsigned i = 0; begun && i < sim->node_count; i++) {
        if (sim->nodes[i].links == sim->links_newest)
            continue;
        sim->nodes[i].links = sim->links_newest;
        sim_trace(sim, "%s is upgraded", sim->nodes[i].name);
        sim_firnd_end(&sim->nodes[i], true);
        sim_firnd_start(&sim->nodes[i]);
    }
}

bool sim_run(struct sim *sim)
{
    bool complete = false;
    sim_run_until(sim, sim->faults->over_ns + 1);
    if (!sim->unjudged)
        finish_upgrade(sim);
    uint64_t calm_since_ns = sim->now_ns;
    sim_trace(sim, "CALM from now on");
    while (!sim->failed && !sim->unjudged && !complete) {
        sim_run_until(sim, sim->now_ns + LOOK_NS);
        sim_faults_answer(sim);
        complete = !sim->unjudged && sim_check_liveness(sim, calm_since_ns);
    }
    if (!sim->failed && !sim->unjudged) {
        sim_run_until(sim, MAX(sim->now_ns + AFTERMATH_NS, sim_check_slots_back_ns(sim)));
        if (!sim->unjudged)
            sim_check_end(sim);
    }
    if (sim->failed && sim->trace)
        tell_state(sim);
    return !sim->failed;
}

void sim_free(struct sim *sim)
{
    for (unsigned i = 0; i < sim->node_count; i++)
        sim_firnd_end(&sim->nodes[i], false);
    for (unsigned i = 0; i < sim->worker_count; i++)
        sim_worker_kill(sim->workers[i]);
    sim_mesh_free_links(sim);
    for (unsigned i = 0; i < sim->worker_count; i++)
        sim_worker_free(sim->workers[i]);
    sim_store_free(sim->store);
    sim_faults_free(sim->faults);
    sim_stragglers_free(sim);
    sim_cuts_free(sim);
    sim_notices_free(sim);
    sim_bits_free(sim);
    sim_input_free(sim);
    sim_queue_free(sim);
    free(sim->workers);
    free(sim->nodes);
    free(sim->network);
    free(sim->disk);
    free(sim->check);
    free(sim);
    sim_now = NULL;
}
