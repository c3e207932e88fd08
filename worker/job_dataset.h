/* The training data that a job names. */
#pragma once

#include "elastic/job_spec.h"
#include "model/dataset.h"

/** job_dataset_open() - errors as dataset_open(); -ENODATA also where the job evaluates and no
 * validation data is left */
int job_dataset_open(const struct job_spec *spec, struct dataset **ret_dataset,
                     struct error *error) CHECK_RESULT;
