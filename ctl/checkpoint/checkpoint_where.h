/* Describe briefly where a checkpoint is: on the job's disk, in the object store, or in between. */
#pragma once

#include "ctl/cluster/cluster.h"

#define CHECKPOINT_WHERE_SIZE 160

/** checkpoint_where() - return "local", "local, uploading 43 %", "local, object"; "GONE" or
 * "DAMAGED" instead of local if this machine reaches the job's folder but the checkpoint, or some
 * of its files, are missing there. Return: @ret_text */
const char *checkpoint_where(const struct cluster_job *job, const struct checkpoint_record *record,
                             char ret_text[CHECKPOINT_WHERE_SIZE]);
/** checkpoint_only_stored() - return the @index-th checkpoint that is complete in the object store
 * and no longer has a record of its own; NULL past the last */
const struct object_record *checkpoint_only_stored(const struct cluster_job *job, size_t index);
