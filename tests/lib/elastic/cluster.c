#include "lib/elastic/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/job/job_spec.h"

static void fake_spawn(struct cluster *cluster, unsigned node, unsigned slot)
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

static void take_report(struct node_report *written, const struct node_report *report)
{
    if (written->generation <= report->generation)
        memcpy(written, report, sizeof(*written));
}

static void carry_out(struct cluster *cluster, unsigned index, struct agent_actions *actions)
{
    struct fake_node *node = &cluster->nodes[index];
    for (unsigned i = 0; i < actions->count; i++) {
        struct agent_action *action = &actions->list[i];
        struct fake_worker *worker = fake_at(cluster, node->name, action->slot);
        switch (action->type) {
        case AGENT_SPAWN:
            fake_spawn(cluster, index, action->slot);
            break;
        case AGENT_SEND_PREPARE:
        case AGENT_SEND_SWITCH:
        case AGENT_SEND_STOP:
        case AGENT_KILL:
            if (worker)
                fake_told(cluster, worker, action);
            break;
        case AGENT_REPORT:
            take_report(cluster->etcd.reports[index], agent_last_report(node->agent));
            cluster->etcd.report_version++;
            break;
        case AGENT_SLOT_BAD:
            node->slot_bad[action->slot] = true;
            break;
        }
    }
    node->agent_wake_ns = actions->wake_at_ns;
}

static void feed(struct cluster *cluster, unsigned index, struct agent_event *event)
{
    static struct agent_actions actions;
    event->now_ns = cluster->now_ns;
    agent_step(cluster->nodes[index].agent, event, &actions);
    carry_out(cluster, index, &actions);
}

static void node_tick(struct cluster *cluster, unsigned index)
{
    struct fake_node *node = &cluster->nodes[index];
    if (!node->agent)
        return;
    node->lease_until_ns = cluster->now_ns + CLUSTER_LEASE_NS;
    while (node->inbox.count > 0 &&
           node->inbox.entries[node->inbox.first].due_ns <= cluster->now_ns) {
        unsigned first = node->inbox.first;
        struct agent_event event = node->inbox.entries[first].event;
        struct worker_report status = node->inbox.entries[first].status;
        event.status = &status;
        node->inbox.first = (first + 1) % CLUSTER_INBOX;
        node->inbox.count--;
        feed(cluster, index, &event);
    }
    if (cluster->now_ns >= node->sync_at_ns) {
        node->sync_at_ns = cluster_delay(cluster, 40);
        if (node->plan_seen != cluster->etcd.plan_version) {
            node->plan_seen = cluster->etcd.plan_version;
            struct agent_event event = {.type = AGENT_PLAN, .plan = cluster->etcd.plan};
            feed(cluster, index, &event);
        }
        if (node->next_seen != cluster->etcd.next_version) {
            node->next_seen = cluster->etcd.next_version;
            struct agent_event event = {.type = AGENT_NEXT, .plan = cluster->etcd.next};
            feed(cluster, index, &event);
        }
    }
    if (cluster->now_ns >= node->agent_wake_ns) {
        struct agent_event event = {.type = AGENT_TICK};
        feed(cluster, index, &event);
    }
}

/*
 * Judge at once, as elastic/plan/straggler.h does: report each slot whose speed differs from
 * the plan.
 */
static void judge_stragglers(const struct cluster *cluster, struct leader_view *view)
{
    const struct plan *plan = cluster->etcd.plan;
    for (unsigned rank = 0; plan && rank < plan->layout.worker_count; rank++)
        for (unsigned i = 0; i < cluster->node_count; i++) {
            unsigned slot = plan->layout.workers[rank].slot;
            double slowness = cluster->nodes[i].slowness[slot], known = 1;
            if (strcmp(cluster->nodes[i].name, plan->layout.workers[rank].node) != 0 ||
                view->stragglers.count == STRAGGLER_JUDGEMENTS_MAX)
                continue;
            for (unsigned j = 0; j < plan->slow_count; j++)
                if (plan->slow[j].slot == slot &&
                    strcmp(plan->slow[j].node, cluster->nodes[i].name) == 0)
                    known = plan->slow[j].speed;
            if (slowness * known >= 2 || (slowness < 2 && known < 1))
                view->stragglers.judgements[view->stragglers.count++] =
                    (struct straggler_judgement){rank, slowness >= 2 ? 1 / slowness : 1};
        }
}

