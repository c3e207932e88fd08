#include "daemon/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/arithmetic.h"
#include "daemon/earlier_report.h"
#include "daemon/inventory.h"
#include "daemon/leading.h"
#include "daemon/storing.h"
#include "daemon/suspicion.h"

#define NODE_TTL_S      10
#define LEADER_TTL_S    3
#define PASSWORD_MAX    4096
#define ETCD_TIMEOUT_NS NS_PER_SECOND /* well below the leader's time to live */

/* ---- this node's record ---- */

void daemon_publish_self(struct daemon *daemon)
{
    AUTO_JSON json_t *tree = node_record_encode(&daemon->self);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;

    if (!text || (daemon->registry && registry_update(daemon->registry, text)))
        log_error("no memory to publish this node's record");
}

static void describe_self(struct daemon *daemon)
{
    const struct config *config = daemon->config;
    struct node_record *self = &daemon->self;

    snprintf(self->host, sizeof(self->host), "%s", config->address);
    snprintf(self->http, sizeof(self->http), "%s", config->http);
    snprintf(self->domain, sizeof(self->domain), "%s", config->domain);
    self->incarnation = daemon->incarnation;
    snprintf(self->version, sizeof(self->version), "%s", FIRN_VERSION);
    self->link_port = config->link_port;
}

/* ---- what the store tells ---- */

static void observe_leader(struct daemon *daemon)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry =
        mirror_find(&daemon->mirror, keys_leader(key, daemon->config->cluster));

    if (!daemon->election)
        return;
    if (!entry) {
        election_observe(daemon->election, NULL, daemon->mirror.revision);
        return;
    }
    const struct kv_entry seen = {
        .key = entry->key,
        .value = entry->value,
        .value_bytes = strlen(entry->value),
        .create_revision = entry->create_revision,
        .mod_revision = entry->mod_revision,
        .lease = entry->lease,
    };
    election_observe(daemon->election, &seen, daemon->mirror.revision);
}

static void on_snapshot(void *context, const struct kv_entry *entries, size_t count,
                        int64_t revision)
{
    struct daemon *daemon = context;

    if (mirror_snapshot(&daemon->mirror, entries, count, revision))
        log_error("no memory for the cluster's keys: this node's picture is incomplete");
    daemon->partial = !daemon->watches_all;
    earlier_report_forget(daemon->earlier);
    observe_leader(daemon);
    daemon_wake(daemon);
}

static void on_events(void *context, const struct kv_event *events, size_t count, int64_t revision)
{
    struct daemon *daemon = context;
    char leader_key[KV_KEY_MAX];
    bool leader_changed = false;

    keys_leader(leader_key, daemon->config->cluster);
    for (size_t i = 0; i < count; i++) {
        if (mirror_apply(&daemon->mirror, &events[i], revision))
            log_error("no memory for a key of the cluster: this node's picture is incomplete");
        leader_changed |= !strcmp(events[i].entry.key, leader_key);
    }
    if (leader_changed)
        observe_leader(daemon);
    daemon_wake(daemon);
}

static void on_store_state(void *context, const struct error *error)
{
    struct daemon *daemon = context;

    if (error && !daemon->store_away)
        log_warning("etcd is away: %s; training goes on, changes wait", error->text);
    else if (!error && daemon->store_away)
        log_info("etcd is back");
    daemon->store_away = error != NULL;
    daemon_wake(daemon);
}

static void on_registered(void *context, enum registry_state state, const struct error *error)
{
    struct daemon *daemon = context;

    daemon->registered = state == REGISTRY_REGISTERED;
    switch (state) {
    case REGISTRY_REGISTERED:
        log_info("node %s is registered in cluster %s with %u slots", daemon->config->node,
                 daemon->config->cluster, daemon->self.slot_count);
        sd_notifyf(0, "READY=1\nSTATUS=registered in cluster %s, %u slots", daemon->config->cluster,
                   daemon->self.slot_count);
        break;
    case REGISTRY_CONNECTING:
        log_warning("not registered: %s; trying on",
                    error ? error->text : "no answer from etcd yet");
        sd_notifyf(0, "STATUS=not registered: %s", error ? error->text : "no answer from etcd yet");
        break;
    case REGISTRY_REFUSED:
        log_error("%s", error ? error->text : "this node's name is taken");
        daemon_leave(daemon, EXIT_FAILURE);
        break;
    }
}

/*
 * What nodes say (registrations, reports, progress) concerns the leader alone: if all followed it,
 * each node's word would cost a message to every other node.
 */
