/*
 * A job that is on one node alone holds when that node is cut off from etcd
 * (daemon/jobs/fencing.h). etcd cannot tell, so the node is asked, where this machine reaches it.
 */
#pragma once

#include "ctl/cluster/cluster.h"
#include "ctl/cluster/cluster_client.h"

/** job_held_by() - the node that lets @job commit nothing now; NULL: none is known to */
const char *job_held_by(struct cluster_client *store, const struct cluster *cluster,
                        const struct cluster_job *job);
