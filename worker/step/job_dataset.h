/* The training data of a job, and the number of its tokens that count in the losses of a step. */
#pragma once

#include "elastic/job/job_spec.h"
#include "model/data/dataset.h"

/**
 * job_dataset_open() - open the job's dataset
 * @memo_folder, @listener: as in dataset_options; NULL: none
 *
 * Errors as dataset_open(); -ENODATA also where the job evaluates and no validation data is left
 */
int job_dataset_open(const struct job_spec *spec, const char *memo_folder,
                     const struct dataset_listener *listener, struct dataset **ret_dataset,
                     struct error *error) CHECK_RESULT;

/**
 * job_dataset_counted() - return the number of tokens that count in the loss of @step (>= 1), over
 * all lanes
 *
 * The loss of a step is the mean over these tokens, so the scale of its gradients follows from the
 * data alone: every worker computes it locally, on every layout. The result may be 0.
 */
uint64_t job_dataset_counted(const struct job_training *training, const struct dataset *dataset,
                             uint64_t step);
/** job_dataset_repeats() - return whether the job trains on the sample at @position of its order
 * again, in a later epoch (an upper bound: the last epoch may end before it) */
bool job_dataset_repeats(const struct job_training *training, const struct dataset *dataset,
                         uint64_t position);
/** job_dataset_validation_batches() - return the number of micro-batches of an evaluation, counted
 * from the first: a function of the job and of its data, so equal on every layout */
unsigned job_dataset_validation_batches(const struct job_evaluation *evaluation,
                                        const struct job_training *training,
                                        const struct dataset *dataset);

/** job_dataset_validation_counted() - as job_dataset_counted() for an evaluation; every evaluation
 * reads the same tokens */
uint64_t job_dataset_validation_counted(const struct job_evaluation *evaluation,
                                        const struct job_training *training,
                                        const struct dataset *dataset);
