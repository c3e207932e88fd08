/* Write results to standard output, and to files that the user names. */
#pragma once

#include <jansson.h>

#include "base/compiler.h"
#include "base/error.h"

/** output_json() - print and free @tree (NULL: memory was short); 0 or -ENOMEM */
int output_json(json_t *tree, struct error *error) CHECK_RESULT;
/** output_file() - write @data to the file at @path, whole or not at all. A device or a pipe is
 * written into; a link is followed. Errors as file_replace() */
int output_file(const char *path, const void *data, size_t size_bytes,
                struct error *error) CHECK_RESULT;
/** output_flush() - flush the output. Return: 0: all of it was written; -EPIPE, -ENOSPC, ... */
int output_flush(struct error *error) CHECK_RESULT;
