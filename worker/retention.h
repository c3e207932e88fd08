/*
 * Removing checkpoints that nobody needs any more, in a thread of its own: deleting large files
 * takes long, and no step waits for it.
 *
 * What goes is decided by the records in etcd, not by what lies on disk. Files go only after the
 * record that names them is gone, so no record ever promises a checkpoint that is not there: also
 * when etcd is away for many checkpoints, and when one of them was never recorded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct retention;

/** retention_start() - remove the checkpoints in @folder before @kept_from that are not pinned, and
 * the remains of broken ones up to @step. NULL when memory or threads are short. */
struct retention *retention_start(const char *folder, uint64_t kept_from, uint64_t step);
bool retention_done(const struct retention *retention);
/** retention_free() - waits for it; NULL allowed */
void retention_free(struct retention *retention);
