/*
 * Remove files of expired checkpoints with copies. Each node's firnd removes from its own folder
 * all checkpoints that have no record any more, whether the node still has a part in the job or
 * not. It uses a separate thread, because removing large files takes long.
 *
 * In a folder that all nodes share, the workers do this (worker/checkpoint/retention.h). They leave
 * some folders behind, such as checkpoints that were written while etcd was away. When the plan has
 * no workers any more (the job is over or paused), the node that recorded the newest checkpoint
 * removes these. The plan decides and not the job's state, because only the leader follows states.
 *
 * The records come first (checkpoint_record.c deletes expired records, firnctl deletes records on
 * an operator's request), so no record ever refers to removed files.
 */
#pragma once

#include "daemon/jobs/job.h"

/** retention_sweep_sync() - start a sweep if the records have changed; skipped while a sweep is
 * running, and made up for at the next change */
void retention_sweep_sync(struct job *job);
/** retention_sweep_stop() - abandon the sweep, which ends with its thread or the process */
void retention_sweep_stop(struct job_expiry *expiry);
