/* Find the checkpoint that a user names, by a job's name (the committed record has its path) or by
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
    /* For a job's checkpoint with copies: several nodes have its files, and `path` is the folder of
     * one of them. */
    char job[NAME_SIZE];
    uint64_t step;
    bool newest; /* the newest undamaged checkpoint: the job would resume from it */
    bool pinned;
    char damaged[RECORD_DAMAGED_SIZE]; /* as its record says */
    struct checkpoint_remote *remote;  /* NULL: all of it is at `path` */
};

void checkpoint_place_done(struct checkpoint_place *place);
/** checkpoint_place_open() - open the checkpoint with the committed manifest, wherever its files
 * are. Return: as checkpoint_open() and checkpoint_open_copies() */
int checkpoint_place_open(const struct checkpoint_place *place,
                          struct checkpoint_reader **ret_reader, struct error *error) CHECK_RESULT;

/**
 * checkpoint_find() - find the checkpoint that the first operand and --step name
 *
 * An operand with a slash, or "." and "..", is a path of one checkpoint, or of a folder of
 * checkpoints, of which the newest is taken. Every other operand is a job's name.
 * Return: 0; -ENOENT (no such job, no checkpoint yet, no such step); the error of etcd.
 */
int checkpoint_find(const struct arguments *arguments, struct checkpoint_place *ret_place,
                    struct error *error) CHECK_RESULT;

/** checkpoint_find_record() - find the checkpoint of @record, one of the records of @job */
int checkpoint_find_record(const struct cluster *cluster, const struct cluster_job *job,
                           const struct checkpoint_record *record,
                           struct checkpoint_place *ret_place, struct error *error) CHECK_RESULT;

/** checkpoint_find_path() - find the checkpoint at @path, or the newest in that folder. Return: 0;
 * -ENOENT */
int checkpoint_find_path(const char *path, struct checkpoint_place *ret_place,
                         struct error *error) CHECK_RESULT;
