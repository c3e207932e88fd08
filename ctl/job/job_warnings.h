/* Warn about requests of a job that the cluster cannot meet at present. The job is valid, but waits
 * or runs with less. */
#pragma once

#include "ctl/cluster/cluster.h"
#include "elastic/job/job_checkpoints.h"
#include "elastic/job/job_elasticity.h"

#define JOB_WARNINGS_MAX  5
#define JOB_WARNINGS_SIZE 256

struct job_warnings {
    unsigned count;
    char texts[JOB_WARNINGS_MAX][JOB_WARNINGS_SIZE];
};

/** job_warnings() - @cluster: its state when the job of @checkpoints and @elastic was submitted */
void job_warnings(const struct cluster *cluster, const struct job_checkpoints *checkpoints,
                  const struct job_elasticity *elastic, struct job_warnings *ret_warnings);
