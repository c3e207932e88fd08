/* The training data that a job names, and how many of its tokens the losses of a step are over. */
#pragma once

#include "elastic/job/job_spec.h"
#include "model/data/dataset.h"

/**
 * job_dataset_open() - errors as dataset_open(); -ENODATA also where the job evaluates and no
 * validation data is left
 * @memo_folder, @listener: as of dataset_options; NULL: none
 */
int job_dataset_open(const struct job_spec *spec, const char *memo_folder,
                     const struct dataset_listener *listener, struct dataset **ret_dataset,
                     struct error *error) CHECK_RESULT;

/**
 * job_dataset_counted() - how many tokens count in the loss of @step (>= 1), over all lanes
 *
 * The loss of a step is the mean over these, so what its gradients are scaled with follows from the
 * data alone: every worker knows it without asking another, on every layout. May be 0.
 */
uint64_t job_dataset_counted(const struct job_spec *spec, const struct dataset *dataset,
                             uint64_t step);
/** job_dataset_validation_batches() - how many micro-batches an evaluation reads, from the first
 * one on: a function of the job and of its data, so equal on every layout */
unsigned job_dataset_validation_batches(const struct job_spec *spec, const struct dataset *dataset);

/** job_dataset_validation_counted() - the same for an evaluation, each of which reads the same */
uint64_t job_dataset_validation_counted(const struct job_spec *spec, const struct dataset *dataset);
