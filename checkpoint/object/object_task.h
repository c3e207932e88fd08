/*
 * Upload or download of one checkpoint on a dedicated thread, so that the caller never waits for
 * disk or network. The thread has a low priority (nice), takes no signals, and stops within about a
 * second.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "checkpoint/remote/remote.h"

struct object_task;

enum object_task_kind {
    OBJECT_TASK_SEND,  /* object_send(), then object_expire() unless `helps` */
    OBJECT_TASK_FETCH, /* object_fetch() of exactly this checkpoint */
    OBJECT_TASK_TRY    /* object_try(), of the job alone */
};

struct object_task_options {
    enum object_task_kind kind;
    const char *settings_file; /* read by every task, so that a new key takes effect */
    const char *bucket, *job;
    uint64_t step;
    const char *manifest_sha256; /* "": of TRY */
    const char *folder;          /* of the checkpoint on disk: to send, or to create; "": of TRY */
    unsigned keep;               /* of SEND: number of checkpoints to keep in the store */
    int notify;                  /* an eventfd, written once at the end; borrowed */
    /* Of SEND, with copies: object_send.h. `stop` is set by the task; NULL: the whole checkpoint is
     * in @folder */
    const struct checkpoint_remote_options *remote;
    const char *node;
    bool helps;
};

struct object_task_state {
    bool finished;
    int status; /* final status; with @error */
    struct error error;
    uint64_t done_bytes, total_bytes;
    uint64_t oldest_step;                 /* of SEND: oldest step kept in the store */
    char place[1200];                     /* "s3://bucket/key of the folder"; empty: unknown yet */
    char trouble[ERROR_TEXT_SIZE];        /* reason of the current retry; empty: none */
    char expire_trouble[ERROR_TEXT_SIZE]; /* uploaded, but old checkpoints could not be removed */
};

/** object_task_start() - start a task; all texts are copied; 0, -ENOMEM, -EAGAIN (no thread) */
int object_task_start(const struct object_task_options *options,
                      struct object_task **ret_task) CHECK_RESULT;
/** object_task_look() - get the state of a task at any time */
void object_task_look(struct object_task *task, struct object_task_state *ret_state);
/** object_task_free() - stop a running task, wait for its end and free it; NULL allowed */
void object_task_free(struct object_task *task);
