/* Training state from a checkpoint, for any layout. */
#pragma once

#include "checkpoint/read/reader.h"
#include "worker/state/state.h"

/**
 * restore_units() - read units [first, first + count) from the checkpoint at @path; all other held
 * units must come from the same checkpoint
 *
 * Return: 0; negative with the reader's text (file and cause): nothing is held then
 */
int restore_units(struct state *state, const char *path, unsigned first, unsigned count,
                  struct error *error) CHECK_RESULT;

/** restore_copies() - as restore_units(), from a checkpoint whose files are on several nodes; also
 * -EHOSTUNREACH if too many of the nodes are away */
int restore_copies(struct state *state, const struct checkpoint_source *source, unsigned first,
                   unsigned count, struct error *error) CHECK_RESULT;
