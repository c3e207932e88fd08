/*
 * Names in a job's checkpoint folder. The name of an entry shows its state:
 *
 *   step-0000000120          complete (the rename to this name is the commit on disk)
 *   step-0000000120.g3.part  being written by generation 3, or abandoned
 *   step-0000000120.part     being fetched from the object store, or left by such a fetch
 *   step-0000000120.copy     files being copied from other nodes, long after the commit
 *   step-0000000120.gone     being removed; step-0000000120.g3.gone: the part of that name
 *   step-0000000120.damaged  once complete, now damaged; the step is written anew, this folder is
 *                            left for an operator
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/format/manifest.h"

#define CHECKPOINT_FOLDER_MAX 900 /* maximum length of the path of a job's checkpoint folder */
#define FOLDER_PATH_SIZE      1024
#define FOLDER_FILE_SIZE                                                                           \
    (FOLDER_PATH_SIZE + MANIFEST_FILE_SIZE) /* path of a file in a checkpoint's folder */

enum folder_kind {
    FOLDER_OTHER,
    FOLDER_COMPLETE,
    FOLDER_PART,
    FOLDER_FETCH,
    FOLDER_COPY,
    FOLDER_GONE,
    FOLDER_DAMAGED
};

/** folder_file_path() - format <directory>/<name> */
void folder_file_path(const char *directory, const char *name, char ret_path[FOLDER_FILE_SIZE]);
/**
 * folder_nearest() - return @folder (shorter than FOLDER_PATH_SIZE), or its nearest existing
 * ancestor
 *
 * For tests of a disk, which must not create the folder: if a disk is not mounted, an empty job
 * folder would mean that the checkpoints are lost (checkpoint_is_lost()), and the job would start
 * over.
 */
void folder_nearest(const char *folder, char ret_nearest[FOLDER_PATH_SIZE]);
/** folder_copy_path() - format <folder>/step-<10 digits>.copy */
void folder_copy_path(const char *folder, uint64_t step, char ret_path[FOLDER_PATH_SIZE]);
/** folder_classify() - classify an entry by its name; *ret_step is set unless FOLDER_OTHER */
enum folder_kind folder_classify(const char *name, uint64_t *ret_step);

/** checkpoint_list() - list the complete checkpoints below a job's folder (final name, manifest
 * that loads), newest first; malloc'ed steps; empty if the folder does not exist */
int checkpoint_list(const char *folder, uint64_t **ret_steps, size_t *ret_count,
                    struct error *error) CHECK_RESULT;
/** checkpoint_path() - format <folder>/step-<10 digits> */
void checkpoint_path(const char *folder, uint64_t step, char ret_path[1024]);
/** checkpoint_part_path() - format <folder>/step-<10 digits>.g<generation>.part, the folder for
 * the shares of a checkpoint until it is committed; @folder has at most CHECKPOINT_FOLDER_MAX
 * bytes */
void checkpoint_part_path(const char *folder, uint64_t step, uint64_t generation,
                          char ret_path[1024]);
