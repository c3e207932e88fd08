/*
 * One pair of functions for each kind of fault or request.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/timeouts.h"
#include "elastic/agent/slot_backoff.h"
#include "membership/kv/keys.h"
#include "membership/kv/records.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_faults.h"
#include "sim/node/sim_node.h"

#define FLAPS         20
#define FLAP_UP_MS    900
#define FLAP_DOWN_MS  100
#define LATE_LEAST_MS 3200 /* longer than a leader's lease */
#define LATE_MOST_MS  9000
#define SLOTS_BACK_NS (TIMEOUTS_SLOT_BACKOFF_MIN * SIM_FAILURE_TIMEOUT + NS_PER_SECOND)

/* ---- workers ---- */

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

static bool kill_one(struct sim *sim, struct sim_fault *fault)
{
    struct sim_worker *worker = random_worker(sim);
    (void)fault;
    if (!worker)
        return false;
    sim_node_disturb(&sim->nodes[worker->node]);
    sim_worker_kill(worker);
    return true;
}

static bool kill_two(struct sim *sim, struct sim_fault *fault)
{
    bool first = kill_one(sim, fault);
    return kill_one(sim, fault) || first;
}

static bool stop_worker(struct sim *sim, struct sim_fault *fault)
{
    struct sim_worker *worker = random_worker(sim);
    if (!worker)
        return false;
    sim_node_disturb(&sim->nodes[worker->node]);
    sim_worker_pause(worker, fault->until_ns);
    return true;
}

/* Reset a connection of a worker without a mistake of either end. */
static bool break_link(struct sim *sim, struct sim_fault *fault)
{
    struct sim_worker *worker = random_worker(sim);
    return worker && worker->mesh && sim_mesh_break_link(worker->mesh, fault->amount);
}

static void arm(struct sim *sim, const struct sim_fault *fault, bool in_switch)
{
    struct sim_trap *trap = &sim->faults->trap;
    trap->armed = true;
    trap->deaf = NULL;
    trap->in_switch = in_switch;
    trap->kills = fault->amount % 3 != 0;
    trap->point = (enum sim_point)(POINT_RESTORE + fault->amount % (POINT_COUNT - POINT_RESTORE));
    trap->skips = fault->amount % 7;
}

static bool set_trap(struct sim *sim, struct sim_fault *fault)
{
    arm(sim, fault, false);
    return true;
}

static void remove_trap(struct sim *sim, const struct sim_fault *fault)
{
    (void)fault;
    sim->faults->trap.armed = false;
}

/* ---- wishes ---- */

static bool wish_scale(struct sim *sim, struct sim_fault *fault)
{
    sim->faults->devices = 1 + fault->amount % 8;
    sim_faults_wish(sim);
    return true;
}

static void wish_no_scale(struct sim *sim, const struct sim_fault *fault)
{
    (void)fault;
    sim->faults->devices = 0;
    sim_faults_wish(sim);
}

static bool wish_pause(struct sim *sim, struct sim_fault *fault)
{
    (void)fault;
    sim->faults->wish = RECORD_PAUSED;
    sim_faults_wish(sim);
    return true;
}

static void wish_running(struct sim *sim, const struct sim_fault *fault)
{
    (void)fault;
    sim->faults->wish = RECORD_RUNNING;
    sim_faults_wish(sim);
}

static void set_drain(struct sim *sim, unsigned node, bool drains)
{
    char key[KV_KEY_MAX];
    size_t length = strlen(keys_cluster(key, SIM_CLUSTER));
    snprintf(key + length, sizeof(key) - length, "drains/%s", sim_node_name(sim, node));
    sim_node_disturb(&sim->nodes[node]);
    if (drains)
        sim_store_put(sim->store, key, "{}");
    else
        sim_store_delete(sim->store, key);
}

static bool drain(struct sim *sim, struct sim_fault *fault)
{
    set_drain(sim, fault->node, true);
    return true;
}

static void drain_no_more(struct sim *sim, const struct sim_fault *fault)
{
    set_drain(sim, fault->node, false);
}

/* ---- a failure during another change ---- */

static bool hit_switch(struct sim *sim, struct sim_fault *fault)
{
    arm(sim, fault, true);
    return wish_scale(sim, fault);
}

static void end_switch(struct sim *sim, const struct sim_fault *fault)
{
    remove_trap(sim, fault);
    wish_no_scale(sim, fault);
}

static bool hit_recovery(struct sim *sim, struct sim_fault *fault)
{
    arm(sim, fault, true);
    return kill_one(sim, fault);
}

