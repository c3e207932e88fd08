/*
 * Read the marks of a job's checkpoints (checkpoint/format/folder_marks.h), which decide which
 * checkpoints stay. A separate thread reads them (daemon/core/errand.h), because they may be on a
 * file server. Recording does not wait long for them: it ends a pause, or must be done before a
 * node goes.
 *
 * The same thread signs the folder of a checkpoint that is about to be recorded with its owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "checkpoint/format/folder_marks.h"
#include "daemon/core/mirror.h"

struct job;
struct mark_look;

enum mark_look_state {
    MARK_LOOK_RUNS, /* daemon_wake() follows; else ask again after ERRAND_PATIENCE_NS */
    MARK_LOOK_KNOWN,
    MARK_LOOK_OLD,  /* the look takes long: the marks are from the look before */
    MARK_LOOK_AWAY, /* the folder cannot be read: no mark is known */
};

/** mark_look_new() - @job is borrowed; NULL: no memory */
struct mark_look *mark_look_new(const struct job *job);
void mark_look_free(struct mark_look *mark); /* NULL allowed; a running thread ends by itself */

/** mark_look_at() - look at the checkpoints of the records @entries, or take the result of a look
 * that ended within the last few seconds
 * @newest: folder of a checkpoint that has no record yet; NULL: there is none */
enum mark_look_state mark_look_at(struct mark_look *mark, const struct mirror_entry *entries,
                                  size_t count, const char *newest) CHECK_RESULT;

/** mark_look_outdate() - outdate all looks begun so far, because a mark has changed */
void mark_look_outdate(struct mark_look *mark);

/** mark_look_of() - return the marks of the checkpoint at @path, after MARK_LOOK_KNOWN or
 * MARK_LOOK_OLD; "pinned" if they are unknown
 * @look: a struct mark_look */
struct checkpoint_marks mark_look_of(const void *look, const char *path);
