/* List the nodes whose firnd serves files of a job's checkpoints, as far as this node knows. */
#pragma once

#include "checkpoint/remote/remote.h"
#include "daemon/jobs/job.h"

/**
 * peers_reach() - fill in the nodes, and the key under which they serve files
 *
 * A follower knows only the nodes that store checkpoints under the plan in force, because it
 * watches no others. The leader knows every registered node. @options: sets `job`, `key`,
 * `timeout_ns` and the nodes; the caller frees @ret_nodes, to which `nodes` points. Return: 0;
 * -ENOKEY: the job has no plan; -ENOMEM.
 */
int peers_reach(const struct job *job, struct checkpoint_remote_options *options,
                struct checkpoint_remote_node **ret_nodes) CHECK_RESULT;
