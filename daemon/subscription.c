#include "daemon/subscription.h"

#include <string.h>

#include "base/log.h"
#include "daemon/core/daemon.h"
#include "daemon/jobs/earlier_report.h"
#include "membership/kv/keys.h"

static void observe_leader(struct daemon *daemon)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry =
        mirror_find(&daemon->keys.mirror, keys_leader(key, daemon->config->cluster));

    if (!daemon->node.election)
        return;
    if (!entry) {
        election_observe(daemon->node.election, NULL, daemon->keys.mirror.revision);
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
    election_observe(daemon->node.election, &seen, daemon->keys.mirror.revision);
}

static void on_snapshot(void *context, const struct kv_entry *entries, size_t count,
                        int64_t revision)
{
    struct daemon *daemon = context;

    if (mirror_snapshot(&daemon->keys.mirror, entries, count, revision))
        log_error("no memory for the cluster's keys: this node's picture is incomplete");
    daemon->keys.partial = !daemon->keys.watches_all;
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
        if (mirror_apply(&daemon->keys.mirror, &events[i], revision))
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

    if (error && !daemon->keys.away)
        log_warning("etcd is unreachable: %s; training continues, changes wait", error->text);
    else if (!error && daemon->keys.away)
        log_info("etcd is back");
    daemon->keys.away = error;
    daemon_wake(daemon);
}

int subscription_set(struct daemon *daemon, bool all)
{
    static const struct kv_watch_callbacks callbacks = {
        .snapshot = on_snapshot,
        .events = on_events,
        .state = on_store_state,
    };
    char prefix[KV_KEY_MAX], before[KV_KEY_MAX];
    const char *cluster = daemon->config->cluster;
    struct kv_watch *watch;

    if (daemon->keys.watch && daemon->keys.watches_all == all)
        return 0;
    int status = daemon->keys.kv->watch(daemon->keys.kv->context, keys_cluster(prefix, cluster),
                                        all ? NULL : keys_nodes(before, cluster), &callbacks,
                                        daemon, &watch);
    if (status)
        return status;
    subscription_stop(&daemon->keys);
    daemon->keys.watch = watch;
    daemon->keys.watches_all = all;
    daemon->keys.partial = true; /* until the new watch has delivered its snapshot */
    daemon->keys.away = false;   /* state of the old watch; the new one detects it anew */
    return 0;
}

void subscription_stop(struct cluster_keys *keys)
{
    if (keys->watch)
        keys->kv->unwatch(keys->kv->context, keys->watch);
    keys->watch = NULL;
}
