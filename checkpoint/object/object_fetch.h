/*
 * Download of a checkpoint from the store into a folder. The calls block; use them on a dedicated
 * thread or in a command.
 */
#pragma once

#include "checkpoint/object/object.h"
#include "checkpoint/object/object_catalog.h"
#include "checkpoint/object/object_retry.h"

struct object_fetch_options {
    const char *prefix; /* of the store's settings; may be empty */
    const char *job;
    uint64_t step; /* with any_up_to: the newest complete checkpoint up to it */
    bool any_up_to;
    const char *manifest_sha256; /* NULL: unknown */
    const char *to;              /* the folder to make; its parent is created if missing */
    bool sets_aside; /* a folder there is renamed to <to>.damaged when its replacement is complete;
                        else it is an error */
    struct object_watch watch;
};

/**
 * object_find() - find the checkpoint that object_fetch() would fetch
 * Return: 0; -ENOENT: no such complete checkpoint; errors of the store.
 */
int object_find(const struct object_store *store, const struct object_fetch_options *options,
                struct object_checkpoint *ret_checkpoint, struct error *error) CHECK_RESULT;

/**
 * object_fetch() - find a checkpoint, download every file, and rename the folder when all files are
 * durable
 *
 * Files are written into <to>.part. A <to>.part of an earlier attempt is continued: chunks with the
 * right CRC are not fetched again. Every chunk is compared with its CRC in the manifest. The
 * manifest is compared with its key in the store and, if known, with the SHA-256 of the commit
 * record. So @to appears complete and as committed, or not at all.
 *
 * Return: 0; -EEXIST: @to exists, and may not be set aside; -ENOENT; -EBADMSG: damaged in the
 * store, names object and chunk; -ENOSPC and other errors of the disk; errors of the store;
 * -ECANCELED.
 */
int object_fetch(const struct object_store *store, const struct object_fetch_options *options,
                 struct object_checkpoint *ret_checkpoint, struct error *error) CHECK_RESULT;
