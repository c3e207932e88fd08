/*
 * firnd without sd-event: the work of daemon/daemon.c between the store, the jobs and the leader,
 * on simulated time. Its parts (jobs, leading, checkpoint records, view, mirror, subscription,
 * outbox, suspicion, election, registry) are the real ones.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "daemon/config/job_dir.h"
#include "daemon/jobs/earlier_report.h"
#include "daemon/jobs/fencing.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/slot_service.h"
#include "daemon/jobs/suspicion.h"
#include "daemon/leader/leading.h"
#include "daemon/node/inventory.h"
#include "daemon/subscription.h"
#include "membership/kv/keys.h"
#include "sim/node/sim_node.h"
#include "sim/worker/sim_worker.h"

#define NODE_TTL_S   10
#define LEADER_TTL_S 3
#define LINK_PORT    7000

/* ---- the loop: timers ---- */

struct loop_timer {
    struct sim_firnd *firnd;
    struct sim_event *event;
    void (*fired)(void *user);
    void *user;
};

static struct sim_firnd *firnd_of(void *context)
{
    return (struct sim_firnd *)((char *)context - offsetof(struct sim_firnd, daemon.loop));
}

static void timer_fire(void *context)
{
    struct loop_timer *timer = context;
    timer->event = NULL;
    timer->fired(timer->user);
}

static int timer_set(void *context, struct loop_timer *timer, uint64_t at_ns)
{
    const struct sim_firnd *firnd = firnd_of(context);
    sim_cancel(firnd->sim, timer->event);
    timer->event = NULL;
    if (at_ns != UINT64_MAX)
        timer->event = sim_post(firnd->sim, at_ns, &firnd->sim->nodes[firnd->node].firnd_pause,
                                timer_fire, timer);
    return 0;
}

static int timer_add(void *context, uint64_t at_ns, void (*fired)(void *user), void *user,
                     struct loop_timer **ret_timer)
{
    struct loop_timer *timer = sim_allocate(1, sizeof(*timer));
    timer->firnd = firnd_of(context);
    timer->fired = fired;
    timer->user = user;
    *ret_timer = timer;
    return timer_set(context, timer, at_ns);
}

static void timer_remove(void *context, struct loop_timer *timer)
{
    sim_cancel(firnd_of(context)->sim, timer->event);
    free(timer);
}

static uint64_t loop_now(void *context)
{
    return firnd_of(context)->sim->now_ns;
}

/* ---- daemon/core/daemon.h ---- */

static struct sim_firnd *firnd_of_daemon(struct daemon *daemon)
{
    return firnd_of(&daemon->loop);
}

void job_dir_format(const struct config *config, const char *job, char ret_path[CONFIG_TEXT_SIZE])
{
    (void)config;
    snprintf(ret_path, CONFIG_TEXT_SIZE, "/data/%s", job);
}

void daemon_node_publish(struct daemon_node *node)
{
    AUTO_JSON json_t *tree = node_record_encode(&node->self);
    AUTO_FREE char *text = json_text(tree);
    int status = registry_update(node->registry, text);
    assert(status == 0);
}

/* ---- daemon/node/inventory.h: slots that are never broken ---- */

struct inventory {
    struct node_record *self;
};

static struct inventory *inventory_new(struct daemon *daemon)
{
    struct inventory *inventory = sim_allocate(1, sizeof(*inventory));
    inventory->self = &daemon->node.self;
    return inventory;
}

void inventory_excuse_slot(struct inventory *inventory, unsigned slot)
{
    if (sim_now->bug == BUG_FORGOTTEN_SLOT)
        return;
    inventory->self->slots[slot].bad[0] = '\0';
    inventory->self->slots[slot].retry_unix_ns = 0;
}

void inventory_excuse(struct inventory *inventory)
{
    for (unsigned slot = 0; slot < inventory->self->slot_count; slot++)
        inventory_excuse_slot(inventory, slot);
}

