/*
 * Reading checkpoints back while jobs train on.
 *
 * Disks forget, and nobody notices before a job has to go back. So each checkpoint is read once
 * after it was recorded and every week from then on (daemon/checkpoint/scrubbing_choice.h), one at
 * a time, on a thread of its own, past the page cache, at 64 MiB/s, or so fast that it takes half
 * of the time between two checkpoints.
 *
 * What is good is marked as verified (checkpoint/format/folder_marks.h), and retention never
 * removes the newest that has the mark: before an older one goes, a newer one has been read back.
 * What is not good is noted in its record, and nothing counts on it any more; the writers link none
 * of its files, so what rotted is written anew from memory. With copies the file goes, and a good
 * copy of another node takes its place.
 */
#pragma once

#include "daemon/core/daemon.h"

struct scrubbing;

/* For metrics: of the checkpoint that is being read, and since this firnd was started. */
struct scrubbing_progress {
    uint64_t done_bytes, total_bytes; /* total 0: none is being read */
    uint64_t verified, damaged;       /* checkpoints */
};

/** scrubbing_new() - @daemon is borrowed. Return: 0; -ENOMEM, or why the loop gives no timer
 * (nothing is left to free) */
int scrubbing_new(struct daemon *daemon, struct scrubbing **ret_scrubbing) CHECK_RESULT;
/** scrubbing_free() - stops what is being read; NULL allowed */
void scrubbing_free(struct scrubbing *scrubbing);
struct scrubbing_progress scrubbing_progress(const struct scrubbing *scrubbing);
