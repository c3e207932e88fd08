/*
 * Read a checkpoint back in the background: compare the bytes on the disk with their checksums,
 * bypassing the page cache, while the job trains.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/name.h"
#include "checkpoint/format/manifest.h"

struct scrub_options {
    const char *path; /* folder of one checkpoint */
    /* with copies: read only files that the manifest places on this node; NULL: read all files */
    const char *node;
    const char *sha256; /* SHA-256 of its manifest, from the record */
    double seconds;     /* target duration, over which reads are spread; 0: as fast as possible */
    const atomic_bool *stop;                    /* set to cancel; the call returns soon after */
    _Atomic uint64_t *done_bytes, *total_bytes; /* progress, for other threads */
};

/* The damaged file. */
struct scrub_finding {
    char file[MANIFEST_FILE_SIZE];
    char writer[NAME_SIZE]; /* node whose share has the file; "": every folder has it */
    bool is_metrics;        /* a job may resume from the checkpoint nevertheless */
    dev_t device;           /* with `inode`: of the damaged content, which other checkpoints may */
    ino_t inode;            /* share; 0: not known */
};

/**
 * checkpoint_scrub() - check every chunk of every file against its CRC32C, one read at a time
 *
 * A checkpoint that is removed during the scrub is not damaged.
 *
 * Return: 0; -EBADMSG: a file is damaged, @error names file and chunk (with @node also where it
 * cannot be read: its disk has lost the data), @ret_finding is the file; -ECANCELED; -ENOENT: the
 * checkpoint was removed or replaced; -EIO of a shared folder, whose server may be away, -EACCES,
 * -ENOMEM and others: unknown.
 */
int checkpoint_scrub(const struct scrub_options *options, struct scrub_finding *ret_finding,
                     struct error *error) CHECK_RESULT;
