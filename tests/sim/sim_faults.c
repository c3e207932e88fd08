#include "sim/sim_faults.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "membership/records.h"
#include "sim/sim_node.h"

#define FAULTS_MAX 12
#define FIRST_NS   (2 * NS_PER_SECOND)
#define SPAN_NS    (25 * NS_PER_SECOND)
#define BURST_NS   (300 * NS_PER_MS)

enum fault_kind {
    FAULT_WORKER_KILLED,
    FAULT_WORKER_TRAPPED,
    FAULT_WORKER_STOPPED,
    FAULT_NODE_LOST,
    FAULT_NODE_ISOLATED,
    FAULT_STORE_CUT,
    FAULT_PAIR_CUT,
    FAULT_PAIR_SLOW,
    FAULT_FIRND_KILLED,
    FAULT_FIRND_UPGRADED,
    FAULT_FIRND_STOPPED,
    FAULT_LEADER_KILLED,
    FAULT_LEADER_ISOLATED,
    FAULT_STORE_DOWN,
    FAULT_STORE_UNRELIABLE,
    FAULT_STORE_COMPACTED,
    FAULT_DISK_BROKEN,
    FAULT_STARTS_FAIL,
    WISH_DRAIN,
    WISH_SCALE,
    WISH_PAUSE,
    FAULT_KINDS,
};

/* How long each lasts, in milliseconds. */
static const struct {
    const char *name;
    unsigned least_ms, most_ms;
} kinds[FAULT_KINDS] = {
    [FAULT_WORKER_KILLED] = {"a worker is killed", 0, 0},
    [FAULT_WORKER_TRAPPED] = {"a worker will be hit at a point", 3000, 10000},
    [FAULT_WORKER_STOPPED] = {"a worker is stopped", 100, 6000},
    [FAULT_NODE_LOST] = {"a node is lost", 500, 25000},
    [FAULT_NODE_ISOLATED] = {"a node is isolated", 200, 20000},
    [FAULT_STORE_CUT] = {"a node is cut from etcd", 200, 20000},
    [FAULT_PAIR_CUT] = {"a pair of nodes is cut", 200, 10000},
    [FAULT_PAIR_SLOW] = {"a pair of nodes is slow", 1000, 10000},
    [FAULT_FIRND_KILLED] = {"a firnd is killed", 50, 8000},
    [FAULT_FIRND_UPGRADED] = {"a firnd is upgraded", 50, 2000},
    [FAULT_FIRND_STOPPED] = {"a firnd is stopped", 100, 12000},
    [FAULT_LEADER_KILLED] = {"the leader is killed", 50, 8000},
    [FAULT_LEADER_ISOLATED] = {"the leader is isolated", 500, 15000},
    [FAULT_STORE_DOWN] = {"etcd is down", 500, 25000},
    [FAULT_STORE_UNRELIABLE] = {"etcd's answers are late or lost", 2000, 15000},
    [FAULT_STORE_COMPACTED] = {"etcd is compacted", 0, 0},
    [FAULT_DISK_BROKEN] = {"the disk is broken", 500, 8000},
    [FAULT_STARTS_FAIL] = {"workers die at start", 300, 3000},
    [WISH_DRAIN] = {"a node drains", 500, 10000},
    [WISH_SCALE] = {"another scale is asked for", 1000, 15000},
    [WISH_PAUSE] = {"a pause is asked for", 500, 10000},
};

struct sim_fault {
    struct sim_fault *next;
    struct sim *sim;
    enum fault_kind kind;
    unsigned node, other, amount;
    uint64_t until_ns;
    bool begun;
};

static void store_disturbed(struct sim *sim)
{
    sim->faults->store_disturbed_ns = sim->now_ns;
}

/* ---- wishes ---- */

static void write_wish(struct sim *sim)
{
    char key[KV_KEY_MAX];
    struct desired_record desired = {.wish = (enum record_wish)sim->faults->wish,
                                     .devices = sim->faults->devices};
    AUTO_JSON json_t *tree = desired_record_encode(&desired);
    AUTO_FREE char *text = json_text(tree);
    sim_store_put(sim->store, keys_job(key, SIM_CLUSTER, SIM_JOB, "desired"), text);
}

static void set_drain(struct sim *sim, unsigned node, bool drains)
{
    char key[KV_KEY_MAX];
    size_t length = strlen(keys_cluster(key, SIM_CLUSTER));
    snprintf(key + length, sizeof(key) - length, "drains/%s", sim_node_name(sim, node));
    if (drains)
        sim_store_put(sim->store, key, "{}");
    else
        sim_store_delete(sim->store, key);
}

/* ---- one of each ---- */

static void isolate(struct sim *sim, unsigned node, bool cuts)
{
    for (unsigned place = 0; place < SIM_PLACES; place++) {
        if (place == node)
            continue;
        if (cuts)
            sim_network_cut(sim, node, place);
        else
            sim_network_mend(sim, node, place);
    }
}