/* A worker that has to restart misses the order and goes on with the previous plan. */
static bool hit_recovery_unheard(struct sim *sim, struct sim_fault *fault)
{
    arm(sim, fault, true);
    sim->faults->trap.deaf = &sim->nodes[fault->other];
    sim->faults->trap.kills = true;
    sim->faults->trap.point = POINT_LINKS;
    return kill_one(sim, fault);
}

/* ---- nodes ---- */

static bool lose_node(struct sim *sim, struct sim_fault *fault)
{
    struct sim_node *node = &sim->nodes[fault->node];
    sim_node_disturb(node);
    if (node->up)
        sim_node_lose(node);
    sim_check_node_died(sim);
    if (fault->amount % 4 == 0) { /* also lose its disk: another machine of the same name */
        node->incarnation = 0;
        sim_folders_wipe(sim, node->index);
    }
    return true;
}

static void return_node(struct sim *sim, const struct sim_fault *fault)
{
    sim_node_disturb(&sim->nodes[fault->node]);
    sim_node_return(&sim->nodes[fault->node]);
}

static void flap_up(void *context)
{
    struct sim_node *node = context;
    sim_node_disturb(node);
    if (!node->up)
        sim_node_return(node);
}

static void flap_down(void *context)
{
    struct sim_node *node = context;
    sim_node_disturb(node);
    if (node->up)
        sim_node_lose(node);
}

/* Let a node join and die within a second, again and again. */
static bool flap(struct sim *sim, struct sim_fault *fault)
{
    struct sim_node *node = &sim->nodes[fault->node];
    uint64_t at_ns = sim->now_ns;
    for (unsigned i = 0; i < FLAPS; i++) {
        sim_post(sim, at_ns, NULL, flap_down, node);
        at_ns += (1 + sim_random(sim, STREAM_FAULTS, FLAP_DOWN_MS)) * NS_PER_MS;
        sim_post(sim, at_ns, NULL, flap_up, node);
        at_ns += (1 + sim_random(sim, STREAM_FAULTS, FLAP_UP_MS)) * NS_PER_MS;
    }
    assert(at_ns <= fault->until_ns);
    return true;
}

static void isolate(struct sim *sim, unsigned node, bool cuts)
{
    sim_node_disturb(&sim->nodes[node]);
    for (unsigned place = 0; place < SIM_PLACES; place++) {
        if (place == node)
            continue;
        if (cuts)
            sim_network_cut(sim, node, place);
        else
            sim_network_mend(sim, node, place);
    }
}

static bool isolate_node(struct sim *sim, struct sim_fault *fault)
{
    isolate(sim, fault->node, true);
    return true;
}

static void reach_node(struct sim *sim, const struct sim_fault *fault)
{
    isolate(sim, fault->node, false);
}

static bool cut_from_store(struct sim *sim, struct sim_fault *fault)
{
    sim_node_disturb(&sim->nodes[fault->node]);
    sim_network_cut(sim, fault->node, SIM_STORE_PLACE);
    return true;
}

static void reach_store(struct sim *sim, const struct sim_fault *fault)
{
    sim_node_disturb(&sim->nodes[fault->node]);
    sim_network_mend(sim, fault->node, SIM_STORE_PLACE);
}

static bool cut_pair(struct sim *sim, struct sim_fault *fault)
{
    sim_node_disturb(&sim->nodes[fault->node]);
    sim_network_cut(sim, fault->node, fault->other);
    return true;
}

static void mend_pair(struct sim *sim, const struct sim_fault *fault)
{
    sim_node_disturb(&sim->nodes[fault->node]);
    sim_network_mend(sim, fault->node, fault->other);
}

static void set_pair_delay(struct sim *sim, const struct sim_fault *fault, uint64_t slow_ns)
{
    sim_node_disturb(&sim->nodes[fault->node]);
    sim->network->slow_ns[fault->node][fault->other] = slow_ns;
    sim->network->slow_ns[fault->other][fault->node] = slow_ns;
}

static bool slow_pair(struct sim *sim, struct sim_fault *fault)
{
    set_pair_delay(sim, fault, (1 + fault->amount % 1000) * NS_PER_MS);
    return true;
}

static void quick_pair(struct sim *sim, const struct sim_fault *fault)
{
    set_pair_delay(sim, fault, 0);
}

/* ---- daemons ---- */

static bool find_leader(struct sim *sim, struct sim_fault *fault)
{
    char key[KV_KEY_MAX];
    const struct sim_store_key *leader = sim_store_find(sim->store, keys_leader(key, SIM_CLUSTER));
    if (leader)
        fault->node = sim_node_index(sim, leader->value);
    return leader;
}

static bool end_firnd(struct sim *sim, const struct sim_fault *fault, bool gently)
{
    sim_node_disturb(&sim->nodes[fault->node]);
    sim_firnd_end(&sim->nodes[fault->node], gently);
    return true;
}

