#include "ctl/local/local_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

#define VERSION      1
#define EARLIER_NAME "cluster.down.json"
#define STATE_MAX    ((size_t)1 << 20)

static json_t *encode_process(const struct process *process)
{
    return json_pack("{s:i, s:I, s:s}", "pid", (int)process->pid, "start_ticks",
                     (json_int_t)process->start_ticks, "program", process->program);
}

static json_t *encode_node(const struct local_node *node)
{
    return json_pack("{s:s, s:i, s:i, s:o}", "name", node->name, "http_port", (int)node->http_port,
                     "link_port", (int)node->link_port, "process", encode_process(&node->process));
}

char *local_state_encode(const struct local_cluster *cluster)
{
    AUTO_JSON json_t *tree = json_pack(
        "{s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:s, s:{s:i, s:i, s:o}, s:[]}", "version",
        VERSION, "cluster", LOCAL_CLUSTER_NAME, "dir", cluster->dir, "run_root", cluster->run_root,
        "slots", (int)cluster->slots, "threads", (int)cluster->threads, "memory_mb",
        (int)cluster->memory_mb, "own_disks", (int)cluster->own_disks, "config", cluster->config,
        "etcd", "port", (int)cluster->etcd_port, "peer_port", (int)cluster->etcd_peer_port,
        "process", encode_process(&cluster->etcd), "nodes");
    json_t *nodes = json_object_get(tree, "nodes");

    for (unsigned i = 0; i < cluster->node_count && tree; i++)
        if (json_array_append_new(nodes, encode_node(&cluster->nodes[i])))
            return NULL;
    return tree ? json_text_indented(tree) : NULL;
}

static int decode_process(const json_t *parent, struct process *ret_process, struct error *error)
{
    unsigned pid = 0;
    json_t *tree;
    int status = json_get_object(parent, "process", &tree, error);

    if (!status)
        status = json_get_unsigned(tree, "pid", INT32_MAX, &pid, error);
    if (!status)
        status = json_get_u64(tree, "start_ticks", INT64_MAX, &ret_process->start_ticks, error);
    if (!status)
        status = json_get_text(tree, "program", ret_process->program, PROCESS_PATH_SIZE, error);
    ret_process->pid = (pid_t)pid;
    return status;
}

static int decode_node(const json_t *tree, struct local_node *ret_node, struct error *error)
{
    int status = json_get_text(tree, "name", ret_node->name, sizeof(ret_node->name), error);

    if (!status && !name_valid(ret_node->name))
        status = error_set(error, -EINVAL, "\"%s\" is not a node's name", ret_node->name);
    if (!status)
        status = json_get_unsigned(tree, "http_port", 65535, &ret_node->http_port, error);
    if (!status)
        status = json_get_unsigned(tree, "link_port", 65535, &ret_node->link_port, error);
    return status ? status : decode_process(tree, &ret_node->process, error);
}

static int decode_nodes(const json_t *tree, struct local_cluster *cluster, struct error *error)
{
    json_t *nodes;
    int status = json_get_array(tree, "nodes", LOCAL_NODES_MAX, &nodes, error);

    if (status)
        return status;
    cluster->node_count = (unsigned)json_array_size(nodes);
    for (unsigned i = 0; i < cluster->node_count && !status; i++)
        status = decode_node(json_array_get(nodes, i), &cluster->nodes[i], error);
    return status;
}

/* Check that run_root is a folder of firnctl's: `local down` removes it with all its contents. */
static bool run_root_ours(const struct local_cluster *cluster)
{
    size_t length = strlen(cluster->dir), short_length = strlen(LOCAL_SHORT_RUN);

    if (length > 0 && !strncmp(cluster->run_root, cluster->dir, length) &&
        !strcmp(cluster->run_root + length, "/run"))
        return true;
    return !strncmp(cluster->run_root, LOCAL_SHORT_RUN, short_length) &&
           !strchr(cluster->run_root + short_length, '/');
}

