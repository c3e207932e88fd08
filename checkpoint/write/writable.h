/*
 * Check when a worker starts that checkpoints can be written to a folder: a folder of another user,
 * or a full disk, must be reported before hours of computing.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

/**
 * checkpoint_writable() - write a few bytes to @folder, and check its free space
 * @folder: the job's; if it does not exist yet, its nearest existing ancestor is tested
 * @size_bytes: of a checkpoint; 0: unknown
 *
 * The test file is gone on return, and has a name only while it is opened. The folder is not
 * created (folder_nearest()).
 *
 * Return: 0; -ENOSPC: less than @size_bytes is free; -ENAMETOOLONG; errors of open, write and
 * fsync. @error has path, cause and bytes.
 */
int checkpoint_writable(const char *folder, uint64_t size_bytes, struct error *error) CHECK_RESULT;
