/*
 * Upload of a committed checkpoint: executes the orders of the sender (object_sender.h). The call
 * blocks; use it on a dedicated thread.
 */
#pragma once

#include "checkpoint/object/object.h"
#include "checkpoint/object/object_retry.h"
#include "checkpoint/remote/remote.h"

struct object_send_options {
    const char *folder;          /* of the checkpoint, on disk */
    const char *manifest_sha256; /* of its commit record */
    const char *prefix;          /* of the store's settings; may be empty */
    const char *job;             /* name in keys; NULL: from the manifest */
    uint64_t part_bytes;         /* 0: default */
    struct object_watch watch;
    /* With copies, when each node has a part: */
    struct checkpoint_remote *remote; /* the reachable nodes; NULL: the whole checkpoint is in
                                         @folder */
    const char *node;                 /* this one */
    bool helps; /* send only this node's files; the node that committed the checkpoint puts the
                   manifest */
};

/**
 * object_send() - upload a checkpoint until its manifest is in the store
 *
 * The files are open from the start, so retention may remove the checkpoint meanwhile. Every chunk
 * is compared with its CRC before it is sent, so a checkpoint that is damaged on disk is not
 * uploaded.
 *
 * With copies each node sends the files that it has written, once. Every node calls this function,
 * all but one with `helps`. The node without `helps` waits until all files are in the store. After
 * SENDER_OTHERS_LOOKS polls without progress it sends the missing files itself, from any copy that
 * it reaches.
 *
 * Return: 0, also when the checkpoint was complete already; -EIO: damaged on disk, @error names
 * file and chunk; errors of the store and of reading; -ECANCELED.
 */
int object_send(const struct object_store *store, const struct object_send_options *options,
                struct error *error) CHECK_RESULT;

/**
 * object_expire() - remove expired checkpoints from the store after @step is complete there
 *
 * See object_catalog_expired(). Unfinished uploads for @step or earlier are aborted too.
 * @ret_oldest: the step of the oldest complete checkpoint that is kept
 */
int object_expire(const struct object_store *store, const char *prefix, const char *job,
                  uint64_t step, const char *manifest_sha256, unsigned keep, uint64_t *ret_oldest,
                  struct error *error) CHECK_RESULT;
