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

/** local_workers_find() - how many were found, at most LOCAL_WORKERS_MAX */
unsigned local_workers_find(const struct local_cluster *cluster, const char *node,
                            struct local_worker ret_workers[LOCAL_WORKERS_MAX]);

/** local_workers_parse() - a command line as /proc has it (words that end with zeros): whether it
 * is a worker with its socket below @socket_prefix, and which */
bool local_workers_parse(const char *text, size_t size_bytes, const char *socket_prefix,
                         struct local_worker *ret_worker);
