/* Is the checkpoint that is to be committed there already? */
#pragma once

#include "checkpoint/format/manifest.h"

enum { CHECKPOINT_ABSENT = 0, CHECKPOINT_STANDS = 1 };

/**
 * checkpoint_find_equal() - before a commit: is what is to be committed there already?
 * @manifest: sealed
 *
 * A run that went back to an older checkpoint writes the later ones again, with the same bits. One
 * that is there and holds the same state stands for the new one, once every byte of it has been
 * verified. One that turns out damaged, which may be why the run went back, is moved out of the
 * way: renamed to .damaged, durably (an older .damaged of the same step is removed).
 *
 * Return: CHECKPOINT_STANDS: *ret_path, *ret_sha256 are what to record; CHECKPOINT_ABSENT: commit;
 * -EEXIST: another state is there; others: it could not be read, and nothing is known against it.
 */
int checkpoint_find_equal(const char *folder, const struct manifest *manifest, char ret_path[1024],
                          char ret_sha256[65], struct error *error) CHECK_RESULT;
