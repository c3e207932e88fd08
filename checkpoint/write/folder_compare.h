/* Check before a commit whether the same checkpoint exists already. */
#pragma once

#include "checkpoint/format/manifest.h"

enum { FOLDER_COMPARE_ABSENT = 0, FOLDER_COMPARE_STANDS = 1 };

/**
 * folder_compare() - compare a checkpoint that is to be committed with an existing one of its step
 * @manifest: sealed
 *
 * A run that went back to an older checkpoint writes the later ones again, with the same bits. An
 * existing checkpoint with the same state is used instead of the new one, after every byte of it
 * has been verified. A damaged one, perhaps the reason why the run went back, is renamed to
 * .damaged, durably (an older .damaged of the same step is removed).
 *
 * Return: FOLDER_COMPARE_STANDS: record *ret_path, *ret_sha256; FOLDER_COMPARE_ABSENT: commit;
 * -EEXIST: another state exists; others: the existing one could not be read, and is not known to be
 * bad.
 */
int folder_compare(const char *folder, const struct manifest *manifest, char ret_path[1024],
                   char ret_sha256[65], struct error *error) CHECK_RESULT;
