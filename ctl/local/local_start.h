/* Start a local cluster's processes, and wait until they are ready. */
#pragma once

#include "ctl/cluster/cluster_client.h"
#include "ctl/local/local_state.h"

/** local_endpoints() - format "http://127.0.0.1:<port>" */
const char *local_endpoints(const struct local_cluster *cluster, char text[64]);

/**
 * local_start_etcd() - start etcd unless it runs; return when it answers
 * local_start_nodes() - start the nodes of [@first, @first + @count) that do not run; return when
 * all are registered
 *
 * The state file is written after each start, so that no running process is forgotten. Return: 0;
 * otherwise @error ends with the last lines of the failed process's log.
 */
int local_start_etcd(struct local_cluster *cluster, uint64_t deadline_ns,
                     struct error *error) CHECK_RESULT;
int local_start_nodes(struct local_cluster *cluster, unsigned first, unsigned count,
                      uint64_t deadline_ns, struct error *error) CHECK_RESULT;
