/* Where a checkpoint lies, in a few words: on the job's disk, in the object store, or on its way.
 */
#pragma once

#include "ctl/cluster/cluster.h"

#define CHECKPOINT_WHERE_SIZE 160

/** checkpoint_where() - "local", "local, uploading 43 %", "local, object"; "GONE" or "DAMAGED" for
 * local where this machine sees the job's folder without it, or without files of it; returns
 * @ret_text */
const char *checkpoint_where(const struct cluster_job *job, const struct checkpoint_record *record,
                             char ret_text[CHECKPOINT_WHERE_SIZE]);
/** checkpoint_only_stored() - the @index-th that is complete in the object store and has no record
 * of its own any more; NULL past the last */
const struct object_record *checkpoint_only_stored(const struct cluster_job *job, size_t index);
