/*
 * A node that is cut off holds what nobody else can stop.
 *
 * A generation that spans nodes cannot commit without them, so links fence it. One that is on this
 * node alone could: it would go on beside the one that another node began when this one's lease had
 * run out. So before that can be, this node's firnd tells rank 0 to hold before its next commit,
 * unless etcd is away for others as well (elastic/agent/isolation.h). When the lease is renewed and
 * the same plan is read from etcd, training goes on.
 *
 * Invariant: once the lease may have run out, a generation that was held goes on only after that
 * reading. A firnd that is new knows nothing of what the one before ordered: whoever connects to it
 * as rank 0 is told to go on after such a reading, too.
 *
 * A firnd that is new may find the registration of the one before it still standing, so it has no
 * lease to go by until that has run out. Then it goes by its last reading of the plan instead,
 * every half a second: as long as the plan is there, nobody has taken the job over, and for a
 * second more nobody can have, for a leader waits that long for a node whose registration has just
 * ended. And one that has not read yet who its neighbours are does not take itself for the only
 * node.
 *
 * Failure mode: without a firnd nobody tells the worker to hold.
 */
#pragma once

#include "daemon/jobs/job.h"

struct fencing;

/** fencing_new() - @daemon is borrowed. Return: 0; -ENOMEM, or why the loop gives no timer (nothing
 * is left to free) */
int fencing_new(struct daemon *daemon, struct fencing **ret_fencing) CHECK_RESULT;
void fencing_free(struct fencing *fencing);
/** fencing_look() - a plan, a worker or the registration has changed: what is to be held? */
void fencing_look(struct fencing *fencing);
/** fencing_connected() - a worker is reached anew: what it was told is not known */
void fencing_connected(struct job *job, unsigned slot);
/** fencing_holds() - is @job, which is on this node alone, held before its next commit? */
bool fencing_holds(const struct job *job);
/** fencing_holds_slot() - and is it the worker on @slot that commits nothing meanwhile? */
bool fencing_holds_slot(const struct job *job, unsigned slot);
/** fencing_forget() - @job is closed */
void fencing_forget(struct fencing *fencing, const struct job *job);
