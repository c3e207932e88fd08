/* The progress of a job as etcd has it, for people and for the leader. */
#pragma once

struct job;

/** job_progress_write() - write the job's progress from the last message of the worker on @slot,
 * which is rank 0 */
void job_progress_write(struct job *job, unsigned slot);
