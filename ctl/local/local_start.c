#include "ctl/local/local_start.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "ctl/cluster/fetch.h"
#include "ctl/local/program_path.h"

#define POLL_NS        (50 * NS_PER_MS)
#define LOG_TAIL_BYTES 600
#define LOG_BYTES_MAX  ((size_t)1 << 30)
#define PATH_SIZE      (LOCAL_PATH_SIZE + 128)

const char *local_endpoints(const struct local_cluster *cluster, char text[64])
{
    snprintf(text, 64, "http://127.0.0.1:%u", cluster->etcd_port);
    return text;
}

/* ---- waiting ---- */

/* Add the end of a log to an error, whole lines. */
static void add_log(const char *path, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    size_t used = error ? strlen(error->text) : 0;

    if (!error || file_read(path, LOG_BYTES_MAX, &text, NULL) || !text.size_bytes)
        return;
    size_t from = text.size_bytes > LOG_TAIL_BYTES ? text.size_bytes - LOG_TAIL_BYTES : 0;
    const char *tail = (const char *)text.data + from;
    const char *line = from ? strchr(tail, '\n') : NULL;
    snprintf(error->text + used, sizeof(error->text) - used, "\nThe end of %s:\n%s", path,
             line && line[1] ? line + 1 : tail);
    used = strlen(error->text);
    if (used && error->text[used - 1] == '\n')
        error->text[used - 1] = '\0';
}

struct awaited {
    const char *what;
    const struct process *process;
    char log_path[PATH_SIZE], url[FETCH_URL_SIZE];
    bool (*ready)(const struct bytes *body);
    bool done;
};

static int ask(struct cluster_client *client, struct awaited *awaited)
{
    struct fetch fetch = {0};

    memcpy(fetch.url, awaited->url, sizeof(fetch.url));
    fetch_all(client, &fetch, 1, FETCH_QUICK_NS);
    awaited->done = fetch_good(&fetch) && awaited->ready(&fetch.body);
    bytes_done(&fetch.body);
    return !awaited->done && !process_alive(awaited->process) ? -ECHILD : 0;
}

static int fail(const struct awaited *awaited, int status, struct error *error)
{
    error_set(error, status,
              status == -ECHILD ? "%s ended while it was starting" : "%s is not ready in time",
              awaited->what);
    add_log(awaited->log_path, error);
    return status;
}

static int await_all(struct local_cluster *cluster, struct awaited *awaited, unsigned count,
                     uint64_t deadline_ns, struct error *error)
{
    struct cluster_client client;
    char endpoints[64];
    unsigned done = 0;
    int status = cluster_client_open_at(local_endpoints(cluster, endpoints), LOCAL_CLUSTER_NAME,
                                        CLUSTER_CLIENT_TIMEOUT_S * NS_PER_SECOND, &client, error);

    if (status)
        return status;
    while (!status && done < count) {
        done = 0;
        for (unsigned i = 0; i < count && !status; i++) {
            status = awaited[i].done ? 0 : ask(&client, &awaited[i]);
            if (!status && !awaited[i].done && clock_monotonic_ns() > deadline_ns)
                status = -ETIMEDOUT;
            if (status)
                fail(&awaited[i], status, error);
            done += awaited[i].done;
        }
        if (!status && done < count)
            cluster_client_pause(&client, POLL_NS);
    }
    cluster_client_close(&client);
    return status;
}

/* ---- etcd ---- */

static bool etcd_is_healthy(const struct bytes *body)
{
    return strstr((const char *)body->data, "true"); /* {"health":"true"} */
}

static int spawn_etcd(struct local_cluster *cluster, const char *log_path, struct error *error)
{
    char program[PROCESS_PATH_SIZE], data[PATH_SIZE], client[64], peer[64], initial[96];
    int status = program_path_find("etcd", program, error);

    snprintf(data, sizeof(data), "%s/etcd", cluster->dir);
    snprintf(client, sizeof(client), "http://127.0.0.1:%u", cluster->etcd_port);
    snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", cluster->etcd_peer_port);
    snprintf(initial, sizeof(initial), "local=%s", peer);
    const char *arguments[] = {
        "etcd",     "--name",
        "local",    "--data-dir",
        data,       "--listen-client-urls",
        client,     "--advertise-client-urls",
        client,     "--listen-peer-urls",
        peer,       "--initial-advertise-peer-urls",
        peer,       "--initial-cluster",
        initial,    "--auto-compaction-mode",
        "revision", "--auto-compaction-retention",
        "10000",    "--log-level",
        "warn",     NULL,
    };
    return status ? status : process_spawn(program, arguments, log_path, &cluster->etcd, error);
}