static int decode(const json_t *tree, struct local_cluster *cluster, struct error *error)
{
    unsigned version = 0;
    json_t *etcd;
    int status = json_get_unsigned(tree, "version", UINT32_MAX, &version, error);

    if (!status && version != VERSION)
        status = error_set(error, -EINVAL, "version %u is of another firnctl", version);
    if (!status)
        status = json_get_text(tree, "dir", cluster->dir, sizeof(cluster->dir), error);
    if (!status)
        status =
            json_get_text(tree, "run_root", cluster->run_root, sizeof(cluster->run_root), error);
    if (!status && !run_root_ours(cluster))
        status = error_set(error, -EINVAL, "run_root: \"%s\" is no folder of firnctl's",
                           cluster->run_root);
    if (!status)
        status = json_get_unsigned(tree, "slots", 64, &cluster->slots, error);
    if (!status)
        status = json_get_unsigned(tree, "threads", 1024, &cluster->threads, error);
    if (!status && json_has(tree, "memory_mb")) /* an older firnctl did not know it */
        status = json_get_unsigned(tree, "memory_mb", UINT32_MAX, &cluster->memory_mb, error);
    if (!status && json_has(tree, "own_disks"))
        status = json_get_bool(tree, "own_disks", &cluster->own_disks, error);
    if (!status && json_has(tree, "config"))
        status = json_get_text(tree, "config", cluster->config, sizeof(cluster->config), error);
    if (!status)
        status = json_get_object(tree, "etcd", &etcd, error);
    if (!status)
        status = json_get_unsigned(etcd, "port", 65535, &cluster->etcd_port, error);
    if (!status)
        status = json_get_unsigned(etcd, "peer_port", 65535, &cluster->etcd_peer_port, error);
    if (!status)
        status = decode_process(etcd, &cluster->etcd, error);
    return status ? status : decode_nodes(tree, cluster, error);
}

int local_state_decode(const char *text, size_t size_bytes, const char *where,
                       struct local_cluster *ret_cluster, struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    AUTO_FREE struct local_cluster *cluster = calloc(1, sizeof(*cluster));
    int status = cluster ? 0 : error_set(error, -ENOMEM, "no memory");

    if (!status)
        status = json_parse(text, size_bytes, where, &tree, error);
    if (status)
        return status;
    status = decode(tree, cluster, error);
    if (status)
        error_prefix(error, "%s: ", where);
    else
        *ret_cluster = *cluster;
    return status;
}

static void state_path(const char *dir, char ret_path[LOCAL_PATH_SIZE + 32])
{
    snprintf(ret_path, LOCAL_PATH_SIZE + 32, "%s/cluster.json", dir);
}

int local_state_load(const char *dir, struct local_cluster *ret_cluster, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    char path[LOCAL_PATH_SIZE + 32];

    state_path(dir, path);
    int status = file_read(path, STATE_MAX, &text, error);
    if (status == -ENOENT)
        return error_set(error, status,
                         "no cluster is up in %s (%s is not there); firnctl local up --dir %s "
                         "starts one",
                         dir, path, dir);
    if (status)
        return status;
    return local_state_decode((const char *)text.data, text.size_bytes, path, ret_cluster, error);
}

int local_state_load_earlier(const char *dir, struct local_cluster *ret_cluster,
                             struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    char path[LOCAL_PATH_SIZE + 32];

    snprintf(path, sizeof(path), "%s/" EARLIER_NAME, dir);
    int status = file_read(path, STATE_MAX, &text, error);
    return status ? status
                  : local_state_decode((const char *)text.data, text.size_bytes, path, ret_cluster,
                                       error);
}

int local_state_save(const struct local_cluster *cluster, struct error *error)
{
    AUTO_FREE char *text = local_state_encode(cluster);
    char path[LOCAL_PATH_SIZE + 32];

    state_path(cluster->dir, path);
    if (!text)
        return error_set(error, -ENOMEM, "no memory for %s", path);
    return file_replace(path, text, strlen(text), 0600, error);
}

int local_state_remove(const struct local_cluster *cluster, struct error *error)
{
    char path[LOCAL_PATH_SIZE + 32];

    char earlier[LOCAL_PATH_SIZE + 32];

    state_path(cluster->dir, path);
    snprintf(earlier, sizeof(earlier), "%s/" EARLIER_NAME, cluster->dir);
    if (rename(path, earlier) && errno != ENOENT)
        return error_set(error, -errno, "renaming %s: %s", path, strerror(errno));
    return 0;
}

struct local_node *local_find_node(struct local_cluster *cluster, const char *name,
                                   struct error *error)
{
    for (unsigned i = 0; i < cluster->node_count; i++)
        if (!strcmp(cluster->nodes[i].name, name))
            return &cluster->nodes[i];
    error_set(error, -ENOENT, "this cluster has no node \"%s\": its nodes are a to %s", name,
              cluster->nodes[cluster->node_count - 1].name);
    return NULL;
}
