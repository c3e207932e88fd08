/*
 * Join this node to its cluster: the etcd client, the registration, the election, and their effect
 * on the keys that the node follows (daemon/subscription.h).
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

struct daemon;

/**
 * cluster_join() - register, campaign, and follow the cluster's keys from now on
 * @takeover: incarnation of an earlier daemon of this node that is known to be dead; 0: none
 *
 * The caller calls cluster_part() after a failure as well.
 */
int cluster_join(struct daemon *daemon, uint64_t takeover, struct error *error) CHECK_RESULT;
/** cluster_part() - stop and free; close the jobs first */
void cluster_part(struct daemon *daemon);
