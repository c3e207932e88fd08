/*
 * The model of a job in the words of Hugging Face's config.json.
 */
#pragma once

#include "elastic/job_spec.h"

/**
 * huggingface_config() - the config.json of a job's model, so that a folder with it opens there
 * @tied: whether the head still uses the embedding's table
 *
 * A new reference; NULL when memory is short.
 */
json_t *huggingface_config(const struct job_spec *spec, bool tied);
