/*
 * Remove the folder in which a job's workers on this node keep outputs of frozen layers
 * (worker/cache/frozen_outputs.h), up to elastic.freeze.cache_mb. Workers remove it when the job is
 * completed; firnd removes it for a job that was cancelled or that etcd no longer has.
 */
#pragma once

#include <stdbool.h>

/** frozen_folder_remove() - remove the folder below the job's folder @job_dir, if it exists, on a
 * separate thread: removing large files takes seconds on a slow disk */
void frozen_folder_remove(const char *job_dir);
/** frozen_folder_sweep() - remove the folders of jobs that were removed from etcd while no firnd
 * ran here: below each folder in @jobs_dir whose name is not known */
void frozen_folder_sweep(const char *jobs_dir, bool (*is_known)(void *context, const char *job),
                         void *context);