int local_start_etcd(struct local_cluster *cluster, uint64_t deadline_ns, struct error *error)
{
    struct awaited awaited = {.what = "etcd", .process = &cluster->etcd, .ready = etcd_is_healthy};
    int status = 0;

    snprintf(awaited.log_path, sizeof(awaited.log_path), "%s/etcd.log", cluster->dir);
    snprintf(awaited.url, sizeof(awaited.url), "http://127.0.0.1:%u/health", cluster->etcd_port);
    if (!process_alive(&cluster->etcd)) {
        status = spawn_etcd(cluster, awaited.log_path, error);
        if (!status)
            status = local_state_save(cluster, error);
    }
    return status ? status : await_all(cluster, &awaited, 1, deadline_ns, error);
}

/* ---- nodes ---- */

static bool node_is_registered(const struct bytes *body)
{
    AUTO_JSON json_t *tree = NULL;

    return !json_parse((const char *)body->data, body->size_bytes, "the node", &tree, NULL) &&
           json_is_true(json_object_get(tree, "registered"));
}

static int spawn_node(struct local_cluster *cluster, struct local_node *node, const char *log_path,
                      struct error *error)
{
    char program[PROCESS_PATH_SIZE], endpoints[64], data[PATH_SIZE], run[PATH_SIZE];
    char checkpoints[PATH_SIZE], http[64], port[16], slots[16], threads[16], memory[16];
    int status = program_path_find("firnd", program, error);

    local_endpoints(cluster, endpoints);
    snprintf(data, sizeof(data), "%s/nodes/%s", cluster->dir, node->name);
    snprintf(run, sizeof(run), "%s/%s", cluster->run_root, node->name);
    snprintf(checkpoints, sizeof(checkpoints), "%s%s%s/checkpoints", cluster->dir,
             cluster->own_disks ? "/nodes/" : "", cluster->own_disks ? node->name : "");
    snprintf(http, sizeof(http), "127.0.0.1:%u", node->http_port);
    snprintf(port, sizeof(port), "%u", node->link_port);
    snprintf(slots, sizeof(slots), "%u", cluster->slots);
    snprintf(threads, sizeof(threads), "%u", cluster->threads);
    snprintf(memory, sizeof(memory), "%u", cluster->memory_mb);
    /* A local cluster stops as a whole: no node remains to take work over. */
    const char *arguments[32] = {
        "firnd",       "--cluster",  LOCAL_CLUSTER_NAME,
        "--node",      node->name,   "--endpoints",
        endpoints,     "--address",  "127.0.0.1",
        "--link-port", port,         "--http",
        http,          "--data-dir", data,
        "--run-dir",   run,          "--checkpoint-dir",
        checkpoints,   "--slots",    slots,
        "--threads",   threads,      "--drain-timeout-s",
        "0",           "--log",      "stderr",
    };
    size_t count = 0;
    while (arguments[count])
        count++;
    if (cluster->memory_mb) {
        arguments[count++] = "--slot-memory-mb";
        arguments[count++] = memory;
    }
    if (cluster->config[0]) {
        arguments[count++] = "--config";
        arguments[count++] = cluster->config;
    }
    if (!status)
        status = file_make_directories(data, 0750, error);
    if (!status)
        status = file_make_directories(run, 0700, error);
    if (!status)
        status = file_make_directories(checkpoints, 0750, error);
    return status ? status : process_spawn(program, arguments, log_path, &node->process, error);
}

int local_start_nodes(struct local_cluster *cluster, unsigned first, unsigned count,
                      uint64_t deadline_ns, struct error *error)
{
    AUTO_FREE struct awaited *awaited = calloc(count, sizeof(*awaited));
    AUTO_FREE char(*names)[NAME_SIZE + 8] = calloc(count, sizeof(*names));
    int status = awaited && names ? 0 : error_set(error, -ENOMEM, "no memory");

    for (unsigned i = 0; i < count && !status; i++) {
        struct local_node *node = &cluster->nodes[first + i];
        char folder[PATH_SIZE];
        snprintf(names[i], sizeof(names[i]), "node %s", node->name);
        snprintf(folder, sizeof(folder), "%s/nodes/%s", cluster->dir, node->name);
        snprintf(awaited[i].log_path, sizeof(awaited[i].log_path), "%.*s/firnd.log", PATH_SIZE - 16,
                 folder);
        snprintf(awaited[i].url, sizeof(awaited[i].url), "http://127.0.0.1:%u/v1/node",
                 node->http_port);
        awaited[i].what = names[i];
        awaited[i].process = &node->process;
        awaited[i].ready = node_is_registered;
        if (process_alive(&node->process))
            continue;
        status = file_make_directories(folder, 0750, error);
        if (!status)
            status = spawn_node(cluster, node, awaited[i].log_path, error);
        if (!status)
            status = local_state_save(cluster, error);
    }
    return status ? status : await_all(cluster, awaited, count, deadline_ns, error);
}
