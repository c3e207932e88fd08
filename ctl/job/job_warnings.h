/* Warn about requests of a job that the cluster cannot fulfil at the moment. The job is valid, and
 * waits or runs with less. */
#pragma once

#include "ctl/cluster/cluster.h"

#define JOB_WARNINGS_MAX  4
#define JOB_WARNINGS_SIZE 256

struct job_warnings {
    unsigned count;
    char texts[JOB_WARNINGS_MAX][JOB_WARNINGS_SIZE];
};

/** job_warnings() - @cluster: as it was when @spec was submitted */
void job_warnings(const struct cluster *cluster, const struct job_spec *spec,
                  struct job_warnings *ret_warnings);
