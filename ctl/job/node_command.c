/* firnctl node ...: the machines of the cluster. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/size_words.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/node_remarks.h"
#include "ctl/command/commands.h"
#include "ctl/view/format.h"
#include "ctl/view/output.h"
#include "ctl/view/text_table.h"
#include "elastic/plan/wire_text.h"

/* ---- list ---- */

static const char *node_state(const struct cluster_node *node)
{
    return node->record.draining || node->drained ? "draining" : "ready";
}

/* Return whether workers that the plan releases may still be leaving, by the leader's state. */
static bool lets_go(const struct cluster_job *job)
{
    const char *state = cluster_job_state(job);

    return !strcmp(state, "pausing") || !strcmp(state, "preparing") || !strcmp(state, "recovering");
}

/* Count slots in use as the leader does when it looks for free ones (daemon/core/view.c). */
static unsigned slots_in_use(const struct cluster *cluster, const char *node)
{
    bool used[RECORD_SLOTS_MAX] = {false};
    unsigned count = 0;

    for (size_t i = 0; i < cluster->job_count; i++) {
        const struct cluster_job *job = &cluster->jobs[i];
        const struct plan *plans[] = {job->plan, job->next};
        for (size_t p = 0; p < ARRAY_COUNT(plans) && !cluster_job_over(job); p++) {
            unsigned ranks = plans[p] ? plans[p]->layout.worker_count : 0;
            if (p == 0 && plans[p] && lets_go(job))
                ranks += plans[p]->layout.donor_count;
            for (unsigned rank = 0; rank < ranks; rank++)
                if (!strcmp(plans[p]->layout.workers[rank].node, node) &&
                    plans[p]->layout.workers[rank].slot < RECORD_SLOTS_MAX)
                    used[plans[p]->layout.workers[rank].slot] = true;
        }
    }
    for (unsigned slot = 0; slot < RECORD_SLOTS_MAX; slot++)
        count += used[slot];
    return count;
}

static void add_row(struct text_table *table, const struct cluster *cluster,
                    const struct cluster_node *node)
{
    const struct node_record *record = &node->record;
    char memory[FORMAT_SIZE], remarks[NODE_REMARKS_SIZE];

    node_remarks(cluster, node, remarks);
    text_table_cell(table, "%s%s", node->name,
                    strcmp(cluster->leader, node->name) ? "" : " (leads)");
    text_table_cell(table, "%s", node_state(node));
    text_table_cell(table, "%u of %u", slots_in_use(cluster, node->name), record->slot_count);
    text_table_cell(table, "%s", record->slot_count ? record->slots[0].kind : "-");
    text_table_cell(table, "%u", record->slot_count ? record->slots[0].thread_count : 0);
    text_table_cell(table, "%s",
                    record->slot_count ? size_words(record->slots[0].memory_bytes, memory) : "-");
    text_table_cell(table, "%s", record->host);
    text_table_cell(table, "%s", record->http);
    text_table_cell(table, "%s", remarks);
}

static json_t *node_json(const struct cluster *cluster, const struct cluster_node *node)
{
    json_t *tree = json_pack("{s:s, s:s, s:b, s:i}", "name", node->name, "state", node_state(node),
                             "leads", !strcmp(cluster->leader, node->name), "slots_in_use",
                             (int)slots_in_use(cluster, node->name));
    AUTO_JSON json_t *record = node_record_encode(&node->record);
    json_t *incarnation = wire_instance(node->record.incarnation);

    /* A string, unlike in etcd: many JSON parsers keep only 53 bits of a number. */
    if (!tree || !record || json_object_set_new(tree, "incarnation", incarnation) ||
        json_object_update_missing(tree, record)) {
        json_decref(tree);
        return NULL;
    }
    return tree;
}

static int list_json(const struct cluster *cluster, struct error *error)
{
    json_t *nodes = json_array();

    for (size_t i = 0; i < cluster->node_count && nodes; i++)
        if (json_array_append_new(nodes, node_json(cluster, &cluster->nodes[i]))) {
            json_decref(nodes);
            nodes = NULL;
        }
    return output_json(nodes ? json_pack("{s:o}", "nodes", nodes) : NULL, error);
}

static int list_table(const struct cluster *cluster, struct error *error)
{
    CLEANUP(text_table_done) struct text_table table = {0};

    if (!cluster->node_count) {
        printf(
            "no node is registered: is firnd running, with this etcd and this cluster's name? Its "
            "log says so if etcd refuses writes\n");
        return 0;
    }
    text_table_init(&table, "NODE|STATE|#SLOTS USED|KIND|#THREADS|#MEMORY|ADDRESS|HTTP|");
    for (size_t i = 0; i < cluster->node_count; i++)
        add_row(&table, cluster, &cluster->nodes[i]);
    return text_table_print(&table) ? error_set(error, -ENOMEM, "no memory for the table") : 0;
}

