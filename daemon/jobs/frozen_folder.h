/*
 * The folder in which a job's workers on this node keep outputs of frozen layers
 * (worker/cache/frozen_outputs.h): up to elastic.freeze.cache_mb. Workers remove it when the job is
 * completed. A job that was cancelled, or that etcd no longer knows, leaves it to firnd.
 */
#pragma once

#include <stdbool.h>

/** frozen_folder_remove() - remove the one in the job's folder @job_dir, if there is one, on a
 * thread of its own: to remove large files takes a slow disk seconds */
void frozen_folder_remove(const char *job_dir);
/** frozen_folder_sweep() - remove those of jobs that left etcd while no firnd was here: of each
 * folder in @jobs_dir whose name is not known */
void frozen_folder_sweep(const char *jobs_dir, bool (*is_known)(void *context, const char *job),
                         void *context);
