/*
 * Record the owner of the checkpoints in a job's folder, as submission.json beside them: for
 * operators, and for the cleanup of removed jobs' files. Restoring does not need it: older folders
 * have none.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"

#define CHECKPOINT_OWNER_NAME "submission.json"

struct checkpoint_owner {
    char cluster[NAME_SIZE], job[NAME_SIZE];
    char submission[32]; /* submission id; "": none, from an earlier firnctl */
    int64_t created;     /* the store's revision of the submission */
};

/** checkpoint_owner_write() - write the owner into the existing folder @folder. Return: 0, also
 * if an owner is there already; -EIO, -ENOSPC, ... */
int checkpoint_owner_write(const char *folder, const struct checkpoint_owner *owner,
                           struct error *error) CHECK_RESULT;
/** checkpoint_owner_read() - read the owner. Return: 0; -ENOENT (none written, or no such
 * folder), -EINVAL (damaged), -EACCES, ... */
int checkpoint_owner_read(const char *folder, struct checkpoint_owner *ret_owner,
                          struct error *error) CHECK_RESULT;

/**
 * checkpoint_purge() - remove all checkpoints in a job's folder, pinned ones too, and the folder
 * @ret_count: number of complete checkpoints removed, also after a failure
 *
 * Files that belong to no checkpoint stay, and so does the folder: -ENOTEMPTY. The job must not
 * write there any more.
 */
int checkpoint_purge(const char *folder, size_t *ret_count, struct error *error) CHECK_RESULT;