/* daemon/reconcile.c */
static void set_draining(struct daemon_node *node, bool draining, uint64_t deadline_unix_ns)
{
    if (node->self.draining == draining && node->self.drain_deadline_unix_ns == deadline_unix_ns)
        return;
    node->self.draining = draining;
    node->self.drain_deadline_unix_ns = deadline_unix_ns;
    if (!draining)
        slot_service_excuse(node->slot_service);
    daemon_node_publish(node);
}

static uint64_t asked_deadline(const struct mirror_entry *entry)
{
    AUTO_JSON json_t *tree = NULL;
    uint64_t deadline_unix_ns = 0;
    if (!entry || json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) ||
        !json_has(tree, "deadline_unix_ns") ||
        json_get_u64(tree, "deadline_unix_ns", INT64_MAX, &deadline_unix_ns, NULL))
        return 0;
    return deadline_unix_ns;
}

static void sync_drain(struct daemon *daemon)
{
    char key[KV_KEY_MAX];
    size_t length = strlen(keys_cluster(key, SIM_CLUSTER));
    snprintf(key + length, sizeof(key) - length, "drains/%s", daemon->config->node);
    const struct mirror_entry *wanted = mirror_find(&daemon->keys.mirror, key);
    set_draining(&daemon->node, wanted, asked_deadline(wanted));
}

static void sync_job(struct daemon *daemon)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *spec =
        mirror_find(&daemon->keys.mirror, keys_job(key, SIM_CLUSTER, SIM_JOB, "spec"));
    struct error error = {0};
    if (!spec)
        return;
    if (!daemon->jobs && !earlier_report_known(daemon->earlier, SIM_JOB))
        return;
    if (!daemon->jobs) {
        AUTO_JSON json_t *tree = NULL;
        AUTO_FREE struct job_spec *decoded = sim_allocate(1, sizeof(*decoded));
        int status = json_parse(spec->value, strlen(spec->value), spec->key, &tree, &error);
        if (status == 0)
            status = job_spec_decode(tree, spec->key, NULL, NULL, decoded, &error);
        if (status == 0)
            status =
                job_open(daemon, SIM_JOB, decoded, spec->create_revision, &daemon->jobs, &error);
        if (status < 0) {
            sim_fail(firnd_of_daemon(daemon)->sim, "job_open: %s", error.text);
            return;
        }
    }
    job_sync(daemon->jobs);
}

static void reconcile(void *context)
{
    struct sim_firnd *firnd = context;
    firnd->reconcile = NULL;
    if (firnd->daemon.keys.mirror.revision == 0)
        return;
    sync_drain(&firnd->daemon);
    slot_service_sync(firnd->daemon.node.slot_service);
    sync_job(&firnd->daemon);
    fencing_look(firnd->daemon.fencing);
    leading_run(firnd->daemon.leading);
}

void daemon_wake(struct daemon *daemon)
{
    struct sim_firnd *firnd = firnd_of_daemon(daemon);
    if (!firnd->reconcile)
        firnd->reconcile = sim_post(firnd->sim, firnd->sim->now_ns,
                                    &firnd->sim->nodes[firnd->node].firnd_pause, reconcile, firnd);
}

/* ---- membership callbacks ---- */

static void restart(void *context)
{
    sim_firnd_end(context, false);
    sim_firnd_start(context);
}

static void on_registered(void *context, enum registry_state state, const struct error *error)
{
    struct daemon *daemon = context;
    daemon->node.registered = state == REGISTRY_REGISTERED;
    sim_trace(sim_now, "%s: registration %d %s", daemon->config->node, state,
              error ? error->text : "");
    if (state == REGISTRY_REFUSED) /* firnd ends, and systemd starts it again */
        sim_post(sim_now, sim_now->now_ns, NULL, restart,
                 &sim_now->nodes[firnd_of_daemon(daemon)->node]);
    fencing_look(daemon->fencing);
}

static void on_elected(void *context, bool leads, const char *leader)
{
    struct daemon *daemon = context;
    sim_trace(sim_now, "%s: leader %s%s", daemon->config->node, leader, leads ? " (me)" : "");
    bool partial = leads && sim_now->bug == BUG_PARTIAL_LEADER;
    int status = partial ? 0 : subscription_set(daemon, leads);
    assert(status == 0);
    if (partial) /* planted bug: takes a partial read for the full one */
        daemon->keys.partial = false;
    daemon_wake(daemon);
}