void cluster_build_view(struct cluster *cluster, struct leader_view *view, struct member *nodes,
                        const struct node_report **reports)
{
    memset(view, 0, sizeof(*view));
    view->now_ns = cluster->now_ns;
    view->failure_timeout_ns = CLUSTER_TIMEOUT_NS;
    view->spec = &cluster->spec;
    view->wish.desired = cluster->wishes.desired;
    view->wish.devices = cluster->wishes.devices;
    view->wish.stages = cluster->wishes.stages;
    view->wish.replicas = cluster->wishes.replicas;
    view->plan = cluster->etcd.plan;
    view->next = cluster->etcd.next;
    view->finished = cluster->etcd.finished;
    view->nodes = nodes;
    view->reports = reports;
    view->checkpoint.step = cluster->etcd.checkpoint_step;
    view->checkpoint.generation = cluster->etcd.checkpoint_generation;
    snprintf(view->checkpoint.path, sizeof(view->checkpoint.path), "/checkpoint");
    judge_stragglers(cluster, view);
    view->progress.frozen_layers = cluster->frozen_layers;
    view->progress.step = cluster->committed_ever;
    for (unsigned i = 0; i < cluster->node_count; i++) {
        const struct fake_node *from = &cluster->nodes[i];
        if (cluster->etcd.plan &&
            cluster->etcd.reports[i]->generation == cluster->etcd.plan->generation)
            reports[view->report_count++] = cluster->etcd.reports[i];
        if (from->lease_until_ns <= cluster->now_ns)
            continue;
        struct member *node = &nodes[view->node_count++];
        memset(node, 0, sizeof(*node));
        snprintf(node->name, sizeof(node->name), "%s", from->name);
        snprintf(node->host, sizeof(node->host), "127.0.0.1");
        node->link_port = 7000 + 100 * i;
        node->incarnation = from->incarnation;
        node->draining = from->draining;
        node->drain_deadline_ns = from->drain_deadline_ns;
        snprintf(node->numerics_identity, sizeof(node->numerics_identity), "%s",
                 from->numerics_identity);
        node->protocol = from->protocol;
        node->slot_count = from->slot_count;
        for (unsigned s = 0; s < from->slot_count; s++)
            node->slots[s] = (struct member_slot){.index = s,
                                                  .speed = 1,
                                                  .bad = from->slot_bad[s],
                                                  .tried_again = from->slot_tried_again[s]};
        snprintf(node->other_numerics_identities[0], PLAN_NUMERICS_SIZE, "%s",
                 from->other_numerics_identities);
        node->slots[from->slot_count - 1].computes = from->other_numerics_identities[0] != '\0';
    }
}

/* Assert that every unit of a plan from memory has its planned source: a live process or a move. */
static void check_plan(struct cluster *cluster, const struct plan *plan)
{
    struct error error = {0};
    if (plan_check(plan, &error) < 0)
        fail_msg("plan: %s", error.text);
    assert_true(!cluster->etcd.plan || plan->generation > cluster->etcd.plan->generation);
    if (plan->layout.worker_count > 0)
        assert_int_equal(plan_layout_unit_count(&plan->layout), cluster->unit_count);
}

/*
 * Assert that the job falls back only if no set of live processes has every unit at the last steps.
 */
static void check_fallback(struct cluster *cluster)
{
    for (unsigned i = 0; i < cluster->worker_count; i++) {
        const struct fake_worker *one = &cluster->workers[i];
        if (!one->alive || one->status.held_unit_count == 0 ||
            one->status.applied_step + 1 < cluster->committed_ever ||
            one->status.applied_step <= cluster->etcd.checkpoint_step)
            continue;
        unsigned covered = 0;
        for (unsigned unit = 0; unit < cluster->unit_count; unit++)
            for (unsigned j = 0; j < cluster->worker_count; j++)
                if (cluster->workers[j].alive && fake_reports_unit(&cluster->workers[j], unit) &&
                    cluster->workers[j].unit_step[unit] == one->status.applied_step) {
                    covered++;
                    break;
                }
        if (covered == cluster->unit_count)
            fail_msg("fell back to disk although step %llu lives: %s",
                     (unsigned long long)one->status.applied_step, cluster->leader.text);
    }
}

static void set_plan(struct plan **key, uint64_t *version, struct plan *plan)
{
    plan_free(*key);
    *key = plan;
    (*version)++;
}

