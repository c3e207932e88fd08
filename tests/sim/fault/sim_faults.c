#include "sim/fault/sim_faults.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "membership/kv/keys.h"
#include "membership/kv/records.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_disk.h"
#include "sim/fault/sim_notices.h"
#include "sim/fault/sim_stragglers.h"
#include "sim/node/sim_node.h"
#include "sim/node/sim_store.h"
#include "sim/worker/sim_bits.h"

#define FAULTS_MAX         12
#define FIRST_NS           (2 * NS_PER_SECOND)
#define SPAN_NS            (25 * NS_PER_SECOND)
#define DEAF_NS            (3 * NS_PER_SECOND)
#define BURST_NS           (300 * NS_PER_MS)
#define ONLY_STORE_PERCENT 6

static void note(struct sim *sim, const struct sim_fault *fault)
{
    if (fault->kind->of_store)
        sim->faults->store_disturbed_ns = sim->now_ns;
    else
        sim->faults->disturbed_ns = sim->now_ns;
}

static void begin(void *context)
{
    struct sim_fault *fault = context;
    struct sim *sim = fault->sim;
    sim_trace(sim, "FAULT %s (node %s, other %s, %u) until %.3f", fault->kind->name,
              sim_node_name(sim, fault->node), sim_node_name(sim, fault->other), fault->amount,
              (double)fault->until_ns / 1e9);
    fault->begun = fault->kind->begin(sim, fault);
    if (!fault->begun)
        return;
    note(sim, fault);
    sim->faults->disturbing += !fault->kind->of_store;
}

static void end(void *context)
{
    struct sim_fault *fault = context;
    struct sim *sim = fault->sim;
    if (!fault->begun)
        return;
    sim_trace(sim, "OVER  %s (node %s)", fault->kind->name, sim_node_name(sim, fault->node));
    if (fault->kind->end)
        fault->kind->end(sim, fault);
    note(sim, fault);
    sim->faults->disturbing -= !fault->kind->of_store;
}

/* ---- traps ---- */

static void spring(void *context)
{
    struct sim_worker *worker = context;
    struct sim *sim = worker->sim;
    sim_node_disturb(&sim->nodes[worker->node]);
    sim->faults->disturbed_ns = sim->now_ns;
    struct sim_node *deaf = sim->faults->trap.deaf;
    if (deaf) {
        sim_node_disturb(deaf);
        deaf->firnd_pause.until_ns = MAX(deaf->firnd_pause.until_ns, sim->now_ns + DEAF_NS);
    }
    if (sim->faults->trap.kills)
        sim_worker_kill(worker);
    else
        sim_worker_pause(worker, sim->now_ns + 3 * SIM_FAILURE_TIMEOUT);
}

static void fall(void *context)
{
    sim_worker_kill(context);
}

void sim_faults_at(struct sim_worker *worker)
{
    struct sim_trap *trap = &worker->sim->faults->trap;
    if (worker->point == POINT_STEP && worker->sim->nodes[worker->node].steps_fail)
        sim_post(worker->sim, worker->sim->now_ns, NULL, fall, worker);
    bool switches = worker->point < POINT_STEP || worker->first_commit;
    if (!trap->armed || worker->point != trap->point || (trap->in_switch && !switches) ||
        trap->skips-- > 0)
        return;
    trap->armed = false;
    sim_post(worker->sim, worker->sim->now_ns, NULL, spring, worker);
}

/* Strike before any other node has heard of the plan. */
static void take_away(void *context)
{
    struct sim_fault *fault = context;
    struct sim *sim = fault->sim;
    fault->struck_ns = sim->now_ns;
    sim_node_disturb(&sim->nodes[fault->node]);
    sim_firnd_end(&sim->nodes[fault->node], false);
    if (!sim_fault_takes_two(fault))
        return;
    sim_node_disturb(&sim->nodes[fault->other]);
    sim_firnd_end(&sim->nodes[fault->other], false);
}

void sim_faults_planned(struct sim *sim, const struct plan *plan)
{
    struct sim_fault *fault = sim->faults->ambush;
    if (!fault || !plan->change.planned ||
        plan_layout_find_node(&plan->layout, sim_node_name(sim, fault->node)) < 0)
        return;
    sim->faults->ambush = NULL;
    sim_post(sim, sim->now_ns, NULL, take_away, fault);
}

/* ---- the plan of a run ---- */

void sim_faults_wish(struct sim *sim)
{
    char key[KV_KEY_MAX];
    struct desired_record desired = {.wish = (enum record_wish)sim->faults->wish,
                                     .devices = sim->faults->devices,
                                     .stages = sim->stages};
    AUTO_JSON json_t *tree = desired_record_encode(&desired);
    AUTO_FREE char *text = json_text(tree);
    sim_store_put(sim->store, keys_job(key, SIM_CLUSTER, SIM_JOB, "desired"), text);
}

