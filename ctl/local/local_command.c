/* firnctl local ...: run a whole cluster on this machine. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/plural.h"
#include "ctl/command/commands.h"
#include "ctl/local/local_ports.h"
#include "ctl/local/local_start.h"
#include "ctl/local/local_stop.h"
#include "ctl/local/local_workers.h"
#include "ctl/view/format.h"
#include "ctl/view/text_table.h"

#define TIMEOUT_S       60
#define NODES_DEFAULT   3
#define SLOTS_DEFAULT   2
#define THREADS_DEFAULT 1
/* A socket's path is "<run>/<node>/workers/<job>.<slot>.sock" and at most 107 bytes. */
#define RUN_ROOT_LONGEST 24

static uint64_t deadline_of(const struct arguments *arguments)
{
    return clock_monotonic_ns() + arguments_number(arguments, "timeout", TIMEOUT_S) * NS_PER_SECOND;
}

static int dir_argument(const struct arguments *arguments, bool make, char ret_dir[LOCAL_PATH_SIZE],
                        struct error *error)
{
    const char *said = getenv("FIRN_DIR");
    const char *dir = arguments_text(arguments, "dir", said && said[0] ? said : NULL);

    if (!dir) {
        error_set(error, -EINVAL,
                  "%s needs --dir DIR, the cluster's folder, or FIRN_DIR in the environment, as "
                  "firnctl local env sets it",
                  arguments->command->name);
        return COMMAND_USAGE;
    }
    int status = make ? file_make_directories(dir, 0750, error) : 0;
    if (status)
        return status;
    AUTO_FREE char *real = realpath(dir, NULL);
    if (!real && errno == ENOENT)
        return error_set(error, -ENOENT,
                         "no cluster is up in %s (there is no such folder); firnctl local up --dir "
                         "%s starts one",
                         dir, dir);
    if (!real)
        return error_set(error, -errno, "%s: %s", dir, strerror(errno));
    if (strlen(real) >= LOCAL_PATH_SIZE - 64)
        return error_set(error, -ENAMETOOLONG, "%s is too long a path", real);
    strcpy(ret_dir, real);
    return 0;
}

/* Lock @dir: only one firnctl at a time may change a local cluster. */
static int lock_dir(const char *dir, int *ret_lock, struct error *error)
{
    char path[LOCAL_PATH_SIZE + 32];

    snprintf(path, sizeof(path), "%s/cluster.lock", dir);
    *ret_lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*ret_lock < 0 || flock(*ret_lock, LOCK_EX))
        return error_set(error, -errno, "%s: %s", path, strerror(errno));
    return 0;
}

/* Lock and load the state of a cluster that is up; every such command begins with it. */
static int open_cluster(const struct arguments *arguments, int *ret_lock,
                        struct local_cluster *ret_cluster, struct error *error)
{
    char dir[LOCAL_PATH_SIZE];
    int status = dir_argument(arguments, false, dir, error);

    if (!status && ret_lock)
        status = lock_dir(dir, ret_lock, error);
    return status ? status : local_state_load(dir, ret_cluster, error);
}

/* ---- up ---- */

static int choose_run_root(struct local_cluster *cluster, struct error *error)
{
    snprintf(cluster->run_root, sizeof(cluster->run_root), "%.*s/run", LOCAL_PATH_SIZE - 8,
             cluster->dir);
    if (strlen(cluster->run_root) <= RUN_ROOT_LONGEST)
        return file_make_directories(cluster->run_root, 0700, error);
    strcpy(cluster->run_root, LOCAL_SHORT_RUN "XXXXXX");
    if (!mkdtemp(cluster->run_root))
        return error_set(error, -errno, "a folder for sockets, %s: %s", cluster->run_root,
                         strerror(errno));
    return 0;
}

/* @config: replaced by the absolute path of the file in --config, if given */
static int find_config(const struct arguments *arguments, char config[LOCAL_PATH_SIZE],
                       struct error *error)
{
    const char *path = arguments_text(arguments, "config", NULL);
    AUTO_FREE char *found = path ? realpath(path, NULL) : NULL;

    if (!path)
        return 0;
    if (!found)
        return error_set(error, -errno, "--config %s: %s", path, strerror(errno));
    if (strlen(found) >= LOCAL_PATH_SIZE)
        return error_set(error, -ENAMETOOLONG, "--config %s: the path is too long", path);
    strcpy(config, found);
    return 0;
}