static void apply_decision(struct cluster *cluster, struct leader_decision *decision)
{
    struct plan *plan = decision->plan;
    cluster->leader.state = decision->state;
    memcpy(cluster->leader.text, decision->text, sizeof(cluster->leader.text));
    if (plan && plan->links.key[0] == '\0')
        for (unsigned i = 0; i < PLAN_KEY_HEX_SIZE - 1; i++)
            plan->links.key[i] = "0123456789abcdef"[cluster_random(cluster, 16)];
    switch (decision->action) {
    case LEADER_NOTHING:
        break;
    case LEADER_PREPARE:
        check_plan(cluster, plan);
        set_plan(&cluster->etcd.next, &cluster->etcd.next_version, plan);
        cluster->events.prepared++;
        break;
    case LEADER_PUBLISH:
        check_plan(cluster, plan);
        if (cluster->etcd.plan && plan->start.source != PLAN_SOURCE_MEMORY &&
            plan->change.reason == PLAN_REASON_FAILURE) {
            check_fallback(cluster);
            cluster->events.restarts_from_disk++;
            cluster->committed_ever = plan->start.resume_step;
        }
        if (plan->change.reason == PLAN_REASON_RESUME)
            cluster->committed_ever = plan->start.resume_step;
        cluster->events.published++;
        cluster->events.reasons[plan->change.reason]++;
        set_plan(&cluster->etcd.plan, &cluster->etcd.plan_version, plan);
        set_plan(&cluster->etcd.next, &cluster->etcd.next_version, NULL);
        break;
    case LEADER_DROP_NEXT:
        set_plan(&cluster->etcd.next, &cluster->etcd.next_version, NULL);
        cluster->events.dropped++;
        break;
    case LEADER_FINISH:
        cluster->leader.over = true;
        break;
    }
}

/* Return a number that changes whenever the view changes, except for its time. */
static uint64_t view_fingerprint(const struct cluster *cluster)
{
    const uint64_t parts[] = {cluster->etcd.plan_version,
                              cluster->etcd.next_version,
                              cluster->etcd.report_version,
                              cluster->wishes.desired,
                              cluster->wishes.devices,
                              cluster->wishes.stages,
                              cluster->wishes.replicas,
                              cluster->frozen_layers,
                              cluster->etcd.finished,
                              cluster->leader.memory.published.ns,
                              cluster->etcd.checkpoint_step > 0,
                              cluster->spec.train.lanes};
    uint64_t print = 1;
    for (unsigned i = 0; i < ARRAY_COUNT(parts); i++)
        print = print * 1000003 + parts[i];
    for (unsigned i = 0; i < cluster->node_count; i++) {
        const struct fake_node *node = &cluster->nodes[i];
        print = print * 1000003 + (node->lease_until_ns > cluster->now_ns) + 2 * node->draining;
        print = print * 1000003 + node->incarnation;
        for (unsigned slot = 0; slot < CLUSTER_SLOTS; slot++) {
            print = print * 2 + node->slot_bad[slot];
            print = print * 1000003 + (uint64_t)(1000 * node->slowness[slot]);
        }
    }
    return print;
}

/*
 * Run the leader as the daemon does: after every change, and when its last decision asked for it.
 */
static void leader_tick(struct cluster *cluster)
{
    static struct member nodes[CLUSTER_NODES];
    static const struct node_report *reports[CLUSTER_NODES];
    if (cluster->leader.quiet || cluster->now_ns < cluster->leader.at_ns ||
        (view_fingerprint(cluster) == cluster->leader.saw &&
         cluster->now_ns < cluster->leader.wake_ns))
        return;
    cluster->leader.at_ns = cluster_delay(cluster, 40);
    struct leader_view view;
    struct leader_decision decision;
    struct error error;
    cluster_build_view(cluster, &view, nodes, reports);
    cluster->leader.over = false;
    int status = leader_decide(&view, &cluster->leader.memory, &decision, &error);
    if (status < 0)
        fail_msg("leader: %s", error.text);
    cluster->leader.saw = view_fingerprint(cluster);
    cluster->leader.wake_ns = decision.wake_at_ns;
    apply_decision(cluster, &decision);
}

void cluster_tick(struct cluster *cluster)
{
    cluster->now_ns += CLUSTER_TICK_NS;
    for (unsigned i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].alive)
            fake_act(cluster, &cluster->workers[i]);
    for (unsigned i = 0; i < cluster->node_count; i++)
        node_tick(cluster, i);
    leader_tick(cluster);
}

