/* Resolve the paths in a job file, which are relative to the file's folder. */
#pragma once

#include <stddef.h>

#include "base/compiler.h"

/**
 * job_path_from() - resolve @path relative to @folder (absolute)
 *
 * An absolute path stays as it is; "./" in front of a relative path is dropped.
 * Return: 0, -ENAMETOOLONG.
 */
int job_path_from(const char *folder, const char *path, char *ret_path, size_t size) CHECK_RESULT;
