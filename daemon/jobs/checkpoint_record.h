/*
 * From a checkpoint on disk to its record in etcd: the moment it counts.
 *
 * The record is written by the firnd of rank 0's node in a transaction guarded by the absence of
 * the record and by the plan in force, so a worker of an older generation cannot add one. It is
 * tried again until it goes through, is there already, or is refused; then the worker is told.
 */
#pragma once

#include "daemon/jobs/job.h"

/** checkpoint_record_begin() - @checkpoint is taken: none is left there */
void checkpoint_record_begin(struct job *job, unsigned slot, struct control_checkpoint *checkpoint);
/** checkpoint_record_sync() - try again if one is waiting */
void checkpoint_record_sync(struct job *job);
void checkpoint_record_forget(struct job *job);
