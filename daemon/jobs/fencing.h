/*
 * Fence a job on an isolated node: hold its commits, because no other node can stop them.
 *
 * A generation that spans nodes cannot commit without the other nodes, so links fence it. A
 * generation on this node alone can commit: it would continue beside the generation that another
 * node starts after this node's lease expires. So before the lease expires, this node's firnd
 * orders rank 0 to hold before its next commit, unless etcd is away for other nodes as well
 * (elastic/agent/isolation.h). When the lease is renewed and the same plan is read from etcd,
 * training resumes.
 *
 * Invariant: once the lease may have expired, a held generation resumes only after that reading. A
 * new firnd does not know the commands of the earlier one: it tells every worker that connects as
 * rank 0 to go on only after such a reading.
 *
 * A new firnd may find the registration of the earlier firnd still standing. Then it has no lease
 * until that registration expires. Until then its last reading of the plan decides, repeated every
 * half second: while the plan is there, no node has taken the job over, and none can for one more
 * second, because a leader waits that long for a node whose registration has just ended. A firnd
 * that has not read its list of neighbours yet does not assume that it is the only node.
 *
 * Failure mode: without a firnd, no command to hold reaches the worker.
 */
#pragma once

#include "daemon/jobs/job.h"

struct fencing;

/** fencing_new() - @daemon is borrowed. Return: 0; -ENOMEM; or the error of creating a loop
 * timer (nothing to free then) */
int fencing_new(struct daemon *daemon, struct fencing **ret_fencing) CHECK_RESULT;
void fencing_free(struct fencing *fencing);
/** fencing_look() - decide again which workers to hold: a plan, a worker or the registration has
 * changed */
void fencing_look(struct fencing *fencing);
/** fencing_connected() - note a new connection to a worker: the last command to it is unknown */
void fencing_connected(struct job *job, unsigned slot);
/** fencing_holds() - return whether @job, which is on this node alone, is held before its next
 * commit */
bool fencing_holds(const struct job *job);
/** fencing_holds_slot() - return whether the worker on @slot is the root that is held */
bool fencing_holds_slot(const struct job *job, unsigned slot);
/** fencing_forget() - drop all state of @job, which is closed */
void fencing_forget(struct fencing *fencing, const struct job *job);
