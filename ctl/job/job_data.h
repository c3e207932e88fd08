/*
 * Estimate how much data a job has, from the sizes of its files on this machine: enough to warn
 * before hours of training that the job repeats a few samples a thousand times. The nodes' files
 * decide; it does not matter if files are missing here.
 */
#pragma once

#include "elastic/job/job_spec.h"

#define JOB_DATA_WORDS_SIZE 256

struct job_data_extent {
    uint64_t token_count;  /* of data.path */
    uint64_t sample_count; /* samples of the training set, without held-out ones */
    double passes;         /* epochs of the whole job; 0: no samples */
};

/** job_data_look() - measure the files; false if files of data.path are not here, or cannot be
 * listed */
bool job_data_look(const struct job_spec *spec, struct job_data_extent *ret_data);

/** job_data_words() - format "120 samples to train on, of 1.5k tokens: a step takes 32, 1000 steps
 * go over them 267 times" */
const char *job_data_words(const struct job_model *model, const struct job_training *training,
                           const struct job_data_extent *data, char ret_words[JOB_DATA_WORDS_SIZE]);

/** job_data_hint() - describe why the beginning of the first file looks like another data.format;
 * false: it does not, or the file is not here */
bool job_data_hint(const struct job_spec *spec, char ret_words[JOB_DATA_WORDS_SIZE]);

/** job_data_warn_missing() - name the paths that are not here, on standard error */
void job_data_warn_missing(const struct job_data *data);

/** job_data_is_little() - return whether there is so little data that it is likely a mistake: less
 * than one step takes, or repeated more often than is useful */
bool job_data_is_little(const struct job_model *model, const struct job_training *training,
                        const struct job_data_extent *data);
