/* Whole files: bounded reads, and atomic, durable replacement. */
#pragma once

#include <stddef.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"

/**
 * file_read() - read all of @path, NUL-terminated past the end; -EFBIG over @size_max, else
 * negative errno
 */
int file_read(const char *path, size_t size_max, struct bytes *ret_content,
              struct error *error) CHECK_RESULT;

/** file_replace() - write a temporary of @mode less the umask, fsync, rename over @path, fsync the
 * directory */
int file_replace(const char *path, const void *data, size_t size_bytes, unsigned mode,
                 struct error *error) CHECK_RESULT;

/** file_make_directories() - make a directory and its parents, like mkdir -p */
int file_make_directories(const char *path, unsigned mode, struct error *error) CHECK_RESULT;

/** file_sync_directory() - fsync a directory, so that the names in it are durable */
int file_sync_directory(const char *path, struct error *error) CHECK_RESULT;
