/* Load a job file from disk: YAML to a checked spec with absolute paths. */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "ctl/command/arguments.h"
#include "elastic/job/job_spec.h"

/**
 * job_file_load() - read @path, change it by every --set of @settings, and check it
 * @settings: NULL: none
 *
 * Keys of `model` that the file leaves out come from the folder of model.from. Relative paths
 * in data.path, data.validation, checkpoint.path and model.from are relative to the job file's
 * folder, not to the current folder.
 * Return: 0; -ENOENT, -EACCES, ... (cannot be read); -EINVAL, -E2BIG with the error and its line;
 * -ENAMETOOLONG (a path is too long once absolute); COMMAND_USAGE (the file is good, but @settings
 * are not); -ENOMEM.
 */
int job_file_load(const char *path, const struct arguments *settings, struct job_spec *ret_spec,
                  struct error *error) CHECK_RESULT;
