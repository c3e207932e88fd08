/*
 * The writer of a worker's checkpoints, with a staging arena and a tuning that fit the state: a
 * small one needs neither 64 MiB nor a measurement of the disk.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "checkpoint/write/writer.h"
#include "worker/state/state.h"

/** state_writer_start() - start a writer of shares of @state below @folder; -ENOMEM, or the error
 * of a thread */
int state_writer_start(const struct state *state, const struct io *io, const char *folder,
                       struct checkpoint_writer **ret_writer, struct error *error) CHECK_RESULT;

/** state_writer_bytes() - return the bytes of all parameters, and of the moments of the trained
 * ones, of all ranks */
uint64_t state_writer_bytes(const struct state *state);
