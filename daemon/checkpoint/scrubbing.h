/*
 * Read checkpoints back while jobs train.
 *
 * Disks lose data silently, and the loss shows only when a job has to go back. So each checkpoint
 * is read once after it is recorded and then once a week (daemon/checkpoint/scrubbing_choice.h).
 * Checkpoints are read one at a time, on a separate thread, bypassing the page cache, at 64 MiB/s,
 * or faster if a reading would otherwise take more than half of the checkpoint interval.
 *
 * A good checkpoint is marked as verified (checkpoint/format/folder_marks.h). Retention never
 * removes the newest verified checkpoint: before an older one is removed, a newer one has been read
 * back. A damaged checkpoint is noted in its record and is not used any more. Writers do not link
 * its files, so damaged contents are written anew from memory. With copies, the damaged file is
 * removed and replaced by a good copy from another node.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"

struct daemon;
struct scrubbing;

/* For metrics: the checkpoint being read, and totals since this firnd started. */
struct scrubbing_progress {
    uint64_t done_bytes, total_bytes; /* total 0: none is being read */
    uint64_t verified, damaged;       /* checkpoints */
};

/** scrubbing_new() - @daemon is borrowed. Return: 0; -ENOMEM; or the error of creating a loop
 * timer (nothing to free then) */
int scrubbing_new(struct daemon *daemon, struct scrubbing **ret_scrubbing) CHECK_RESULT;
/** scrubbing_free() - stop the reading in flight; NULL allowed */
void scrubbing_free(struct scrubbing *scrubbing);
struct scrubbing_progress scrubbing_progress(const struct scrubbing *scrubbing);
