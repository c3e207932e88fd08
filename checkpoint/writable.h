/*
 * Whether checkpoints can be written to a folder, asked when a worker starts: a folder of another
 * user or a full disk should be known before hours have been computed.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

/**
 * checkpoint_writable() - make the job's checkpoint folder, durably, write a little there, and look
 * how much room is left
 * @size_bytes: of a checkpoint; 0: not known
 *
 * What it writes is gone when it returns, and has no name for longer than it takes to open it.
 *
 * Return: 0; -ENOSPC: less than @size_bytes is free; what mkdir, open, write and fsync say. @error
 * has path, cause and bytes.
 */
int checkpoint_writable(const char *folder, uint64_t size_bytes, struct error *error) CHECK_RESULT;
