/* Write the progress of a job to etcd, for operators and for the leader. */
#pragma once

#include <stdbool.h>

struct job;

/** job_progress_is_of_root() - return whether the worker on @slot was rank 0 in the generation of
 * its newest progress; the node of rank 0 reports for the whole job
 *
 * The last steps before a planned switch end when the next plan is already in force, and that plan
 * may give rank 0 to another worker. */
bool job_progress_is_of_root(const struct job *job, unsigned slot);

/** job_progress_write() - write the job's progress from the last message of the worker on @slot,
 * which is rank 0 */
void job_progress_write(struct job *job, unsigned slot);
