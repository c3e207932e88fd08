/*
 * This node in its cluster: the client of etcd, the registration, the election, and what follows
 * from them for the keys that it follows (daemon/subscription.h).
 */
#pragma once

#include "daemon/core/daemon.h"

/**
 * cluster_join() - register, campaign, and follow the cluster's keys from now on
 * @takeover: incarnation of an earlier daemon of this node that is known to be dead; 0: none
 *
 * After a failure, too, cluster_part() frees what is there.
 */
int cluster_join(struct daemon *daemon, uint64_t takeover, struct error *error) CHECK_RESULT;
/** cluster_part() - stop and free; the jobs are closed before */
void cluster_part(struct daemon *daemon);