static struct sim_worker *random_worker(struct sim *sim)
{
    unsigned alive = 0;
    for (unsigned i = 0; i < sim->worker_count; i++)
        alive += sim->workers[i]->alive;
    uint64_t chosen = alive > 0 ? sim_random(sim, STREAM_FAULTS, alive) : 0;
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (sim->workers[i]->alive && chosen-- == 0)
            return sim->workers[i];
    return NULL;
}

static bool find_leader(struct sim *sim, unsigned *ret_node)
{
    char key[KV_KEY_MAX];
    const struct sim_store_key *leader = sim_store_find(sim->store, keys_leader(key, SIM_CLUSTER));
    if (leader != NULL)
        *ret_node = sim_node_index(sim, leader->value);
    return leader != NULL;
}

static void slow_down(struct sim *sim, const struct sim_fault *fault, uint64_t slow_ns)
{
    sim->network->slow_ns[fault->node][fault->other] = slow_ns;
    sim->network->slow_ns[fault->other][fault->node] = slow_ns;
}

static void make_unreliable(struct sim *sim, unsigned lost_percent, unsigned late_percent)
{
    sim->store->lost_answers_percent = lost_percent;
    sim->store->late_requests_percent = late_percent;
}

static void arm_trap(struct sim *sim, const struct sim_fault *fault)
{
    sim->faults->trap_armed = true;
    sim->faults->trap_kills = fault->amount % 3 != 0;
    sim->faults->trap =
        (enum sim_point)(POINT_RESTORE + fault->amount % (POINT_COUNT - POINT_RESTORE));
    sim->faults->trap_skips = fault->amount % 7;
}

static void hit_worker(struct sim *sim, const struct sim_fault *fault)
{
    struct sim_worker *worker = random_worker(sim);
    if (worker == NULL)
        return;
    sim_node_disturb(&sim->nodes[worker->node]);
    if (fault->kind == FAULT_WORKER_KILLED)
        sim_worker_kill(worker);
    else
        sim_worker_pause(worker, fault->until_ns);
}

static void begin_node_fault(struct sim *sim, struct sim_fault *fault)
{
    struct sim_node *node = &sim->nodes[fault->node];
    sim_node_disturb(node);
    switch (fault->kind) {
    case FAULT_NODE_LOST:
        if (node->up)
            sim_node_lose(node);
        break;
    case FAULT_NODE_ISOLATED:
    case FAULT_LEADER_ISOLATED:
        isolate(sim, fault->node, true);
        break;
    case FAULT_STORE_CUT:
        sim_network_cut(sim, fault->node, SIM_STORE_PLACE);
        break;
    case FAULT_PAIR_CUT:
        sim_network_cut(sim, fault->node, fault->other);
        break;
    case FAULT_PAIR_SLOW:
        slow_down(sim, fault, (1 + fault->amount % 1000) * NS_PER_MS);
        break;
    case FAULT_FIRND_KILLED:
    case FAULT_LEADER_KILLED:
    case FAULT_FIRND_UPGRADED:
        sim_firnd_end(node, fault->kind == FAULT_FIRND_UPGRADED);
        break;
    case FAULT_FIRND_STOPPED:
        node->firnd_pause.until_ns = MAX(node->firnd_pause.until_ns, fault->until_ns);
        break;
    case FAULT_STARTS_FAIL:
        node->starts_fail = fault->node != 0;
        break;
    default:
        set_drain(sim, fault->node, true);
        break;
    }
}

static void begin(void *context)
{
    struct sim_fault *fault = context;
    struct sim *sim = fault->sim;
    bool leader = fault->kind == FAULT_LEADER_KILLED || fault->kind == FAULT_LEADER_ISOLATED;
    if (leader && !find_leader(sim, &fault->node))
        return;
    fault->begun = true;
    sim_trace(sim, "FAULT %s (node %s, other %s) until %.3f", kinds[fault->kind].name,
              sim_node_name(sim, fault->node), sim_node_name(sim, fault->other),
              (double)fault->until_ns / 1e9);
    switch (fault->kind) {
    case FAULT_WORKER_KILLED:
    case FAULT_WORKER_STOPPED:
        hit_worker(sim, fault);
        break;
    case FAULT_WORKER_TRAPPED:
        arm_trap(sim, fault);
        break;
    case FAULT_STORE_DOWN:
        store_disturbed(sim);
        sim_store_set_down(sim->store, true);
        break;
    case FAULT_STORE_UNRELIABLE:
        store_disturbed(sim);
        make_unreliable(sim, 10 + fault->amount % 20, 5 + fault->amount % 10);
        break;
    case FAULT_STORE_COMPACTED:
        sim_store_compact(sim->store);
        break;
    case FAULT_DISK_BROKEN:
        sim->disk->broken = true;
        break;
    case WISH_SCALE:
        sim->faults->devices = 1 + fault->amount % 8;
        write_wish(sim);
        break;
    case WISH_PAUSE:
        sim->faults->wish = RECORD_PAUSED;
        write_wish(sim);
        break;
    default:
        begin_node_fault(sim, fault);
        break;
    }
}

