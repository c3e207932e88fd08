/*
 * Conversion between a job's model and Hugging Face's config.json, in both directions: Hugging Face
 * tools open checkpoints (huggingface_write.c), and a job can start from a Hugging Face model
 * (huggingface_read.c). The llama family of a job has several model types in Hugging Face. The
 * written type follows from the keys of the model.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/job/job_model.h"

/**
 * huggingface_config() - make the config.json of a job's model, so that Hugging Face tools open the
 * folder
 * @tied: whether the head still uses the embedding's table
 *
 * Return: a new reference; NULL when out of memory.
 */
json_t *huggingface_config(const struct job_model *model, bool tied);

/**
 * huggingface_adopt() - make the config.json of a job that started from a folder: the folder's own
 * config for all keys that a job does not determine (bos, eos, max_position_embeddings, names of
 * labels, ...)
 * @source: the folder's config.json, of the same model as the job's
 * @own: huggingface_config() of the job, which determines the keys that describe the files: their
 * dtype, and whether the head has its own table
 * @name: the folder's path; its last component is stored as "_name_or_path"
 *
 * Return: a new reference; NULL when out of memory.
 */
json_t *huggingface_adopt(const json_t *source, const json_t *own, const char *name);
/**
 * huggingface_adopted() - return the "_name_or_path" that huggingface_adopt() stored in @config;
 * NULL: @config was not adopted
 */
const char *huggingface_adopted(const json_t *config);

/**
 * huggingface_model() - translate @config to the keys of a job's `model` section
 * @context: the job's context, 0: unknown; it must not exceed the attention window of the model
 * @ret_keys: an object with the keys that the model's parameters determine; a new reference
 *
 * -EINVAL: a key of config.json is missing, or is not supported by firn (kinds of rope_scaling
 * other than "linear" and "llama3", biases other than a Qwen2's, other activations and families);
 * @error names the key. -ENOMEM.
 */
int huggingface_model(const json_t *config, unsigned context, json_t **ret_keys,
                      struct error *error) CHECK_RESULT;

/**
 * huggingface_check_positions() - check that the positions of a job's @context are those on which
 * the model of @config was trained: its output at others is noise, until it has learned them.
 * Return: 0; -EINVAL, @error names the key
 */
int huggingface_check_positions(const json_t *config, unsigned context,
                                struct error *error) CHECK_RESULT;

/**
 * huggingface_agree() - compare @section, a job's `model`, with @keys; a missing key has its
 * default. Return: 0; -EINVAL with the first key that differs
 */
int huggingface_agree(const json_t *keys, const json_t *section, struct error *error) CHECK_RESULT;
