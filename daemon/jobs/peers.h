/* Which nodes' firnd give files of a job's checkpoints, as far as this node knows. */
#pragma once

#include "checkpoint/remote/remote.h"
#include "daemon/jobs/job.h"

/**
 * peers_reach() - the nodes and the key under which they give files away
 *
 * A follower knows the stores of the plan in force, which is all that it watches; who leads knows
 * every node that is registered. @options: `job`, `key`, `timeout_ns` and nodes are set; the caller
 * frees @ret_nodes, which `nodes` points to. Return: 0; -ENOKEY: the job has no plan; -ENOMEM.
 */
int peers_reach(const struct job *job, struct checkpoint_remote_options *options,
                struct checkpoint_remote_node **ret_nodes) CHECK_RESULT;
