/*
 * How much data a job has, by the sizes of its files as they are found here: enough to tell
 * somebody before hours of training that the job goes over a handful of samples a thousand times.
 * The nodes' files decide; that there are none here means nothing.
 */
#pragma once

#include "elastic/job/job_spec.h"

#define JOB_DATA_WORDS_SIZE 256

struct job_data {
    uint64_t token_count;  /* of data.path */
    uint64_t sample_count; /* that training visits: without what is held out */
    double passes;         /* how often the whole job goes over them; 0: there are none */
};

/** job_data_look() - false when files of data.path are not here, or cannot be listed */
bool job_data_look(const struct job_spec *spec, struct job_data *ret_data);

/** job_data_words() - "120 samples to train on, of 1.5k tokens: a step takes 32, 1000 steps go over
 * them 267 times" */
const char *job_data_words(const struct job_spec *spec, const struct job_data *data,
                           char ret_words[JOB_DATA_WORDS_SIZE]);

/** job_data_hint() - what makes the files look like those of another data.format; false: nothing,
 * or they are not here */
bool job_data_hint(const struct job_spec *spec, char ret_words[JOB_DATA_WORDS_SIZE]);

/** job_data_is_little() - so little that it is more likely a mistake than a wish: less than one
 * step takes, or gone over more often than anybody trains on purpose */
bool job_data_is_little(const struct job_spec *spec, const struct job_data *data);
