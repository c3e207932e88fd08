/*
 * Find the workers of a local cluster's node by their command lines: a firn-worker with a --socket
 * in that node's folder of sockets. firnd is not asked, because firnd may be dead.
 */
#pragma once

#include "ctl/local/local_state.h"

#define LOCAL_WORKERS_MAX 128

struct local_worker {
    struct process process;
    unsigned slot;
    char job[NAME_SIZE];
};

/** local_workers_find() - find a node's workers. Return: their number, at most LOCAL_WORKERS_MAX */
unsigned local_workers_find(const struct local_cluster *cluster, const char *node,
                            struct local_worker ret_workers[LOCAL_WORKERS_MAX]);

/** local_workers_parse() - return whether a command line in the format of /proc (zero-terminated
 * words) is a worker with its socket below @socket_prefix, and which worker */
bool local_workers_parse(const char *text, size_t size_bytes, const char *socket_prefix,
                         struct local_worker *ret_worker);
