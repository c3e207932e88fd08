#include "daemon/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/http_url.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/checkpoint/scrubbing.h"
#include "daemon/checkpoint/upload.h"
#include "daemon/core/daemon.h"
#include "daemon/core/ending.h"
#include "daemon/jobs/earlier_report.h"
#include "daemon/jobs/fencing.h"
#include "daemon/jobs/slot_service.h"
#include "daemon/jobs/suspicion.h"
#include "daemon/leader/leading.h"
#include "daemon/leader/retiring.h"
#include "daemon/node/inventory.h"
#include "daemon/subscription.h"
#include "membership/etcd/password.h"

#define NODE_TTL_S      10
#define LEADER_TTL_S    3
#define ETCD_TIMEOUT_NS NS_PER_SECOND /* well below the leader's lease time */

/* ---- this node's record ---- */

static void describe_self(struct daemon *daemon)
{
    const struct config *config = daemon->config;
    struct node_record *self = &daemon->node.self;

    snprintf(self->host, sizeof(self->host), "%s", config->address);
    if (config->http_certificate[0])
        snprintf(self->http, sizeof(self->http), HTTP_URL_TLS "%.*s",
                 (int)(sizeof(self->http) - sizeof(HTTP_URL_TLS)), config->http);
    else
        snprintf(self->http, sizeof(self->http), "%s", config->http);
    snprintf(self->domain, sizeof(self->domain), "%s", config->domain);
    self->incarnation = daemon->node.incarnation;
    snprintf(self->version, sizeof(self->version), "%s", FIRN_VERSION);
    self->link_port = config->link_port;
}

/* ---- membership events ---- */

static void on_registered(void *context, enum registry_state state, const struct error *error)
{
    struct daemon *daemon = context;

    daemon->node.registered = state == REGISTRY_REGISTERED;
    switch (state) {
    case REGISTRY_REGISTERED:
        log_info("node %s is registered in cluster %s with %u slot%s", daemon->config->node,
                 daemon->config->cluster, daemon->node.self.slot_count,
                 daemon->node.self.slot_count == 1 ? "" : "s");
        sd_notifyf(0, "READY=1\nSTATUS=registered in cluster %s, %u slot%s",
                   daemon->config->cluster, daemon->node.self.slot_count,
                   daemon->node.self.slot_count == 1 ? "" : "s");
        break;
    case REGISTRY_CONNECTING:
        log_warning("not registered: %s; retrying",
                    error ? error->text : "no answer from etcd yet");
        sd_notifyf(0, "STATUS=not registered: %s", error ? error->text : "no answer from etcd yet");
        break;
    case REGISTRY_REFUSED:
        log_error("%s", error ? error->text : "this node's name is taken");
        ending_leave(daemon, EXIT_FAILURE);
        break;
    }
    fencing_look(daemon->fencing);
}

static void on_elected(void *context, bool leads, const char *leader)
{
    struct daemon *daemon = context;

    if (leads)
        log_info("this node is now the leader");
    else
        log_debug("the leader is %s", leader[0] ? leader : "not known");
    if (subscription_set(daemon, leads))
        log_error("no memory to follow the cluster's keys as %s", leads ? "leader" : "follower");
    daemon_wake(daemon);
}

/* ---- start and end ---- */

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static int open_store(struct daemon *daemon, struct error *error)
{
    const struct config *config = daemon->config;
    char password[PASSWORD_SIZE] = "";
    int status = config->etcd_password_file[0]
                     ? password_read(config->etcd_password_file, password, error)
                     : 0;
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
        status = etcd_new(&daemon->loop.loop, &options, &daemon->keys.etcd, error);
    explicit_bzero(password, sizeof(password));
    if (status)
        return status;
    daemon->keys.kv = etcd_kv(daemon->keys.etcd);
    return outbox_new(&daemon->loop.loop, daemon->keys.kv, config->node, &daemon->keys.outbox);
}

static int start_membership(struct daemon *daemon, uint64_t takeover)
{
    const struct config *config = daemon->config;
    const struct loop *loop = &daemon->loop.loop;
    const struct registry_options registry_options = {.cluster = config->cluster,
                                                      .node = config->node,
                                                      .ttl_seconds = NODE_TTL_S,
                                                      .incarnation = daemon->node.incarnation,
                                                      .takeover = takeover};
    const struct election_options election_options = {
        .cluster = config->cluster, .node = config->node, .ttl_seconds = LEADER_TTL_S};
    AUTO_JSON json_t *tree = node_record_encode(&daemon->node.self);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    int status = text ? 0 : -ENOMEM;

    if (!status)
        status = registry_start(loop, daemon->keys.kv, &registry_options, text, on_registered,
                                daemon, &daemon->node.registry);
    if (!status)
        status = election_start(loop, daemon->keys.kv, &election_options, on_elected, daemon,
                                &daemon->node.election);
    if (!status)
        status = leading_new(daemon, &daemon->leading);
    if (!status)
        status = upload_new(daemon, &daemon->checkpoints.upload);
    if (!status)
        status = scrubbing_new(daemon, &daemon->checkpoints.scrubbing);
    if (!status)
        status = retiring_new(daemon, &daemon->retiring);
    if (!status)
        status = suspicion_new(daemon, &daemon->suspicion);
    if (!status)
        status = fencing_new(daemon, &daemon->fencing);
    if (!status)
        status = earlier_report_new(daemon, &daemon->earlier);
    if (!status)
        status = slot_service_new(daemon, job_slot_mended, &daemon->node.slot_service);
    if (!status)
        status = subscription_set(daemon, false);
    return status;
}

int cluster_join(struct daemon *daemon, uint64_t takeover, struct error *error)
{
    int status = inventory_open(daemon, &daemon->node.inventory, error);

    describe_self(daemon);
    if (!status)
        inventory_describe(daemon->node.inventory);
    if (!status)
        status = open_store(daemon, error);
    return status ? status : start_membership(daemon, takeover);
}

void cluster_part(struct daemon *daemon)
{
    leading_free(daemon->leading);
    upload_free(daemon->checkpoints.upload);
    scrubbing_free(daemon->checkpoints.scrubbing);
    retiring_free(daemon->retiring);
    suspicion_free(daemon->suspicion);
    fencing_free(daemon->fencing);
    earlier_report_free(daemon->earlier);
    slot_service_free(daemon->node.slot_service);
    subscription_stop(&daemon->keys);
    election_stop(daemon->node.election);
    registry_abandon(daemon->node.registry);
    outbox_free(daemon->keys.outbox);
    etcd_free(daemon->keys.etcd);
    mirror_done(&daemon->keys.mirror);
    inventory_close(daemon->node.inventory);
}