static bool kill_firnd(struct sim *sim, struct sim_fault *fault)
{
    return end_firnd(sim, fault, false);
}

static bool upgrade_firnd(struct sim *sim, struct sim_fault *fault)
{
    sim->nodes[fault->node].links = sim->links_newest;
    return end_firnd(sim, fault, true);
}

static bool kill_leader(struct sim *sim, struct sim_fault *fault)
{
    return find_leader(sim, fault) && end_firnd(sim, fault, false);
}

static bool isolate_leader(struct sim *sim, struct sim_fault *fault)
{
    return find_leader(sim, fault) && isolate_node(sim, fault);
}

static bool stop_firnd(struct sim *sim, struct sim_fault *fault)
{
    struct sim_node *node = &sim->nodes[fault->node];
    sim_node_disturb(node);
    node->firnd_pause.until_ns = MAX(node->firnd_pause.until_ns, fault->until_ns);
    return true;
}

/* Stop a machine with all its processes, as during a migration to another host. */
static bool stop_node(struct sim *sim, struct sim_fault *fault)
{
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (sim->workers[i]->alive && sim->workers[i]->node == fault->node)
            sim_worker_pause(sim->workers[i], fault->until_ns);
    return stop_firnd(sim, fault);
}

static void start_firnd(struct sim *sim, const struct sim_fault *fault)
{
    sim_node_disturb(&sim->nodes[fault->node]);
    sim_firnd_start(&sim->nodes[fault->node]); /* starts a stopped daemon; a running daemon stays */
}

/* End a node's firnd for a while, just when a planned change with that node is in force. */
static bool leave_at_switch(struct sim *sim, struct sim_fault *fault)
{
    sim->faults->ambush = fault;
    return wish_scale(sim, fault);
}

static void come_back(struct sim *sim, const struct sim_fault *fault)
{
    if (sim->faults->ambush == fault)
        sim->faults->ambush = NULL;
    sim_check_held_up(sim, fault);
    start_firnd(sim, fault);
    if (sim_fault_takes_two(fault)) {
        sim_node_disturb(&sim->nodes[fault->other]);
        sim_firnd_start(&sim->nodes[fault->other]);
    }
    wish_no_scale(sim, fault);
}

static bool fail_workers(struct sim *sim, struct sim_fault *fault)
{
    struct sim_node *node = &sim->nodes[fault->node];
    sim_node_disturb(node);
    node->starts_fail = fault->node != 0 && fault->amount % 2 == 0;
    node->steps_fail = fault->node != 0 && fault->amount % 2 == 1;
    return true;
}

void sim_faults_excuse(struct sim *sim, const struct sim_node *node)
{
    char key[KV_KEY_MAX];
    sim_store_put(sim->store, keys_excused(key, SIM_CLUSTER, node->name), "{}");
}

/* A new firnd, an operator or time returns the node's slots to service. */
static void let_live(struct sim *sim, const struct sim_fault *fault)
{
    struct sim_node *node = &sim->nodes[fault->node];
    sim_node_disturb(node);
    node->starts_fail = node->steps_fail = false;
    switch (fault->amount / 2 % 3) {
    case 0:
        sim_firnd_end(node, true);
        sim_firnd_start(node);
        break;
    case 1:
        sim_faults_excuse(sim, node);
        break;
    default:
        sim->faults->slots_back_ns = sim->now_ns + SLOTS_BACK_NS;
    }
}

/*
 * Cut the leader off from the store after it wrote a plan: the request arrives when another node
 * leads.
 */
static bool delay_leader(struct sim *sim, struct sim_fault *fault)
{
    sim->store->late_plan_ns =
        (LATE_LEAST_MS + fault->amount % (LATE_MOST_MS - LATE_LEAST_MS)) * NS_PER_MS;
    return wish_scale(sim, fault);
}

static void delay_no_more(struct sim *sim, const struct sim_fault *fault)
{
    sim->store->late_plan_ns = 0;
    wish_no_scale(sim, fault);
}

/* ---- the store ---- */

static bool stop_store(struct sim *sim, struct sim_fault *fault)
{
    (void)fault;
    sim_check_outage_begins(sim);
    sim_store_set_down(sim->store, true);
    return true;
}

static void restart_store(struct sim *sim, const struct sim_fault *fault)
{
    (void)fault;
    sim_check_outage_ends(sim);
    sim_store_set_down(sim->store, false);
}

static void make_unreliable(struct sim *sim, unsigned lost_percent, unsigned late_percent)
{
    sim->store->lost_answers_percent = lost_percent;
    sim->store->late_requests_percent = late_percent;
}

static bool lose_answers(struct sim *sim, struct sim_fault *fault)
{
    make_unreliable(sim, 10 + fault->amount % 20, 5 + fault->amount % 10);
    return true;
}

