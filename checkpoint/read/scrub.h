/*
 * Reading a checkpoint back, at leisure: what was written is compared with what the disk has now,
 * past the page cache, while the job trains on.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/name.h"
#include "checkpoint/format/manifest.h"

struct scrub_options {
    const char *path;   /* of one checkpoint */
    const char *node;   /* with copies: only what the manifest says is here; NULL: everything */
    const char *sha256; /* of its manifest, from the record */
    double seconds;     /* that it may take: reads are spread over them; 0: as fast as it goes */
    const atomic_bool *stop;                    /* comes back soon after it is set */
    _Atomic uint64_t *done_bytes, *total_bytes; /* how far it is, for other threads */
};

/* The file that is damaged. */
struct scrub_finding {
    char file[MANIFEST_FILE_SIZE];
    char
        writer[NAME_SIZE]; /* with copies: the node whose share it belongs to; "": every folder's */
    bool is_metrics;       /* a job may go on from the checkpoint nevertheless */
};

/**
 * checkpoint_scrub() - every chunk of every file against its CRC32C, one read at a time
 *
 * A checkpoint that goes while it is read is no damage.
 *
 * Return: 0; -EBADMSG: a file is not what was written, @error names file and chunk (a read that
 * fails with -EIO is as bad: the disk has lost it), and @ret_finding which; -ECANCELED; -ENOENT:
 * the checkpoint is gone, or is another one by now; -EACCES, -ENOMEM and others: nothing is known.
 */
int checkpoint_scrub(const struct scrub_options *options, struct scrub_finding *ret_finding,
                     struct error *error) CHECK_RESULT;
