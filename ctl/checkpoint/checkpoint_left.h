/* List and remove checkpoints by path, for removed jobs: etcd has no record of them. */
#pragma once

#include "ctl/cluster/cluster.h"
#include "ctl/command/arguments.h"

/** checkpoint_left_list() - `checkpoint list PATH`: list the checkpoints of one job's folder, or of
 * all such folders in PATH */
int checkpoint_left_list(const struct arguments *arguments, struct error *error) CHECK_RESULT;
/** checkpoint_left_remove() - `checkpoint remove PATH --all`; -EBUSY if a job of the cluster uses
 * the folder */
int checkpoint_left_remove(const struct arguments *arguments, struct error *error) CHECK_RESULT;
/** checkpoint_left_purge() - delete the checkpoints of @job, whose keys are deleted, from this
 * machine's disks; print the deleted and the unreachable ones */
int checkpoint_left_purge(const struct cluster_job *job, struct error *error) CHECK_RESULT;
/** checkpoint_left_tell() - print the folders of the remaining checkpoints */
void checkpoint_left_tell(const struct cluster_job *job);
