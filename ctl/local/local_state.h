/*
 * DIR/cluster.json: the processes that `firnctl local up` has started, for the other local
 * commands. The file exists while the cluster is up; the data below DIR stays afterwards.
 */
#pragma once

#include "base/name.h"
#include "ctl/local/process.h"

#define LOCAL_NODES_MAX    26
#define LOCAL_PATH_SIZE    768
#define LOCAL_CLUSTER_NAME "local"
#define LOCAL_SHORT_RUN    "/tmp/firn-" /* prefix of a short run_root */

struct local_node {
    char name[NAME_SIZE];
    unsigned http_port, link_port; /* link_port: of slot 0 */
    struct process process;
};

struct local_cluster {
    char dir[LOCAL_PATH_SIZE];      /* absolute */
    char run_root[LOCAL_PATH_SIZE]; /* sockets: DIR/run, or a short folder if DIR is too long */
    unsigned slots, threads;
    unsigned memory_mb;           /* memory of a slot for plans; 0: its share of the machine */
    bool own_disks;               /* each node has its own checkpoint folder; else all share one */
    char config[LOCAL_PATH_SIZE]; /* file of further firnd settings, absolute; "": none */
    unsigned etcd_port, etcd_peer_port;
    struct process etcd;
    unsigned node_count;
    struct local_node nodes[LOCAL_NODES_MAX];
};

/** local_state_encode(), local_state_decode() - encode and decode the file's text; malloc'ed, NULL:
 * no memory */
char *local_state_encode(const struct local_cluster *cluster);
int local_state_decode(const char *text, size_t size_bytes, const char *where,
                       struct local_cluster *ret_cluster, struct error *error) CHECK_RESULT;

/** local_state_load() - read the file; -ENOENT: no cluster is up in @dir */
int local_state_load(const char *dir, struct local_cluster *ret_cluster,
                     struct error *error) CHECK_RESULT;
/** local_state_load_earlier() - read the state of the cluster that was last stopped in @dir;
 * -ENOENT: none */
int local_state_load_earlier(const char *dir, struct local_cluster *ret_cluster,
                             struct error *error) CHECK_RESULT;
int local_state_save(const struct local_cluster *cluster, struct error *error) CHECK_RESULT;
/** local_state_remove() - remove the file when the cluster is down; keep its settings for the next
 * local up */
int local_state_remove(const struct local_cluster *cluster, struct error *error) CHECK_RESULT;

/** local_find_node() - find a node by name; NULL, with @error: none */
struct local_node *local_find_node(struct local_cluster *cluster, const char *name,
                                   struct error *error);
