/* Checkpoints by where they lie, for those whose job is removed: etcd knows nothing of them. */
#pragma once

#include "ctl/cluster/cluster.h"
#include "ctl/command/arguments.h"

/** checkpoint_left_list() - `checkpoint list PATH`: the folder of a job's checkpoints, or all those
 * in the folder PATH */
int checkpoint_left_list(const struct arguments *arguments, struct error *error) CHECK_RESULT;
/** checkpoint_left_remove() - `checkpoint remove PATH --all`; -EBUSY where a job of the cluster has
 * the folder */
int checkpoint_left_remove(const struct arguments *arguments, struct error *error) CHECK_RESULT;
/** checkpoint_left_purge() - what @job, whose keys are gone, has on this machine's disks; says what
 * went, and what is out of reach */
int checkpoint_left_purge(const struct cluster_job *job, struct error *error) CHECK_RESULT;
/** checkpoint_left_tell() - say where they stay */
void checkpoint_left_tell(const struct cluster_job *job);