/* ---- start and end ---- */

static void describe_machine(const struct sim_machine *machine, struct node_record *self)
{
    memcpy(self->numerics_identity, machine->numerics_identity, sizeof(self->numerics_identity));
    memcpy(self->other_numerics_identities[0], machine->last_numerics_identity,
           sizeof(self->other_numerics_identities[0]));
    self->slots[self->slot_count - 1].computes = machine->last_numerics_identity[0] != '\0';
    self->control = machine->control;
    self->control_oldest = machine->control_oldest;
}

static void describe_self(struct sim_firnd *firnd)
{
    struct node_record *self = &firnd->daemon.node.self;
    const struct config *config = &firnd->config;
    snprintf(self->host, sizeof(self->host), "%s", config->address);
    snprintf(self->http, sizeof(self->http), "%s", config->http);
    snprintf(self->version, sizeof(self->version), "sim");
    self->incarnation = firnd->daemon.node.incarnation;
    self->link_port = config->link_port;
    self->links = firnd->sim->nodes[firnd->node].links;
    self->slot_count = config->slots;
    for (unsigned slot = 0; slot < config->slots; slot++) {
        snprintf(self->slots[slot].kind, sizeof(self->slots[slot].kind), "cpu");
        self->slots[slot].thread_count = 1;
        self->slots[slot].speed = 1.0;
        self->slots[slot].memory_bytes = firnd->sim->slot_memory;
    }
    describe_machine(&firnd->sim->nodes[firnd->node].machine, self);
}

static void configure(struct sim_firnd *firnd, const struct sim_node *node)
{
    struct config *config = &firnd->config;
    snprintf(config->cluster, sizeof(config->cluster), SIM_CLUSTER);
    snprintf(config->node, sizeof(config->node), "%s", node->name);
    snprintf(config->address, sizeof(config->address), "10.0.0.%u", node->index + 1);
    snprintf(config->http, sizeof(config->http), "10.0.0.%u:7400", node->index + 1);
    snprintf(config->checkpoint_dir, sizeof(config->checkpoint_dir), SIM_NODE_FOLDER "%s",
             node->name);
    config->link_port = LINK_PORT;
    config->slots = node->slot_count;
    config->threads = 1;
    config->failure_timeout_ns = SIM_FAILURE_TIMEOUT;
}

static int start_membership(struct sim_firnd *firnd, uint64_t takeover)
{
    struct daemon *daemon = &firnd->daemon;
    const struct loop *loop = &daemon->loop.loop;
    const char *node = firnd->config.node;
    const struct registry_options registry_options = {.cluster = SIM_CLUSTER,
                                                      .node = node,
                                                      .ttl_seconds = NODE_TTL_S,
                                                      .incarnation = daemon->node.incarnation,
                                                      .takeover = takeover};
    const struct election_options election_options = {
        .cluster = SIM_CLUSTER, .node = node, .ttl_seconds = LEADER_TTL_S};
    AUTO_JSON json_t *tree = node_record_encode(&daemon->node.self);
    AUTO_FREE char *text = json_text(tree);
    int status = outbox_new(loop, daemon->keys.kv, daemon->config->node, &daemon->keys.outbox);
    if (status == 0)
        status = registry_start(loop, daemon->keys.kv, &registry_options, text, on_registered,
                                daemon, &daemon->node.registry);
    if (status == 0)
        status = election_start(loop, daemon->keys.kv, &election_options, on_elected, daemon,
                                &daemon->node.election);
    if (status == 0)
        status = leading_new(daemon, &daemon->leading);
    if (status == 0)
        status = suspicion_new(daemon, &daemon->suspicion);
    if (status == 0)
        status = fencing_new(daemon, &daemon->fencing);
    if (status == 0)
        status = earlier_report_new(daemon, &daemon->earlier);
    if (status == 0)
        status = slot_service_new(daemon, job_slot_mended, &daemon->node.slot_service);
    if (status == 0)
        status = subscription_set(daemon, false);
    return status;
}

