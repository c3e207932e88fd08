#include "daemon/jobs/peers.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "daemon/core/daemon.h"
#include "membership/kv/keys.h"

static void add(struct checkpoint_remote_options *options, struct checkpoint_remote_node *nodes,
                const char *name, const char *http)
{
    for (unsigned i = 0; i < options->node_count; i++)
        if (!strcmp(nodes[i].name, name))
            return;
    memcpy(nodes[options->node_count].name, name, NAME_SIZE);
    memcpy(nodes[options->node_count].http, http, ADDRESS_SIZE);
    options->node_count++;
}

static void add_registered(const struct config *config, const struct mirror_entry *entries,
                           size_t count, struct checkpoint_remote_options *options,
                           struct checkpoint_remote_node *nodes)
{
    for (size_t i = 0; i < count; i++) {
        char name[NAME_SIZE];
        struct node_record record;
        AUTO_JSON json_t *tree = NULL;
        if (keys_match_node(entries[i].key, config->cluster, name) &&
            !json_parse(entries[i].value, strlen(entries[i].value), entries[i].key, &tree, NULL) &&
            !node_record_decode(tree, &record, NULL))
            add(options, nodes, name, record.http);
    }
}

int peers_reach(const struct job *job, struct checkpoint_remote_options *options,
                struct checkpoint_remote_node **ret_nodes)
{
    const struct daemon *daemon = job->daemon;
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count =
        mirror_range(&daemon->keys.mirror, keys_cluster(prefix, daemon->config->cluster), &entries);

    if (!job->plans.plan || !plan_key_bytes(job->plans.plan->links.key, options->key))
        return -ENOKEY;
    struct checkpoint_remote_node *nodes =
        calloc(count + job->plans.plan->checkpoints.copy_node_count + 1, sizeof(*nodes));
    if (!nodes)
        return -ENOMEM;
    options->job = job->name;
    options->timeout_ns = daemon->config->failure_timeout_ns;
    options->nodes = nodes;
    options->node_count = 0;
    add_registered(daemon->config, entries, count, options, nodes);
    for (unsigned i = 0; i < job->plans.plan->checkpoints.copy_node_count; i++)
        add(options, nodes, job->plans.plan->checkpoints.copy_nodes[i].node,
            job->plans.plan->checkpoints.copy_nodes[i].http);
    *ret_nodes = nodes;
    return 0;
}