/* @earlier: the cluster whose data the folder has; NULL: none */
static int describe_new(const struct arguments *arguments, const char *dir,
                        const struct local_cluster *earlier, struct local_cluster *ret_cluster,
                        struct error *error)
{
    const struct local_cluster usual = {
        .slots = SLOTS_DEFAULT, .threads = THREADS_DEFAULT, .node_count = NODES_DEFAULT};
    const struct local_cluster *shape = earlier ? earlier : &usual;
    struct local_cluster fresh = {
        .slots = (unsigned)arguments_number(arguments, "slots", shape->slots),
        .threads = (unsigned)arguments_number(arguments, "threads", shape->threads),
        .memory_mb = (unsigned)arguments_number(arguments, "memory", shape->memory_mb),
        .own_disks = arguments_has(arguments, "own-disks") || shape->own_disks,
        .node_count = (unsigned)arguments_number(arguments, "nodes", shape->node_count),
    };
    *ret_cluster = fresh;
    strcpy(ret_cluster->dir, dir);
    strcpy(ret_cluster->config, shape->config);
    for (unsigned i = 0; i < ret_cluster->node_count; i++)
        snprintf(ret_cluster->nodes[i].name, NAME_SIZE, "%c", 'a' + (int)i);
    int status = find_config(arguments, ret_cluster->config, error);
    if (!status)
        status = local_ports_assign(ret_cluster, error);
    if (!status)
        status = choose_run_root(ret_cluster, error);
    return status ? status : local_state_save(ret_cluster, error);
}

static bool anything_runs(const struct local_cluster *cluster)
{
    bool runs = process_alive(&cluster->etcd);

    for (unsigned i = 0; i < cluster->node_count; i++)
        runs |= process_alive(&cluster->nodes[i].process);
    return runs;
}

static int check_same_shape(const struct arguments *arguments, const struct local_cluster *cluster,
                            struct error *error)
{
    char config[LOCAL_PATH_SIZE];

    strcpy(config, cluster->config);
    int status = find_config(arguments, config, error);
    if (status)
        return status;
    if (strcmp(config, cluster->config))
        return error_set(error, -EBUSY,
                         "the cluster in %s runs with %s; firnctl local down --dir %s first",
                         cluster->dir, cluster->config[0] ? cluster->config : "no file of settings",
                         cluster->dir);
    if (arguments_number(arguments, "nodes", cluster->node_count) == cluster->node_count &&
        arguments_number(arguments, "slots", cluster->slots) == cluster->slots &&
        arguments_number(arguments, "threads", cluster->threads) == cluster->threads &&
        arguments_number(arguments, "memory", cluster->memory_mb) == cluster->memory_mb &&
        (!arguments_has(arguments, "own-disks") || cluster->own_disks))
        return 0;
    return error_set(
        error, -EBUSY,
        "the cluster in %s has %u node%s of %u slot%s (%u thread%s%s); firnctl local down "
        "--dir %s and another folder make one of another shape",
        cluster->dir, cluster->node_count, plural(cluster->node_count), cluster->slots,
        plural(cluster->slots), cluster->threads, plural(cluster->threads),
        cluster->own_disks ? ", disks of their own" : "", cluster->dir);
}

/* Describe the cluster of a folder with the data of a cluster that is down: it starts as it was. */
static int describe_again(const struct arguments *arguments, const char *dir,
                          struct local_cluster *ret_cluster, struct error *error)
{
    AUTO_FREE struct local_cluster *earlier = calloc(1, sizeof(*earlier));
    struct error none = {0};

    if (!earlier)
        return -ENOMEM;
    int status = local_state_load_earlier(dir, earlier, &none);
    if (status == -ENOENT)
        return describe_new(arguments, dir, NULL, ret_cluster, error);
    if (!status)
        status = check_same_shape(arguments, earlier, error);
    else
        *error = none;
    return status ? status : describe_new(arguments, dir, earlier, ret_cluster, error);
}

/* *ret_fresh: no process was running, so after a failure all may be stopped again. */
static int prepare(const struct arguments *arguments, const char *dir,
                   struct local_cluster *cluster, bool *ret_fresh, struct error *error)
{
    struct error none = {0};
    int status = local_state_load(dir, cluster, &none);

    if (status && status != -ENOENT) {
        *error = none;
        return status;
    }
    *ret_fresh = status == -ENOENT || !anything_runs(cluster);
    if (!*ret_fresh)
        return check_same_shape(arguments, cluster, error);
    if (status != -ENOENT) { /* left after a crash of the machine; workers may still run */
        status = local_stop_all(cluster, deadline_of(arguments), error);
        if (status)
            return status;
    }
    return describe_again(arguments, dir, cluster, error);
}

