/*
 * Find out whether a job is held. A job on a single node holds when that node is cut off from etcd
 * (daemon/jobs/fencing.h). etcd cannot know, so firnctl asks the node, if this machine reaches it.
 */
#pragma once

#include "ctl/cluster/cluster.h"
#include "ctl/cluster/cluster_client.h"

/** job_held_by() - return the node that keeps @job from committing now; NULL: none known */
const char *job_held_by(struct cluster_client *client, const struct cluster *cluster,
                        const struct cluster_job *job);
