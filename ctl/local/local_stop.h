/* End a local cluster's processes: one node at once and without warning, or all in order. */
#pragma once

#include "ctl/local/local_state.h"

/** local_kill_daemon() - kill a node's firnd (SIGKILL). Return: 0; -ESRCH: it was not running */
int local_kill_daemon(const struct local_node *node, uint64_t deadline_ns,
                      struct error *error) CHECK_RESULT;
/** local_kill_workers() - kill a node's workers (SIGKILL), or only the one on @slot (negative:
 * all), until none is left; *ret_count: their number */
int local_kill_workers(const struct local_cluster *cluster, const char *node, int slot,
                       uint64_t deadline_ns, unsigned *ret_count, struct error *error) CHECK_RESULT;
/** local_stop_all() - stop firnds, workers and etcd, in this order; then remove the state file and
 * the sockets */
int local_stop_all(const struct local_cluster *cluster, uint64_t deadline_ns,
                   struct error *error) CHECK_RESULT;
