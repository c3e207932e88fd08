/*
 * Brings a committed checkpoint into the store: carries out what the sender (object_sender.h)
 * orders. Blocks until it is done; for a thread of its own.
 */
#pragma once

#include "checkpoint/object/object.h"
#include "checkpoint/object/object_retry.h"
#include "checkpoint/remote/remote.h"

struct object_send_options {
    const char *folder;          /* of the checkpoint, on disk */
    const char *manifest_sha256; /* of its commit record */
    const char *prefix;          /* of the store's settings; may be empty */
    const char *job;             /* as keys have it; NULL: as its manifest says */
    uint64_t part_bytes;         /* 0: default */
    struct object_watch watch;
    /* With copies, where each node has a part: */
    struct checkpoint_remote *remote; /* the nodes that are there; NULL: all of it is in @folder */
    const char *node;                 /* this one */
    bool helps; /* sends its files only; the one who recorded the checkpoint puts the manifest */
};

/**
 * object_send() - until its manifest is in the store
 *
 * The files are open from the start, so retention may remove the checkpoint meanwhile. Every chunk
 * is compared with its CRC before it is sent: a checkpoint that is damaged on disk does not get
 * there.
 *
 * With copies each node sends what it has written, once: everybody calls this, all but one with
 * @helps. The one without waits until everything is there, and sends itself, from whichever copy
 * it reaches, what nobody has sent for a while (SENDER_OTHERS_LOOKS).
 *
 * Return: 0, also when it was there; -EIO: damaged on disk, @error names file and chunk; what
 * the store and the files return; -ECANCELED.
 */
int object_send(const struct object_store *store, const struct object_send_options *options,
                struct error *error) CHECK_RESULT;

/**
 * object_expire() - what may go from the store, now that @step is complete there
 *
 * See object_catalog_expired(). Also gives up uploads that were begun for @step or earlier and are
 * of no use any more. *ret_oldest: the step of the oldest complete one that stays.
 */
int object_expire(const struct object_store *store, const char *prefix, const char *job,
                  uint64_t step, const char *manifest_sha256, unsigned keep, uint64_t *ret_oldest,
                  struct error *error) CHECK_RESULT;
