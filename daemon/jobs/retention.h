/*
 * Retention of checkpoints with copies: each node's firnd removes from its own folder what has no
 * record any more, whether the node still takes part in the job or not. On a thread of its own,
 * because removing large files takes long.
 *
 * In a folder that all nodes share the workers do it (worker/checkpoint/retention.h). What they
 * leave behind, such as checkpoints that were made while etcd was away, goes when the plan has no
 * workers any more (the job is over or paused): the node that has recorded the newest checkpoint
 * removes it. The plan says so and not the job's state, because only the leader follows states.
 *
 * The records decide (checkpoint_record.c deletes those that need not stay, firnctl those that a
 * person wants gone), so no record ever promises files that are not there.
 */
#pragma once

#include "daemon/jobs/job.h"

/** retention_sync() - look whether records have changed, and sweep if so; left out while the sweep
 * before is still at work, and made up for at the next change */
void retention_sync(struct job *job);
/** retention_stop() - waits for it */
void retention_stop(struct job *job);
