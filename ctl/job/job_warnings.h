/* What a job file asks for and the cluster cannot give at the moment: the job is good, and waits
 * or makes do, but somebody who has just submitted it wants to know. */
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
