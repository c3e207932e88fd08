/* The progress of a job as etcd has it, for people and for the leader. */
#pragma once

#include <stdbool.h>

struct job;

/** job_progress_is_of_root() - return whether the newest progress of the worker on @slot is that of
 * rank 0 in its generation, whose node reports for the whole job
 *
 * Steps before a planned switch end while the next plan is in force, which may have given rank 0 to
 * another worker. */
bool job_progress_is_of_root(const struct job *job, unsigned slot);

/** job_progress_write() - write the job's progress from the last message of the worker on @slot,
 * which is rank 0 */
void job_progress_write(struct job *job, unsigned slot);
