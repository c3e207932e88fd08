/* Training state out of a checkpoint, for any layout. */
#pragma once

#include "checkpoint/read/reader.h"
#include "worker/state/state.h"

/**
 * restore_units() - units [first, first + count) as the checkpoint at @path has them; what else is
 * held must come from the same checkpoint
 *
 * Return: 0; negative with the reader's words (file and cause): nothing is held then
 */
int restore_units(struct state *state, const char *path, unsigned first, unsigned count,
                  struct error *error) CHECK_RESULT;

/** restore_copies() - the same from a checkpoint whose files lie on several nodes; also
 * -EHOSTUNREACH, when too many of them are away */
int restore_copies(struct state *state, const struct checkpoint_source *source, unsigned first,
                   unsigned count, struct error *error) CHECK_RESULT;