int run_local_up(const struct arguments *arguments, struct error *error)
{
    AUTO_FREE struct local_cluster *cluster = calloc(1, sizeof(*cluster));
    AUTO_CLOSE int lock = -1;
    char dir[LOCAL_PATH_SIZE], endpoints[64], quoted[LOCAL_PATH_SIZE + 64];
    uint64_t deadline_ns = deadline_of(arguments), begun_ns = clock_monotonic_ns();
    bool fresh = false;
    int status = cluster ? dir_argument(arguments, true, dir, error) : -ENOMEM;

    if (!status)
        status = lock_dir(dir, &lock, error);
    if (!status)
        status = prepare(arguments, dir, cluster, &fresh, error);
    if (status)
        return status;
    status = local_start_etcd(cluster, deadline_ns, error);
    if (!status)
        status = local_start_nodes(cluster, 0, cluster->node_count, deadline_ns, error);
    if (status && fresh &&
        local_stop_all(cluster, clock_monotonic_ns() + TIMEOUT_S * NS_PER_SECOND, NULL))
        fprintf(stderr, "firnctl: some processes could not be stopped; see firnctl local status\n");
    if (status)
        return status;
    printf("%u node%s of %u slot%s ready after %.1f s; etcd is at %s\n"
           "In this shell:  eval \"$(firnctl local env --dir %s)\"\n",
           cluster->node_count, cluster->node_count == 1 ? "" : "s", cluster->slots,
           cluster->slots == 1 ? "" : "s",
           (double)(clock_monotonic_ns() - begun_ns) / (double)NS_PER_SECOND,
           local_endpoints(cluster, endpoints),
           format_quoted(dir, quoted, sizeof(quoted)) ? quoted : dir);
    return 0;
}

/* ---- the others ---- */

int run_local_down(const struct arguments *arguments, struct error *error)
{
    AUTO_FREE struct local_cluster *cluster = calloc(1, sizeof(*cluster));
    AUTO_CLOSE int lock = -1;
    int status = cluster ? open_cluster(arguments, &lock, cluster, error) : -ENOMEM;

    if (!status)
        status = local_stop_all(cluster, deadline_of(arguments), error);
    if (!status)
        printf("down; the data stays in %s, and after firnctl local up jobs go on from their last "
               "checkpoints\n",
               cluster->dir);
    return status;
}

int run_local_env(const struct arguments *arguments, struct error *error)
{
    AUTO_FREE struct local_cluster *cluster = calloc(1, sizeof(*cluster));
    char endpoints[64], quoted[LOCAL_PATH_SIZE + 64];
    int status = cluster ? open_cluster(arguments, NULL, cluster, error) : -ENOMEM;

    if (!status)
        printf("export FIRN_ENDPOINTS=%s\nexport FIRN_CLUSTER=%s\nexport FIRN_DIR=%s\n",
               local_endpoints(cluster, endpoints), LOCAL_CLUSTER_NAME,
               format_quoted(cluster->dir, quoted, sizeof(quoted)) ? quoted : cluster->dir);
    return status;
}

static int kill_node(const struct arguments *arguments, const struct local_cluster *cluster,
                     const struct local_node *node, struct error *error)
{
    uint64_t deadline_ns = deadline_of(arguments);
    bool daemon_only = arguments_has(arguments, "daemon-only");
    bool one_worker = arguments_has(arguments, "worker");
    int slot = one_worker ? (int)arguments_number(arguments, "worker", 0) : -1;
    unsigned killed = 0;
    int status = 0;

    if (daemon_only && one_worker) {
        error_set(error, COMMAND_USAGE, "--daemon-only and --worker exclude each other");
        return COMMAND_USAGE;
    }
    if (!one_worker)
        status = local_kill_daemon(node, deadline_ns, error);
    bool daemon_ran = status != -ESRCH;
    if (!daemon_ran && !daemon_only) /* its workers may still run */
        status = 0;
    if (!status && !daemon_only)
        status = local_kill_workers(cluster, node->name, slot, deadline_ns, &killed, error);
    if (status)
        return status;
    if (!one_worker && !daemon_only && !daemon_ran && !killed)
        return error_set(error, -ESRCH, "node %s is not running", node->name);
    if (one_worker && !killed)
        return error_set(error, -ESRCH, "no worker runs on slot %d of node %s", slot, node->name);
    if (one_worker)
        printf("killed the worker on slot %d of node %s\n", slot, node->name);
    else if (daemon_only)
        printf("killed firnd of node %s; its workers go on\n", node->name);
    else
        printf("killed node %s: firnd and %u worker%s\n", node->name, killed,
               killed == 1 ? "" : "s");
    return 0;
}

int run_local_kill(const struct arguments *arguments, struct error *error)
{
    AUTO_FREE struct local_cluster *cluster = calloc(1, sizeof(*cluster));
    AUTO_CLOSE int lock = -1;
    int status = cluster ? open_cluster(arguments, &lock, cluster, error) : -ENOMEM;

    if (status)
        return status;
    const struct local_node *node = local_find_node(cluster, arguments->operands[0], error);
    return node ? kill_node(arguments, cluster, node, error) : -ENOENT;
}

