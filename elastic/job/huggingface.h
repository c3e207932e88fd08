/*
 * The model of a job in the words of Hugging Face's config.json, in both directions: checkpoints
 * open there (huggingface_write.c), and a job can begin with what was made there
 * (huggingface_read.c). What a job calls llama has several names there: the one that is written
 * follows from what the model computes.
 */
#pragma once

#include "elastic/job/job_spec.h"

/**
 * huggingface_config() - the config.json of a job's model, so that a folder with it opens there
 * @tied: whether the head still uses the embedding's table
 *
 * A new reference; NULL when memory is short.
 */
json_t *huggingface_config(const struct job_spec *spec, bool tied);

/**
 * huggingface_adopt() - the config.json of a job that began with a folder: the folder's own, for
 * all that a job does not decide (bos, eos, max_position_embeddings, names of labels, ...)
 * @source: the folder's config.json, of the same model as the job's
 * @own: huggingface_config() of the job, which decides what describes the files: their dtype, and
 * whether the head has a table of its own
 * @name: the folder's path, whose last part is noted as "_name_or_path"
 *
 * A new reference; NULL when memory is short.
 */
json_t *huggingface_adopt(const json_t *source, const json_t *own, const char *name);
/** huggingface_adopted() - the "_name_or_path" that huggingface_adopt() has noted in @config; NULL:
 * it is a job's own */
const char *huggingface_adopted(const json_t *config);

/**
 * huggingface_model() - what @config says about the keys of a job's `model` section
 * @context: the job's, 0 where it is not known: of a model whose attention reaches back only so
 * far, no sample may be longer
 * @ret_keys: an object with those keys that the parameters of that model decide; a new reference
 *
 * -EINVAL: a key of config.json is missing, or asks for what firn does not compute (other kinds of
 * rope_scaling than "linear" and "llama3", other biases than a Qwen2's, other activations and
 * families); @error names it. -ENOMEM.
 */
int huggingface_model(const json_t *config, unsigned context, json_t **ret_keys,
                      struct error *error) CHECK_RESULT;

/** huggingface_agree() - 0 when @section, a job's `model`, has the same values for all of @keys, by
   its defaults where it says nothing; else -EINVAL with the first key that differs */
int huggingface_agree(const json_t *keys, const json_t *section, struct error *error) CHECK_RESULT;
