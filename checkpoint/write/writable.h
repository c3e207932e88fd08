/*
 * Whether checkpoints can be written to a folder, asked when a worker starts: a folder of another
 * user or a full disk should be known before hours have been computed.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

/**
 * checkpoint_writable() - write a little to @folder, and look how much room is left
 * @folder: the job's; where it is not there yet the nearest one above it is asked
 * @size_bytes: of a checkpoint; 0: not known
 *
 * What it writes is gone when it returns, and has no name for longer than it takes to open it; the
 * folder is not made (folder_nearest()).
 *
 * Return: 0; -ENOSPC: less than @size_bytes is free; -ENAMETOOLONG; what open, write and fsync say.
 * @error has path, cause and bytes.
 */
int checkpoint_writable(const char *folder, uint64_t size_bytes, struct error *error) CHECK_RESULT;
