/* A job file on disk: YAML to a checked spec, with paths that no longer depend on where it lay. */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/job/job_spec.h"

/**
 * job_file_load() - read and check @path
 *
 * Keys of `model` that the file leaves to the folder of model.from come from there. Relative paths
 * in data.path, data.validation, checkpoint.path and model.from are taken from the job file's
 * folder, whatever the current one is.
 * Return: 0; -ENOENT, -EACCES, ... (cannot be read); -EINVAL, -E2BIG with what is wrong and on
 * which line; -ENAMETOOLONG (a path too long once absolute); -ENOMEM.
 */
int job_file_load(const char *path, struct job_spec *ret_spec, struct error *error) CHECK_RESULT;
