/*
 * A model's folder as Hugging Face's tools write it: config.json, and parameters in
 * model.safetensors or in the files that model.safetensors.index.json names. Only read.
 *
 * Nothing in it is believed: the index may name files of the folder alone, headers are checked as
 * those of checkpoints are, and a tensor must have the shape that is asked for.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

struct model_folder;

/** model_folder_config() - config.json; a new reference */
int model_folder_config(const char *folder, json_t **ret_config, struct error *error) CHECK_RESULT;

/**
 * model_folder_open() - find out which tensors there are and where
 *
 * Return: 0; -ENOENT, -EACCES, ... (no such file); -EBADMSG, -EINVAL with what is wrong; -ENOMEM.
 */
int model_folder_open(const char *folder, struct model_folder **ret_model,
                      struct error *error) CHECK_RESULT;
void model_folder_close(struct model_folder *model); /* NULL allowed */

/**
 * model_folder_look() - read the headers of all files, and tell of each that cannot be used
 * @problem: is told the error of one file: as model_folder_open() returns it
 *
 * Return: how many problems there are; -ENOMEM.
 */
int model_folder_look(const char *folder, void (*problem)(void *context, const struct error *error),
                      void *context) CHECK_RESULT;

/** model_folder_check() - 0 when the tensor @name is there and can be read as this shape; as
 * model_folder_read(), which would say the same */
int model_folder_check(const struct model_folder *model, const char *name, const size_t *shape,
                       unsigned rank, struct error *error) CHECK_RESULT;

/** model_folder_has() - whether there is a tensor of that name */
bool model_folder_has(const struct model_folder *model, const char *name);

/**
 * model_folder_read() - one tensor as f32
 * @shape: @rank sizes that it must have
 * @ret_values: host memory for all of its elements
 *
 * F32 as it is, F16 and BF16 widened, which is exact. -ENOENT (no such tensor), -EINVAL (another
 * shape or type, said with the file and the tensor), -EIO, -ENOMEM.
 */
int model_folder_read(struct model_folder *model, const char *name, const size_t *shape,
                      unsigned rank, float *ret_values, struct error *error) CHECK_RESULT;
