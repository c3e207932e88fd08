/*
 * Removing checkpoints that nobody needs any more, in a thread of its own: deleting large files
 * takes long, and no step waits for it.
 *
 * What goes is decided by the records in etcd, not by what lies on disk. Files go only after the
 * record that names them is gone, so no record ever promises a checkpoint that is not there: also
 * when etcd is away for many checkpoints, and when one of them was never recorded.
 */
#pragma once

#include "elastic/messages/control.h"

struct retention;

/** retention_start() - remove the checkpoints in @folder before @recorded's `kept_from` that have
 * no record and are not pinned, and the remains of broken ones up to its step. NULL when memory or
 * threads are short. */
struct retention *retention_start(const char *folder, const struct control_checkpoint *recorded);
bool retention_done(const struct retention *retention);
/** retention_free() - waits for it; NULL allowed */
void retention_free(struct retention *retention);
