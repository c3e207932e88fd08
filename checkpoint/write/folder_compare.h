/* Is the checkpoint that is to be committed there already? */
#pragma once

#include "checkpoint/format/manifest.h"

enum { FOLDER_COMPARE_ABSENT = 0, FOLDER_COMPARE_STANDS = 1 };

/**
 * folder_compare() - before a commit: is what is to be committed there already?
 * @manifest: sealed
 *
 * A run that went back to an older checkpoint writes the later ones again, with the same bits. One
 * that is there and holds the same state stands for the new one, once every byte of it has been
 * verified. One that turns out damaged, which may be why the run went back, is moved out of the
 * way: renamed to .damaged, durably (an older .damaged of the same step is removed).
 *
 * Return: FOLDER_COMPARE_STANDS: *ret_path, *ret_sha256 are what to record; FOLDER_COMPARE_ABSENT:
 * commit; -EEXIST: another state is there; others: it could not be read, and nothing is known
 * against it.
 */
int folder_compare(const char *folder, const struct manifest *manifest, char ret_path[1024],
                   char ret_sha256[65], struct error *error) CHECK_RESULT;
