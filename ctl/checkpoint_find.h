/* Which checkpoint a person means: by a job's name (the committed record says where it is) or by a
 * path. */
#pragma once

#include "ctl/arguments.h"
#include "membership/records.h"

struct checkpoint_place {
    char path[RECORD_PATH_SIZE];
    char manifest_sha256[RECORD_DIGEST_SIZE]; /* as committed; "": found by path, unknown */
};

/**
 * checkpoint_find() - from the first operand and --step
 *
 * Something with a slash, or "." and "..", is a path: of one checkpoint, or of a folder of them, of
 * which the newest is taken. Everything else is a job's name.
 * Return: 0; -ENOENT (no such job, no checkpoint yet, no such step), or why etcd did not answer.
 */
int checkpoint_find(const struct arguments *arguments, struct checkpoint_place *ret_place,
                    struct error *error) CHECK_RESULT;

/** checkpoint_find_path() - the checkpoint at @path, or the newest in that folder; -ENOENT */
int checkpoint_find_path(const char *path, struct checkpoint_place *ret_place,
                         struct error *error) CHECK_RESULT;
