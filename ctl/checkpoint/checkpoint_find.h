/* Find the checkpoint that a user names: by a job's name (the committed record has its place) or by
 * a path. */
#pragma once

#include "checkpoint/read/reader.h"
#include "checkpoint/remote/remote.h"
#include "checkpoint/replicate/copy_place.h"
#include "ctl/cluster/cluster.h"
#include "ctl/command/arguments.h"
#include "membership/kv/records.h"

struct checkpoint_place {
    char path[RECORD_PATH_SIZE];
    char manifest_sha256[RECORD_DIGEST_SIZE]; /* as committed; "": found by path, unknown */
    /* Of a job's checkpoint with copies: its files lie on several nodes, and `path` is where one of
     * them has its part. */
    char job[NAME_SIZE];
    uint64_t step;
    bool newest; /* the newest undamaged checkpoint: the job would resume from it */
    bool pinned;
    char damaged[RECORD_DAMAGED_SIZE]; /* as its record says */
    struct checkpoint_remote *remote;  /* NULL: all of it is at `path` */
};

void checkpoint_place_done(struct checkpoint_place *place);
/** checkpoint_place_open() - with the committed manifest, wherever its files lie; errors as
 * checkpoint_open() and checkpoint_open_copies() */
int checkpoint_place_open(const struct checkpoint_place *place,
                          struct checkpoint_reader **ret_reader, struct error *error) CHECK_RESULT;

/**
 * checkpoint_find() - from the first operand and --step
 *
 * Something with a slash, or "." and "..", is a path: of one checkpoint, or of a folder of them, of
 * which the newest is taken. Everything else is a job's name.
 * Return: 0; -ENOENT (no such job, no checkpoint yet, no such step), or why etcd did not answer.
 */
int checkpoint_find(const struct arguments *arguments, struct checkpoint_place *ret_place,
                    struct error *error) CHECK_RESULT;

/** checkpoint_find_record() - the checkpoint of @record, which is one of @job's */
int checkpoint_find_record(const struct cluster *cluster, const struct cluster_job *job,
                           const struct checkpoint_record *record,
                           struct checkpoint_place *ret_place, struct error *error) CHECK_RESULT;

/** checkpoint_find_path() - the checkpoint at @path, or the newest in that folder; -ENOENT */
int checkpoint_find_path(const char *path, struct checkpoint_place *ret_place,
                         struct error *error) CHECK_RESULT;
