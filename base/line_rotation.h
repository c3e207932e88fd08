/*
 * Bound files of lines that grow with the age of a job.
 */
#pragma once

#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

#define LINE_ROTATION_SUFFIX ".1" /* of the older lines; those before them are removed */

/**
 * lines_rotate() - rename a file to @path.1, and begin @path with its newest whole lines
 * @kept_bytes: of these lines at most; they are in both files
 *
 * @path names whole lines at any moment, also after a crash. A process that has the old file open
 * continues to read it.
 *
 * Return: 0; negative errno (@path is unchanged)
 */
int lines_rotate(const char *path, size_t kept_bytes, struct error *error) CHECK_RESULT;
