/*
 * Whose the checkpoints in a job's folder are, written beside them as submission.json: for people,
 * and for those who look after what removed jobs have left. Restoring needs nothing of it: folders
 * of before have none.
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
    char submission[32]; /* its id; "": an earlier firnctl gave it none */
    int64_t created;     /* the store's revision of it */
};

/** checkpoint_owner_write() - into the job's folder @folder, which is there; 0 also where somebody
 * has written one already, -EIO, -ENOSPC, ... */
int checkpoint_owner_write(const char *folder, const struct checkpoint_owner *owner,
                           struct error *error) CHECK_RESULT;
/** checkpoint_owner_read() - -ENOENT (nobody has written it, or there is no such folder), -EINVAL
 * (damaged), -EACCES, ... */
int checkpoint_owner_read(const char *folder, struct checkpoint_owner *ret_owner,
                          struct error *error) CHECK_RESULT;

/**
 * checkpoint_purge() - remove all checkpoints in a job's folder, pinned ones too, and the folder
 * @ret_count: how many complete ones went, also when it fails
 *
 * What is no part of a checkpoint stays, and the folder with it: -ENOTEMPTY. A job that runs must
 * not write there any more.
 */
int checkpoint_purge(const char *folder, size_t *ret_count, struct error *error) CHECK_RESULT;
