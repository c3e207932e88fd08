/*
 * The section `data` of a job: the files of tokens to train on, and those held out for evaluation.
 */
#pragma once

#include "elastic/job/job_text.h"

#define JOB_PATHS_MAX 32

enum job_format { JOB_FORMAT_BYTES, JOB_FORMAT_LLMC, JOB_FORMAT_UINT16, JOB_FORMAT_UINT32 };

/* In YAML one text or a list; absolute after submission. */
struct job_paths {
    char paths[JOB_PATHS_MAX][JOB_PATH_SIZE];
    unsigned count;
};

struct job_data {
    enum job_format format;
    struct job_paths path;
    struct job_paths mask;               /* tokens that count in the loss; none: all */
    double validation_share;             /* YAML `validation`: a share ... */
    char validation_path[JOB_PATH_SIZE]; /* ... or a path; empty when a share */
    char validation_mask[JOB_PATH_SIZE]; /* of that path's tokens; empty: all count */
};
