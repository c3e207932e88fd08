/*
 * Read a model's folder as Hugging Face's tools write it: config.json, and parameters in
 * model.safetensors or in the files that model.safetensors.index.json names.
 *
 * The folder is untrusted: the index may name only files of the folder itself, headers are checked
 * as for checkpoints, and a tensor must have the requested shape.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

struct model_folder;

/** model_folder_config() - return config.json; a new reference */
int model_folder_config(const char *folder, json_t **ret_config, struct error *error) CHECK_RESULT;

/**
 * model_folder_open() - find all tensors and their places
 *
 * Return: 0; -ENOENT, -EACCES, ... (no such file); -EBADMSG, -EINVAL with the cause; -ENOMEM.
 */
int model_folder_open(const char *folder, struct model_folder **ret_model,
                      struct error *error) CHECK_RESULT;
void model_folder_close(struct model_folder *model); /* NULL allowed */

/**
 * model_folder_look() - read the headers of all files, and report each unusable file
 * @problem: called with the error of one file, as model_folder_open() returns it
 *
 * Return: the number of problems; -ENOMEM.
 */
int model_folder_look(const char *folder, void (*problem)(void *context, const struct error *error),
                      void *context) CHECK_RESULT;

/** model_folder_check() - check that the tensor @name exists and is readable as this shape;
 * errors as model_folder_read() */
int model_folder_check(const struct model_folder *model, const char *name, const size_t *shape,
                       unsigned rank, struct error *error) CHECK_RESULT;

/** model_folder_has() - return whether there is a tensor of that name */
bool model_folder_has(const struct model_folder *model, const char *name);

/**
 * model_folder_read() - read one tensor as f32
 * @shape: the required @rank sizes
 * @ret_values: host memory for all elements
 *
 * F32 is copied; F16 and BF16 are widened, which is exact. -ENOENT (no such tensor), -EINVAL
 * (another shape or type, with file and tensor), -EIO, -ENOMEM.
 */
int model_folder_read(struct model_folder *model, const char *name, const size_t *shape,
                      unsigned rank, float *ret_values, struct error *error) CHECK_RESULT;