static void end_node_fault(struct sim *sim, const struct sim_fault *fault)
{
    struct sim_node *node = &sim->nodes[fault->node];
    sim_node_disturb(node);
    switch (fault->kind) {
    case FAULT_NODE_LOST:
        sim_node_return(node);
        break;
    case FAULT_NODE_ISOLATED:
    case FAULT_LEADER_ISOLATED:
        isolate(sim, fault->node, false);
        break;
    case FAULT_STORE_CUT:
        sim_network_mend(sim, fault->node, SIM_STORE_PLACE);
        break;
    case FAULT_PAIR_CUT:
        sim_network_mend(sim, fault->node, fault->other);
        break;
    case FAULT_PAIR_SLOW:
        slow_down(sim, fault, 0);
        break;
    case FAULT_STARTS_FAIL:
        node->starts_fail = false;
        sim_firnd_end(node, true); /* an operator puts its slots back into service */
        sim_firnd_start(node);
        break;
    case WISH_DRAIN:
        set_drain(sim, fault->node, false);
        break;
    default:
        sim_firnd_start(node); /* or it runs already: one that was only stopped goes on */
        break;
    }
}

static void end(void *context)
{
    struct sim_fault *fault = context;
    struct sim *sim = fault->sim;
    if (!fault->begun)
        return;
    sim_trace(sim, "OVER  %s (node %s)", kinds[fault->kind].name, sim_node_name(sim, fault->node));
    switch (fault->kind) {
    case FAULT_WORKER_KILLED:
    case FAULT_WORKER_STOPPED:
    case FAULT_STORE_COMPACTED:
        break;
    case FAULT_WORKER_TRAPPED:
        sim->faults->trap_armed = false;
        break;
    case FAULT_STORE_DOWN:
        store_disturbed(sim);
        sim_store_set_down(sim->store, false);
        break;
    case FAULT_STORE_UNRELIABLE:
        store_disturbed(sim);
        make_unreliable(sim, 0, 0);
        break;
    case FAULT_DISK_BROKEN:
        sim->disk->broken = false;
        break;
    case WISH_SCALE:
        sim->faults->devices = 0;
        write_wish(sim);
        break;
    case WISH_PAUSE:
        sim->faults->wish = RECORD_RUNNING;
        write_wish(sim);
        break;
    default:
        end_node_fault(sim, fault);
        break;
    }
}

/* ---- traps ---- */

static void spring(void *context)
{
    struct sim_worker *worker = context;
    struct sim *sim = worker->sim;
    sim_node_disturb(&sim->nodes[worker->node]);
    if (sim->faults->trap_kills)
        sim_worker_kill(worker);
    else
        sim_worker_pause(worker, sim->now_ns + 3 * SIM_FAILURE_TIMEOUT);
}

void sim_faults_at(struct sim_worker *worker)
{
    struct sim_faults *faults = worker->sim->faults;
    if (!faults->trap_armed || worker->point != faults->trap || faults->trap_skips-- > 0)
        return;
    faults->trap_armed = false;
    sim_post(worker->sim, worker->sim->now_ns, NULL, spring, worker);
}

/* ---- the plan of a run ---- */

static void add_fault(struct sim *sim, uint64_t at_ns)
{
    struct sim_faults *faults = sim->faults;
    struct sim_fault *fault = sim_allocate(1, sizeof(*fault));
    fault->sim = sim;
    fault->kind = (enum fault_kind)sim_random(sim, STREAM_FAULTS, FAULT_KINDS);
    fault->node = (unsigned)sim_random(sim, STREAM_FAULTS, sim->node_count);
    fault->other =
        (fault->node + 1 + (unsigned)sim_random(sim, STREAM_FAULTS, sim->node_count - 1)) %
        sim->node_count;
    fault->amount = (unsigned)sim_random(sim, STREAM_FAULTS, 1u << 20);
    uint64_t range_ms = kinds[fault->kind].most_ms - kinds[fault->kind].least_ms + 1;
    /* Short ones are as interesting as long ones. */
    if (sim_chance(sim, STREAM_FAULTS, 50))
        range_ms = range_ms / 8 + 1;
    fault->until_ns =
        at_ns +
        (kinds[fault->kind].least_ms + sim_random(sim, STREAM_FAULTS, range_ms)) * NS_PER_MS;
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
    uint64_t at_ns = FIRST_NS + sim_random(sim, STREAM_FAULTS, NS_PER_SECOND);
    for (uint64_t i = 0; i < count; i++) {
        add_fault(sim, at_ns);
        /* Half of them on top of each other. */
        uint64_t gap_ns = sim_chance(sim, STREAM_FAULTS, 50) ? BURST_NS : 2 * SPAN_NS / FAULTS_MAX;
        at_ns += sim_random(sim, STREAM_FAULTS, gap_ns);
    }
    return faults;
}

void sim_faults_free(struct sim_faults *faults)
{
    while (faults->list != NULL) {
        struct sim_fault *fault = faults->list;
        faults->list = fault->next;
        free(fault);
    }
    free(faults);
}
