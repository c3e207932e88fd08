/*
 * Remove checkpoints that are no longer needed, on a separate thread: deleting large files takes
 * long, and no step waits for it.
 *
 * The records in etcd decide, not the files on disk. Files are removed only after the record that
 * names them is gone. So every record's checkpoint exists, even if etcd is away for many
 * checkpoints or one of them was never recorded.
 */
#pragma once

#include "elastic/messages/control.h"

struct retention;

/** retention_start() - remove the checkpoints in @folder before @recorded's `kept_from` that have
 * no record and are not pinned, and the remains of broken ones up to its step. NULL when memory or
 * threads are short. */
struct retention *retention_start(const char *folder, const struct control_checkpoint *recorded);
/** retention_start_parts() - remove part folders that generations before @generation left half
 * written in @folder; NULL as above */
struct retention *retention_start_parts(const char *folder, uint64_t generation);
bool retention_done(const struct retention *retention);
/** retention_free() - wait for the thread and free; NULL allowed */
void retention_free(struct retention *retention);
