/*
 * The marks of a job's checkpoints (checkpoint/format/folder_marks.h), which say which of them
 * stay: read in a thread (daemon/core/errand.h), since they are on the file server. Nothing waits
 * long for them: the record of a checkpoint ends a pause, or comes in time before a node goes.
 *
 * The folder of a checkpoint that is about to be recorded is signed with its owner on the way.
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
    MARK_LOOK_RUNS, /* daemon_wake() follows, or it takes long: ask after ERRAND_PATIENCE_NS */
    MARK_LOOK_KNOWN,
    MARK_LOOK_OLD,  /* the look takes long: the marks are those of the look before */
    MARK_LOOK_AWAY, /* the folder cannot be looked at: nothing is known */
};

/** mark_look_new() - @job is borrowed; NULL: no memory */
struct mark_look *mark_look_new(const struct job *job);
void mark_look_free(struct mark_look *mark); /* NULL allowed; a thread ends by itself */

/** mark_look_at() - look at the checkpoints of the records @entries, or take the result of the look
 * at them, which is not older than some seconds
 * @newest: folder of a checkpoint that has no record yet; NULL: there is none */
enum mark_look_state mark_look_at(struct mark_look *mark, const struct mirror_entry *entries,
                                  size_t count, const char *newest) CHECK_RESULT;

/** mark_look_outdate() - a mark has changed: the results of looks that have begun are old */
void mark_look_outdate(struct mark_look *mark);

/** mark_look_of() - return the marks of the checkpoint at @path, after MARK_LOOK_KNOWN or
 * MARK_LOOK_OLD; pinned, if they are not known
 * @look: a struct mark_look */
struct checkpoint_marks mark_look_of(const void *look, const char *path);
