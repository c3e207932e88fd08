/*
 * The section `evaluate` of a job: the interval of evaluations, and the amount of held-out data in
 * each.
 */
#pragma once

#include <stdint.h>

/* Values of `batches`. ALL: all of the validation data. AUTO: chosen from the size of that data and
 * the steps between two evaluations (worker/step/job_dataset.h). */
#define JOB_BATCHES_ALL  UINT32_MAX
#define JOB_BATCHES_AUTO 0u

struct job_evaluation {
    uint64_t every;   /* steps; 0: never */
    unsigned batches; /* micro-batches each time, or one of JOB_BATCHES_... */
};