int run_node_list(const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status)
        return status;
    return arguments_has(arguments, "json") ? list_json(&cluster, error)
                                            : list_table(&cluster, error);
}

/* ---- drain and resume ---- */

/* @deadline_s: the node leaves by then; 0: unknown */
static int write_drain(struct cluster_client *client, const char *node, bool drain,
                       uint64_t deadline_s, struct error *error)
{
    char key[KV_KEY_MAX], excused[KV_KEY_MAX], value[96];
    uint64_t now_ns = clock_unix_ns();
    size_t length = strlen(keys_cluster(key, client->cluster));
    bool succeeded;

    snprintf(key + length, sizeof(key) - length, "drains/%s", node);
    if (deadline_s)
        snprintf(value, sizeof(value), "{\"unix_ns\":%" PRIu64 ",\"deadline_unix_ns\":%" PRIu64 "}",
                 now_ns, now_ns + deadline_s * (uint64_t)NS_PER_SECOND);
    else
        snprintf(value, sizeof(value), "{\"unix_ns\":%" PRIu64 "}", now_ns);
    keys_excused(excused, client->cluster, node);
    const struct kv_operation operations[] = {
        {.type = drain ? KV_PUT : KV_DELETE, .key = key, .value = drain ? value : NULL},
        {.type = KV_PUT, .key = excused, .value = value}, /* only for a resume */
    };
    return cluster_client_txn(client, NULL, 0, operations, drain ? 1 : 2, &succeeded, error);
}

struct report_search {
    const char *cluster, *node;
    bool found;
};

static int find_report(void *context, const struct kv_result *result, struct error *error)
{
    struct report_search *search = context;
    char job[NAME_SIZE], leaf[128];

    (void)error;
    for (size_t i = 0; i < result->entry_count && !search->found; i++)
        search->found = keys_match_said(result->entries[i].key, search->cluster, job, leaf) &&
                        !strncmp(leaf, "reports/", strlen("reports/")) &&
                        !strcmp(strrchr(leaf, '/') + 1, search->node);
    return 0;
}

/* Find out whether the node has had a part in a job that is still listed. */
static int find_traces(struct cluster_client *client, const char *node, bool *ret_found)
{
    struct report_search search = {.cluster = client->cluster, .node = node};
    char prefix[KV_KEY_MAX];
    size_t length = strlen(keys_cluster(prefix, client->cluster));

    snprintf(prefix + length, sizeof(prefix) - length, "said/");
    int status = cluster_client_range(client, prefix, true, find_report, &search, NULL);
    *ret_found = search.found;
    return status;
}

/* Return -ENOENT if there is no trace of the node. An absent node may be resumed, so that it works
 * when it is back. */
static int check_resume(struct cluster_client *client, const struct cluster *cluster,
                        const char *node, struct error *error)
{
    char key[KV_KEY_MAX];
    size_t length = strlen(keys_cluster(key, client->cluster));
    const struct kv_compare absent = {.key = key, .target = KV_MOD_REVISION, .value = 0};
    const struct kv_operation nothing = {.type = KV_DELETE, .key = key};
    bool is_absent, has_traces;

    if (cluster_find_node(cluster, node, error))
        return 0;
    snprintf(key + length, sizeof(key) - length, "drains/%s", node);
    int status = cluster_client_txn(client, &absent, 1, &nothing, 1, &is_absent, NULL);
    if (status || !is_absent)
        return status;
    status = find_traces(client, node, &has_traces);
    return status ? status : has_traces ? 0 : -ENOENT;
}

static int change_drain(const struct arguments *arguments, bool drain, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    const char *name = arguments->operands[0];
    int status =
        name_valid(name) ? 0 : error_set(error, -EINVAL, "\"%s\" is not a node's name", name);

    if (!status)
        status = cluster_open(arguments, &client, &cluster, error);
    if (!status && drain && !cluster_find_node(&cluster, name, error))
        status = -ENOENT;
    if (!status && !drain)
        status = check_resume(&client, &cluster, name, error);
    if (!status)
        status =
            write_drain(&client, name, drain, arguments_number(arguments, "deadline", 0), error);
    if (status)
        return status;
    if (drain)
        printf(
            "node %s drains: its work moves when the step ends, or sooner if the step is long (firnctl top shows it)\n",
            name);
    else
        printf("node %s may work again\n", name);
    return 0;
}

int run_node_drain(const struct arguments *arguments, struct error *error)
{
    return change_drain(arguments, true, error);
}

int run_node_resume(const struct arguments *arguments, struct error *error)
{
    return change_drain(arguments, false, error);
}
