/*
 * A checkpoint back from the store, as the folder that it was. Blocks; for a thread of its own, or
 * a command.
 */
#pragma once

#include "checkpoint/object/object.h"
#include "checkpoint/object/object_catalog.h"
#include "checkpoint/object/object_retry.h"

struct object_fetch_options {
    const char *prefix; /* of the store's settings; may be empty */
    const char *job;
    uint64_t step; /* with any_up_to: the newest complete one up to it */
    bool any_up_to;
    const char *manifest_sha256; /* NULL: not known */
    const char *to;              /* the folder to make; its parent is made where it is missing */
    struct object_watch watch;
};

/**
 * object_find() - the checkpoint that object_fetch() would take
 * Return: 0; -ENOENT: there is no such complete one; what the store returns.
 */
int object_find(const struct object_store *store, const struct object_fetch_options *options,
                struct object_checkpoint *ret_checkpoint, struct error *error) CHECK_RESULT;

/**
 * object_fetch() - find it, bring every file, rename when all is durable
 *
 * Written into <to>.part. One that an earlier attempt has left is gone on with: chunks that are
 * there with the right CRC are not fetched again. Every chunk is compared with the CRC in the
 * manifest, which is compared with the name that the store has it under and, where it is known, the
 * SHA-256 of the commit record. So @to is there whole and as it was committed, or not at all.
 *
 * Return: 0; -EEXIST: @to is there; -ENOENT; -EBADMSG: damaged in the store, names object and
 * chunk; -ENOSPC and others of the disk; what the store returns; -ECANCELED.
 */
int object_fetch(const struct object_store *store, const struct object_fetch_options *options,
                 struct object_checkpoint *ret_checkpoint, struct error *error) CHECK_RESULT;
