/*
 * Names in a job's checkpoint folder, which decide what a folder is:
 *
 *   step-0000000120          complete (the rename to this name is the commit on disk)
 *   step-0000000120.g3.part  being written by generation 3, or abandoned
 *   step-0000000120.copy     files on their way here from other nodes, long after the commit
 *   step-0000000120.gone     being removed
 *   step-0000000120.damaged  was complete and is no more; written anew, left for a person to look
 * at
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/format/manifest.h"

#define CHECKPOINT_FOLDER_MAX 900 /* bytes of a job's checkpoint folder */
#define FOLDER_PATH_SIZE      1024
#define FOLDER_FILE_SIZE                                                                           \
    (FOLDER_PATH_SIZE + MANIFEST_FILE_SIZE) /* of a file in a checkpoint's folder */

enum folder_kind {
    FOLDER_OTHER,
    FOLDER_COMPLETE,
    FOLDER_PART,
    FOLDER_COPY,
    FOLDER_GONE,
    FOLDER_DAMAGED
};

/** folder_file_path() - <directory>/<name> */
void folder_file_path(const char *directory, const char *name, char ret_path[FOLDER_FILE_SIZE]);
/**
 * folder_nearest() - @folder (shorter than FOLDER_PATH_SIZE), or where it is not there the nearest
 * one above it
 *
 * For trials, which make no folder: where a disk is not mounted, a job's folder without its
 * checkpoints would say that they are lost (checkpoint_is_lost()), and the job would begin anew.
 */
void folder_nearest(const char *folder, char ret_nearest[FOLDER_PATH_SIZE]);
/** folder_copy_path() - <folder>/step-<10 digits>.copy */
void folder_copy_path(const char *folder, uint64_t step, char ret_path[FOLDER_PATH_SIZE]);
/** folder_newest_before() - the newest complete checkpoint older than @step: its path and manifest
 * (the caller's); -ENOENT when there is none, other errors when the folder cannot be read */
int folder_newest_before(const char *folder, uint64_t step, char ret_path[FOLDER_PATH_SIZE],
                         struct manifest *ret_manifest) CHECK_RESULT;
/**
 * folder_shared_before() - the checkpoint whose files one of @step may share: the one before the
 * newest before it, so that a block which rots is in every other checkpoint at most. None that is
 * marked as damaged. Results as folder_newest_before()
 */
int folder_shared_before(const char *folder, uint64_t step, char ret_path[FOLDER_PATH_SIZE],
                         struct manifest *ret_manifest) CHECK_RESULT;
/** folder_classify() - what an entry's name says; *ret_step unless FOLDER_OTHER */
enum folder_kind folder_classify(const char *name, uint64_t *ret_step);

/** checkpoint_list() - complete checkpoints below a job's folder (final name, manifest that loads),
   newest first; malloc'ed steps; none when the folder is not there */
int checkpoint_list(const char *folder, uint64_t **ret_steps, size_t *ret_count,
                    struct error *error) CHECK_RESULT;
/** checkpoint_path() - <folder>/step-<10 digits> */
void checkpoint_path(const char *folder, uint64_t step, char ret_path[1024]);
/** checkpoint_part_path() - <folder>/step-<10 digits>.g<generation>.part, where the shares of a
   checkpoint lie until it is committed; @folder has at most CHECKPOINT_FOLDER_MAX bytes */
void checkpoint_part_path(const char *folder, uint64_t step, uint64_t generation,
                          char ret_path[1024]);