static void keep_answers(struct sim *sim, const struct sim_fault *fault)
{
    (void)fault;
    make_unreliable(sim, 0, 0);
}

static bool compact(struct sim *sim, struct sim_fault *fault)
{
    (void)fault;
    sim_store_compact(sim->store);
    return true;
}

/* Stall a watch: requests succeed, but no change is delivered. */
static bool stall_watch(struct sim *sim, struct sim_fault *fault)
{
    sim_node_disturb(&sim->nodes[fault->node]);
    sim->nodes[fault->node].watch_stalled_ns = fault->until_ns;
    return true;
}

/* ---- disks ---- */

/* Break a disk at once, or at the next receipt: then the shares are durable, and other nodes wait
 * for this one. */
static bool break_disk(struct sim *sim, struct sim_fault *fault)
{
    uint64_t node = (uint64_t)1 << fault->node;
    if (!job_keeps_copies(&sim->spec))
        sim->disk->broken = UINT64_MAX;
    else if (fault->amount % 4 == 0)
        sim->disk->broken |= node;
    else
        sim->disk->brittle |= node;
    return true;
}

static void mend_disk(struct sim *sim, const struct sim_fault *fault)
{
    (void)fault;
    sim->disk->broken = sim->disk->brittle = 0;
}

/* Damage the newest checkpoint, or remove its folder. */
static bool lose_checkpoint(struct sim *sim, struct sim_fault *fault)
{
    uint64_t step = sim_check_newest_record(sim);
    return job_keeps_copies(&sim->spec) ? sim_folders_lose(sim, fault->node, step)
                                        : sim_disk_lose(sim, step);
}

const struct sim_fault_kind sim_fault_kinds[] = {
    {"a worker is killed", 0, 0, kill_one, NULL, false},
    {"two workers are killed", 0, 0, kill_two, NULL, false},
    {"a worker will be hit at a point", 3000, 10000, set_trap, remove_trap, false},
    {"a worker will be hit in a switch", 5000, 15000, hit_switch, end_switch, false},
    {"a worker is killed, and one in the recovery", 5000, 15000, hit_recovery, remove_trap, false},
    {"a worker is killed, and one in the recovery, which a node does not hear of", 5000, 15000,
     hit_recovery_unheard, remove_trap, false},
    {"a worker is stopped", 100, 6000, stop_worker, NULL, false},
    {"a link breaks", 0, 0, break_link, NULL, false},
    {"a node is lost", 500, 25000, lose_node, return_node, false},
    {"a node comes and goes", FLAPS *(FLAP_UP_MS + FLAP_DOWN_MS), 25000, flap, return_node, false},
    {"a node is isolated", 200, 20000, isolate_node, reach_node, false},
    {"a node is cut from etcd", 200, 20000, cut_from_store, reach_store, false},
    {"a pair of nodes is cut", 200, 10000, cut_pair, mend_pair, false},
    {"a pair of nodes is slow", 1000, 10000, slow_pair, quick_pair, false},
    {"a firnd is killed", 50, 8000, kill_firnd, start_firnd, false},
    {"a firnd is upgraded", 50, 2000, upgrade_firnd, start_firnd, false},
    {"a firnd is stopped", 100, 12000, stop_firnd, start_firnd, false},
    {"a node stands still", 100, 15000, stop_node, start_firnd, false},
    {"the leader is killed", 50, 8000, kill_leader, start_firnd, false},
    {"the leader is isolated", 500, 15000, isolate_leader, reach_node, false},
    {"the leader writes too late", 8000, 15000, delay_leader, delay_no_more, false},
    {"etcd is down", 500, 25000, stop_store, restart_store, true},
    {"etcd's answers are late or lost", 2000, 15000, lose_answers, keep_answers, true},
    {"etcd is compacted", 0, 0, compact, NULL, true},
    {"a watch hangs", 500, 8000, stall_watch, NULL, true},
    {"the disk is broken", 500, 8000, break_disk, mend_disk, false},
    {"a checkpoint is lost", 0, 0, lose_checkpoint, NULL, false},
    {"a firnd goes at a switch", 2000, 28000, leave_at_switch, come_back, false},
    {"workers die", 300, 15000, fail_workers, let_live, false},
    {"a node drains", 500, 10000, drain, drain_no_more, false},
    {"another scale is asked for", 1000, 15000, wish_scale, wish_no_scale, false},
    {"a pause is asked for", 500, 10000, wish_pause, wish_running, false},
};
const unsigned sim_fault_kind_count = ARRAY_COUNT(sim_fault_kinds);

const struct sim_fault_kind sim_fault_alone = {
    "a firnd goes at a switch", 22000, 28000, leave_at_switch, come_back, false};