static int follow_keys(struct daemon *daemon, bool all)
{
    static const struct kv_watch_callbacks callbacks = {
        .snapshot = on_snapshot,
        .events = on_events,
        .state = on_store_state,
    };
    char prefix[KV_KEY_MAX], before[KV_KEY_MAX];
    const char *cluster = daemon->config->cluster;
    struct kv_watch *watch;
    int status =
        daemon->kv->watch(daemon->kv->context, keys_cluster(prefix, cluster),
                          all ? NULL : keys_nodes(before, cluster), &callbacks, daemon, &watch);

    if (status)
        return status;
    if (daemon->watch)
        daemon->kv->unwatch(daemon->kv->context, daemon->watch);
    daemon->watch = watch;
    daemon->watches_all = all;
    daemon->partial = true;     /* until the new watch has told what there is */
    daemon->store_away = false; /* so said the old one; the new one finds out for itself */
    return 0;
}

static void on_elected(void *context, bool leads, const char *leader)
{
    struct daemon *daemon = context;

    if (leads)
        log_info("this node leads now");
    else
        log_debug("the leader is %s", leader[0] ? leader : "not known");
    if (leads != daemon->watches_all && follow_keys(daemon, leads))
        log_error("no memory to follow the cluster's keys as %s", leads ? "leader" : "follower");
    daemon_wake(daemon);
}

/* ---- start and end ---- */

static int read_password(const struct config *config, char *ret_password, size_t size,
                         struct error *error)
{
    struct bytes text = {0};
    int status;

    if (!config->etcd_password_file[0])
        return 0;
    status = file_read(config->etcd_password_file, size - 1, &text, error);
    if (!status) {
        snprintf(ret_password, size, "%s", (const char *)text.data);
        ret_password[strcspn(ret_password, "\r\n")] = '\0';
    }
    bytes_done(&text);
    return status;
}

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static int open_store(struct daemon *daemon, struct error *error)
{
    const struct config *config = daemon->config;
    char password[PASSWORD_MAX] = "";
    int status = read_password(config, password, sizeof(password), error);
    const struct etcd_options options = {
        .endpoints = config->endpoints,
        .request_timeout_ns = ETCD_TIMEOUT_NS,
        .user = or_null(config->etcd_user),
        .password = or_null(password),
        .ca_file = or_null(config->etcd_ca),
        .certificate_file = or_null(config->etcd_certificate),
        .key_file = or_null(config->etcd_key),
    };

    if (!status)
        status = etcd_new(&daemon->loop.loop, &options, &daemon->etcd, error);
    explicit_bzero(password, sizeof(password));
    if (status)
        return status;
    daemon->kv = etcd_kv(daemon->etcd);
    return outbox_new(&daemon->loop.loop, daemon->kv, &daemon->outbox);
}

static int start_membership(struct daemon *daemon, uint64_t takeover)
{
    const struct config *config = daemon->config;
    const struct loop *loop = &daemon->loop.loop;
    const struct registry_options registry_options = {.cluster = config->cluster,
                                                      .node = config->node,
                                                      .ttl_seconds = NODE_TTL_S,
                                                      .incarnation = daemon->incarnation,
                                                      .takeover = takeover};
    const struct election_options election_options = {
        .cluster = config->cluster, .node = config->node, .ttl_seconds = LEADER_TTL_S};
    AUTO_JSON json_t *tree = node_record_encode(&daemon->self);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    int status = text ? 0 : -ENOMEM;

    if (!status)
        status = registry_start(loop, daemon->kv, &registry_options, text, on_registered, daemon,
                                &daemon->registry);
    if (!status)
        status = election_start(loop, daemon->kv, &election_options, on_elected, daemon,
                                &daemon->election);
    if (!status)
        status = leading_new(daemon, &daemon->leading);
    if (!status)
        status = storing_new(daemon, &daemon->storing);
    if (!status)
        status = suspicion_new(daemon, &daemon->suspicion);
    if (!status)
        status = earlier_report_new(daemon, &daemon->earlier);
    if (!status)
        status = follow_keys(daemon, false);
    return status;
}

int cluster_join(struct daemon *daemon, uint64_t takeover, struct error *error)
{
    int status = inventory_open(daemon, &daemon->inventory, error);

    describe_self(daemon);
    if (!status)
        arithmetic_describe(daemon->config, inventory_gpu_name(daemon->inventory), &daemon->self);
    if (!status)
        status = open_store(daemon, error);
    return status ? status : start_membership(daemon, takeover);
}

void cluster_part(struct daemon *daemon)
{
    leading_free(daemon->leading);
    storing_free(daemon->storing);
    suspicion_free(daemon->suspicion);
    earlier_report_free(daemon->earlier);
    if (daemon->watch)
        daemon->kv->unwatch(daemon->kv->context, daemon->watch);
    election_stop(daemon->election);
    registry_abandon(daemon->registry);
    outbox_free(daemon->outbox);
    etcd_free(daemon->etcd);
    mirror_done(&daemon->mirror);
    inventory_close(daemon->inventory);
}