void sim_firnd_start(struct sim_node *node)
{
    struct sim *sim = node->sim;
    if (node->firnd || !node->up)
        return;
    struct sim_firnd *firnd = node->firnd = sim_allocate(1, sizeof(*firnd));
    uint64_t takeover = node->incarnation;
    sim_trace(sim, "%s: firnd starts", node->name);
    node->firnd_pause.until_ns = 0;
    firnd->sim = sim;
    firnd->node = node->index;
    configure(firnd, node);
    sim_client_init(&firnd->client, sim, node->index, &node->firnd_pause);
    struct daemon *daemon = &firnd->daemon;
    daemon->config = &firnd->config;
    daemon->keys.kv = &firnd->client.kv;
    daemon->loop.loop = (struct loop){.context = &daemon->loop,
                                      .timer_add = timer_add,
                                      .timer_set = timer_set,
                                      .timer_remove = timer_remove,
                                      .now_ns = loop_now};
    node->incarnation = daemon->node.incarnation =
        1 + sim_random(sim, STREAM_SETUP, REGISTRY_INCARNATION_MAX - 1);
    daemon->node.inventory = inventory_new(daemon);
    describe_self(firnd);
    int status = start_membership(firnd, takeover);
    assert(status == 0);
}

void sim_firnd_end(struct sim_node *node, bool gently)
{
    struct sim_firnd *firnd = node->firnd;
    if (!firnd)
        return;
    sim_trace(node->sim, "%s: firnd %s", node->name, gently ? "leaves" : "is killed");
    struct daemon *daemon = &firnd->daemon;
    for (unsigned i = 0; i < node->sim->worker_count; i++)
        if (node->sim->workers[i]->node == node->index && !node->sim->workers[i]->listening)
            sim_worker_kill(node->sim->workers[i]); /* PR_SET_PDEATHSIG */
    firnd->client.dead = !gently;                   /* a killed firnd sends nothing more */
    leading_free(daemon->leading);
    suspicion_free(daemon->suspicion);
    earlier_report_free(daemon->earlier);
    job_close(daemon->jobs);
    fencing_free(daemon->fencing);
    slot_service_free(daemon->node.slot_service);
    election_stop(daemon->node.election);
    registry_abandon(daemon->node.registry);
    outbox_free(daemon->keys.outbox);
    sim_client_done(&firnd->client);
    mirror_done(&daemon->keys.mirror);
    sim_cancel(node->sim, firnd->reconcile);
    free(daemon->node.inventory);
    free(firnd);
    node->firnd = NULL;
}

/* ---- the machine ---- */

unsigned sim_node_index(const struct sim *sim, const char *name)
{
    for (unsigned i = 0; i < sim->node_count; i++)
        if (strcmp(sim->nodes[i].name, name) == 0)
            return i;
    assert(false);
    return 0;
}

const char *sim_node_name(const struct sim *sim, unsigned index)
{
    return sim->nodes[index].name;
}

struct sim_node *sim_node_by_http(const struct sim *sim, const char *url)
{
    static const char prefix[] = "http://10.0.0.";
    bool known = strncmp(url, prefix, strlen(prefix)) == 0;
    unsigned long last = known ? strtoul(url + strlen(prefix), NULL, 10) : 0;
    return last >= 1 && last <= sim->node_count ? &sim->nodes[last - 1] : NULL;
}

void sim_node_disturb(struct sim_node *node)
{
    node->disturbed_ns = node->sim->now_ns;
}

/* Cut the power: everything stops at once, without notice. */
void sim_node_lose(struct sim_node *node)
{
    struct sim *sim = node->sim;
    sim_trace(sim, "%s: power is lost", node->name);
    node->up = false;
    node->known_count = 0; /* its memory */
    memset(node->company, 0, sizeof(node->company));
    sim_network_power(sim, node->index, false);
    sim_firnd_end(node, false);
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (sim->workers[i]->node == node->index)
            sim_worker_kill(sim->workers[i]);
}

void sim_node_return(struct sim_node *node)
{
    node->up = true;
    sim_network_power(node->sim, node->index, true);
    sim_firnd_start(node);
}