void cluster_start_daemon(struct cluster *cluster, unsigned index)
{
    struct fake_node *node = &cluster->nodes[index];
    assert_null(node->agent);
    node->agent =
        agent_new(cluster->spec.name, node->name, node->protocol.links, CLUSTER_TIMEOUT_NS);
    assert_non_null(node->agent);
    node->up = true;
    node->incarnation++;
    node->inbox.count = 0;
    node->agent_wake_ns = UINT64_MAX;
    node->plan_seen = node->next_seen = UINT64_MAX;
    node->sync_at_ns = cluster->now_ns;
    if (cluster->etcd.plan &&
        cluster->etcd.reports[index]->generation == cluster->etcd.plan->generation) {
        struct agent_event said = {.type = AGENT_REPORTED, .report = cluster->etcd.reports[index]};
        feed(cluster, index, &said);
    }
    for (unsigned i = 0; i < cluster->worker_count; i++) {
        struct fake_worker *worker = &cluster->workers[i];
        if (!worker->alive || worker->node != index || worker->activity == FAKE_BOOTING)
            continue;
        struct agent_event up = {.type = AGENT_WORKER_UP, .slot = worker->slot};
        feed(cluster, index, &up);
        fake_inbox_put(cluster, worker, AGENT_WORKER_STATUS);
    }
    if (!cluster->etcd.next)
        node->next_seen = cluster->etcd.next_version;
    if (!cluster->etcd.plan)
        node->plan_seen = cluster->etcd.plan_version;
}

void cluster_stop_daemon(struct cluster *cluster, unsigned index)
{
    agent_free(cluster->nodes[index].agent);
    cluster->nodes[index].agent = NULL;
    cluster->nodes[index].inbox.count = 0;
    /* A worker that was still starting has no daemon to greet. */
    for (unsigned i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].alive && cluster->workers[i].node == index &&
            cluster->workers[i].activity == FAKE_BOOTING)
            fake_exit(cluster, &cluster->workers[i], -9);
}

void cluster_kill_worker(struct cluster *cluster, struct fake_worker *worker)
{
    fake_exit(cluster, worker, -9);
}

void cluster_kill_node(struct cluster *cluster, unsigned index)
{
    if (cluster->nodes[index].agent)
        cluster_stop_daemon(cluster, index);
    cluster->nodes[index].up = false;
    for (unsigned i = 0; i < cluster->worker_count; i++)
        if (cluster->workers[i].alive && cluster->workers[i].node == index)
            fake_exit(cluster, &cluster->workers[i], -9);
}

struct cluster *cluster_new(uint64_t seed, unsigned nodes, unsigned slots)
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
    cluster->unit_count = job_model_unit_count(&cluster->spec.model);
    assert_true(cluster->unit_count <= UNITS_MAX);
    for (unsigned i = 0; i < nodes; i++) {
        snprintf(cluster->nodes[i].name, sizeof(cluster->nodes[i].name), "%c", 'a' + i);
        cluster->nodes[i].slot_count = slots;
        cluster->nodes[i].protocol.links = CLUSTER_LINKS;
        cluster->etcd.reports[i] = calloc(1, sizeof(struct node_report));
        assert_non_null(cluster->etcd.reports[i]);
        cluster_start_daemon(cluster, i);
    }
    return cluster;
}

void cluster_free(struct cluster *cluster)
{
    for (unsigned i = 0; i < cluster->worker_count; i++) {
        plan_free(cluster->workers[i].plan);
        plan_free(cluster->workers[i].pending);
    }
    for (unsigned i = 0; i < cluster->node_count; i++) {
        agent_free(cluster->nodes[i].agent);
        free(cluster->etcd.reports[i]);
    }
    plan_free(cluster->etcd.plan);
    plan_free(cluster->etcd.next);
    free(cluster);
}

bool cluster_trains(struct cluster *cluster)
{
    const struct plan *plan = cluster->etcd.plan;
    if (!plan || plan->layout.worker_count == 0)
        return false;
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++)
        if (!fake_in(
                fake_at(cluster, plan->layout.workers[rank].node, plan->layout.workers[rank].slot),
                plan->generation, FAKE_TRAINING))
            return false;
    return true;
}

void cluster_run(struct cluster *cluster, double seconds)
{
    uint64_t end = cluster->now_ns + (uint64_t)(seconds * 1e9);
    while (cluster->now_ns < end)
        cluster_tick(cluster);
}

void cluster_progress(struct cluster *cluster, unsigned steps, double seconds)
{
    uint64_t target = cluster->committed_ever + steps;
    cluster_until(cluster, seconds, cluster_trains(cluster) && cluster->committed_ever >= target);
}

unsigned cluster_alive(const struct cluster *cluster)
{
    unsigned alive = 0;
    for (unsigned i = 0; i < cluster->worker_count; i++)
        alive += cluster->workers[i].alive;
    return alive;
}

struct cluster *cluster_training(unsigned nodes, unsigned slots)
{
    struct cluster *cluster = cluster_new(1, nodes, slots);
    cluster_progress(cluster, 5, 20);
    return cluster;
}

struct fake_worker *cluster_rank_worker(struct cluster *cluster, unsigned rank)
{
    const struct plan_worker *place = &cluster->etcd.plan->layout.workers[rank];
    struct fake_worker *worker = fake_at(cluster, place->node, place->slot);
    assert_non_null(worker);
    return worker;
}