/* Draw a kind of fault; with @only_store, a fault of the store. */
static const struct sim_fault_kind *draw_kind(struct sim *sim, bool only_store)
{
    const struct sim_fault_kind *kind;
    do
        kind = &sim_fault_kinds[sim_random(sim, STREAM_FAULTS, sim_fault_kind_count)];
    while (only_store && !kind->of_store);
    return kind;
}

static void add_fault(struct sim *sim, uint64_t at_ns, const struct sim_fault_kind *kind)
{
    struct sim_faults *faults = sim->faults;
    struct sim_fault *fault = sim_allocate(1, sizeof(*fault));
    fault->sim = sim;
    fault->kind = kind;
    fault->node = (unsigned)sim_random(sim, STREAM_FAULTS, sim->node_count);
    fault->other =
        (fault->node + 1 + (unsigned)sim_random(sim, STREAM_FAULTS, sim->node_count - 1)) %
        sim->node_count;
    fault->amount = (unsigned)sim_random(sim, STREAM_FAULTS, 1u << 20);
    uint64_t range_ms = fault->kind->most_ms - fault->kind->least_ms + 1;
    /* Short faults are as interesting as long ones. */
    if (sim_chance(sim, STREAM_FAULTS, 50))
        range_ms = range_ms / 8 + 1;
    fault->until_ns =
        at_ns + (fault->kind->least_ms + sim_random(sim, STREAM_FAULTS, range_ms)) * NS_PER_MS;
    fault->next = faults->list;
    faults->list = fault;
    faults->over_ns = MAX(faults->over_ns, fault->until_ns);
    sim_post(sim, at_ns, NULL, begin, fault);
    sim_post(sim, fault->until_ns, NULL, end, fault);
}

struct sim_faults *sim_faults_new(struct sim *sim)
{
    struct sim_faults *faults = sim->faults = sim_allocate(1, sizeof(*faults));
    faults->sim = sim;
    faults->over_ns = FIRST_NS;
    uint64_t count = sim_random(sim, STREAM_FAULTS, FAULTS_MAX + 1);
    if (sim_stragglers_alone(sim) || sim_notices_alone(sim) || sim_bits_alone(sim))
        count = 0;
    bool only_store = sim_chance(sim, STREAM_FAULTS, ONLY_STORE_PERCENT);
    uint64_t at_ns = FIRST_NS + sim_random(sim, STREAM_FAULTS, NS_PER_SECOND);
    if (sim->one_fault) {
        add_fault(sim, at_ns, &sim_fault_alone);
        count = 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        add_fault(sim, at_ns, draw_kind(sim, only_store));
        /* Half of the faults overlap. */
        uint64_t gap_ns = sim_chance(sim, STREAM_FAULTS, 50) ? BURST_NS : 2 * SPAN_NS / FAULTS_MAX;
        at_ns += sim_random(sim, STREAM_FAULTS, gap_ns);
    }
    return faults;
}

void sim_faults_free(struct sim_faults *faults)
{
    while (faults->list) {
        struct sim_fault *fault = faults->list;
        faults->list = fault->next;
        free(fault);
    }
    free(faults);
}

/*
 * If all recorded checkpoints are damaged, the job asks an operator whether it may begin at step 0
 * again. The operator agrees: `firnctl checkpoint remove JOB --damaged`.
 */
void sim_faults_answer(struct sim *sim)
{
    char prefix[KV_KEY_MAX], damaged[SIM_DISK_MAX][KV_KEY_MAX];
    size_t count = 0;
    keys_job(prefix, SIM_CLUSTER, SIM_JOB, "checkpoints/");
    for (size_t i = 0; i < sim->store->key_count; i++) {
        CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
        AUTO_JSON json_t *tree = NULL;
        const struct sim_store_key *key = &sim->store->keys[i];
        if (strncmp(key->key, prefix, strlen(prefix)) != 0)
            continue;
        if (json_parse(key->value, strlen(key->value), "a record", &tree, NULL) < 0 ||
            checkpoint_record_decode(tree, &record, NULL) < 0 || record.damaged[0] == '\0' ||
            count == SIM_DISK_MAX)
            return; /* a sound checkpoint is left */
        snprintf(damaged[count++], KV_KEY_MAX, "%s", key->key);
    }
    for (size_t i = 0; i < count; i++) {
        sim_trace(sim, "OPERATOR removes %s", damaged[i] + strlen(prefix));
        sim_store_delete(sim->store, damaged[i]);
    }
    if (count > 0)
        sim->check->newest_record = 0;
}
