/* Find the checkpoints before the one being written, and the one with which it may share files. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/manifest.h"

/** folder_newest_before() - find the newest complete checkpoint older than @step. Return: 0 with
 * its path and manifest (owned by the caller); -ENOENT if there is none; other errors if the
 * folder cannot be read */
int folder_newest_before(const char *folder, uint64_t step, char ret_path[FOLDER_PATH_SIZE],
                         struct manifest *ret_manifest) CHECK_RESULT;
/**
 * folder_shared_before() - find the checkpoint with which a checkpoint of @step may share files:
 * the second newest before it, so that a rotten block is in every other checkpoint at most. A
 * checkpoint that is marked as damaged, or that shares a file with a damaged one, is never chosen.
 * While the checkpoint before @step is still being written, none is chosen, because that checkpoint
 * may share the same files. Results as folder_newest_before()
 */
int folder_shared_before(const char *folder, uint64_t step, char ret_path[FOLDER_PATH_SIZE],
                         struct manifest *ret_manifest) CHECK_RESULT;

/** folder_mark_sharing() - mark as damaged every complete checkpoint whose file @name is the
 * damaged one: the checkpoint in which the damage was found may be removed before a later one is
 * written. A mark that cannot be set now is set when that checkpoint is read back */
void folder_mark_sharing(const char *folder, const char *name, dev_t device, ino_t inode);
