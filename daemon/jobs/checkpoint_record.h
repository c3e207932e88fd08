/*
 * Commit a checkpoint: write the record in etcd that makes a checkpoint on disk count.
 *
 * The firnd of rank 0's node writes the record in a transaction. The transaction requires that the
 * record is absent and that the plan is in force, so a worker of an older generation cannot add a
 * record. It is retried until it succeeds, the record exists already, or it is refused; then the
 * worker is told.
 */
#pragma once

#include "daemon/jobs/job.h"

/** checkpoint_record_begin() - start recording @checkpoint; takes its contents */
void checkpoint_record_begin(struct job *job, unsigned slot, struct control_checkpoint *checkpoint);
/** checkpoint_record_sync() - retry a waiting record */
void checkpoint_record_sync(struct job *job);
void checkpoint_record_forget(struct job *job);