int run_local_start(const struct arguments *arguments, struct error *error)
{
    AUTO_FREE struct local_cluster *cluster = calloc(1, sizeof(*cluster));
    AUTO_CLOSE int lock = -1;
    int status = cluster ? open_cluster(arguments, &lock, cluster, error) : -ENOMEM;

    if (status)
        return status;
    struct local_node *node = local_find_node(cluster, arguments->operands[0], error);
    if (!node)
        return -ENOENT;
    bool was_up = process_alive(&node->process);
    status = local_start_nodes(cluster, (unsigned)(node - cluster->nodes), 1,
                               deadline_of(arguments), error);
    if (!status)
        printf("node %s is ready%s\n", node->name, was_up ? "; it was running already" : "");
    return status;
}

/* ---- status ---- */

static json_t *process_json(const struct process *process)
{
    return json_pack("{s:b, s:i}", "running", process_alive(process), "pid", (int)process->pid);
}

static json_t *node_json(const struct local_cluster *cluster, const struct local_node *node,
                         struct local_worker *workers)
{
    unsigned count = local_workers_find(cluster, node->name, workers);
    json_t *tree = json_pack("{s:s, s:o, s:i, s:i, s:[]}", "name", node->name, "firnd",
                             process_json(&node->process), "http_port", (int)node->http_port,
                             "link_port", (int)node->link_port, "workers");

    for (unsigned i = 0; i < count && tree; i++)
        if (json_array_append_new(json_object_get(tree, "workers"),
                                  json_pack("{s:i, s:s, s:i}", "slot", (int)workers[i].slot, "job",
                                            workers[i].job, "pid", (int)workers[i].process.pid))) {
            json_decref(tree);
            return NULL;
        }
    return tree;
}

static int print_json(const struct local_cluster *cluster, struct local_worker *workers)
{
    char endpoints[64];
    AUTO_JSON json_t *tree =
        json_pack("{s:s, s:s, s:s, s:o, s:[]}", "dir", cluster->dir, "endpoints",
                  local_endpoints(cluster, endpoints), "cluster", LOCAL_CLUSTER_NAME, "etcd",
                  process_json(&cluster->etcd), "nodes");

    for (unsigned i = 0; i < cluster->node_count && tree; i++)
        if (json_array_append_new(json_object_get(tree, "nodes"),
                                  node_json(cluster, &cluster->nodes[i], workers)))
            return -ENOMEM;
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    return text && puts(text) >= 0 ? 0 : -ENOMEM;
}

static void worker_words(const struct local_worker *workers, unsigned count, char *text,
                         size_t size)
{
    size_t used = 0;

    snprintf(text, size, "%s", count ? "" : "-");
    for (unsigned i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s slot %u (%d)", i ? ", " : "",
                                 workers[i].job, workers[i].slot, (int)workers[i].process.pid);
}

static int print_table(const struct local_cluster *cluster, struct local_worker *workers)
{
    CLEANUP(text_table_done) struct text_table table = {0};
    char words[1024];

    text_table_init(&table, "WHAT|STATE|#PID|HTTP|LINKS|WORKERS");
    text_table_cell(&table, "etcd");
    text_table_cell(&table, "%s", process_alive(&cluster->etcd) ? "up" : "down");
    text_table_cell(&table, "%d", (int)cluster->etcd.pid);
    text_table_cell(&table, "127.0.0.1:%u", cluster->etcd_port);
    text_table_cell(&table, "-");
    text_table_cell(&table, "-");
    for (unsigned i = 0; i < cluster->node_count; i++) {
        const struct local_node *node = &cluster->nodes[i];
        bool alive = process_alive(&node->process);
        worker_words(workers, local_workers_find(cluster, node->name, workers), words,
                     sizeof(words));
        text_table_cell(&table, "node %s", node->name);
        text_table_cell(&table, "%s", alive ? "up" : "down");
        text_table_cell(&table, "%d", (int)node->process.pid);
        text_table_cell(&table, "127.0.0.1:%u", node->http_port);
        text_table_cell(&table, "%u-%u", node->link_port, node->link_port + cluster->slots - 1);
        text_table_cell(&table, "%s", words);
    }
    return text_table_print(&table);
}

int run_local_status(const struct arguments *arguments, struct error *error)
{
    AUTO_FREE struct local_cluster *cluster = calloc(1, sizeof(*cluster));
    AUTO_FREE struct local_worker *workers = calloc(LOCAL_WORKERS_MAX, sizeof(*workers));
    int status = cluster && workers ? open_cluster(arguments, NULL, cluster, error) : -ENOMEM;

    if (status)
        return status;
    return arguments_has(arguments, "json") ? print_json(cluster, workers)
                                            : print_table(cluster, workers);
}
