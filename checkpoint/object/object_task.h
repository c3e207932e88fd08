/*
 * One checkpoint's way into the store or back, on a thread of its own: whoever starts it never
 * waits for disk or network. The thread runs behind everything else (nice), takes no signals, and
 * is stopped within about a second.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "checkpoint/remote/remote.h"

struct object_task;

enum object_task_kind {
    OBJECT_TASK_SEND,  /* object_send(), then, unless it only helps, object_expire() */
    OBJECT_TASK_FETCH, /* object_fetch() of exactly this checkpoint */
    OBJECT_TASK_TRY    /* object_try(), of the job alone */
};

struct object_task_options {
    enum object_task_kind kind;
    const char *settings_file; /* read anew by every task, so that a new key is seen */
    const char *bucket, *job;
    uint64_t step;
    const char *manifest_sha256; /* "": of TRY */
    const char *folder;          /* of the checkpoint on disk: sent, or to be made; "": of TRY */
    unsigned keep;               /* of SEND: how many stay in the store */
    int notify;                  /* an eventfd, written once when it has finished; borrowed */
    /* Of SEND, with copies: object_send.h. `stop` is the task's; NULL: all of it is in @folder */
    const struct checkpoint_remote_options *remote;
    const char *node;
    bool helps;
};

struct object_task_state {
    bool finished;
    int status; /* of the whole; with @error */
    struct error error;
    uint64_t done_bytes, total_bytes;
    uint64_t oldest_step;          /* of SEND: what retention in the store has left */
    char place[1200];              /* "s3://bucket/key of the folder"; empty: not known yet */
    char trouble[ERROR_TEXT_SIZE]; /* why something is tried again; empty: all goes well */
    char expire_trouble[ERROR_TEXT_SIZE]; /* complete, but old ones could not be removed */
};

/** object_task_start() - all texts are copied. 0, -ENOMEM, -EAGAIN (no thread) */
int object_task_start(const struct object_task_options *options,
                      struct object_task **ret_task) CHECK_RESULT;
/** object_task_look() - how far it is; any time */
void object_task_look(struct object_task *task, struct object_task_state *ret_state);
/** object_task_free() - stop it where it is not finished, and wait for that. NULL allowed */
void object_task_free(struct object_task *task);
