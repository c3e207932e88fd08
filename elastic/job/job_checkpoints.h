/*
 * The section `checkpoint` of a job: the folder of checkpoints, their interval, and the number that
 * stays.
 */
#pragma once

#include <stdint.h>

#include "base/name.h"
#include "elastic/job/job_text.h"

struct job_checkpoints {
    char path[JOB_PATH_SIZE]; /* empty: <node's data folder>/checkpoints */
    uint64_t every;           /* steps; 0: only at the end, on pause and on drain */
    unsigned keep, copies;
    char object_bucket[NAME_SIZE]; /* in the cluster's object store; empty: no upload */
    unsigned object_keep;
};
