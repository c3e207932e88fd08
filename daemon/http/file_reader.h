/*
 * Reads files for the HTTP server, on threads of its own: a disk that takes its time must not stop
 * the daemon's one loop.
 *
 * A task is queued, run on one of a few threads, and handed back on the loop: an eventfd wakes it,
 * and `done` is called there once for each task. Bounded by its owner: the HTTP server has so many
 * connections and no more.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "daemon/core/event_loop.h"

struct file_reader;

struct file_task {
    struct file_task *next;              /* the reader's */
    void (*run)(struct file_task *task); /* on a thread of the reader */
};

/** file_reader_start() - @done: on the loop, for each task that was run */
int file_reader_start(struct event_loop *loop, void (*done)(void *context, struct file_task *task),
                      void *context, struct file_reader **ret_reader,
                      struct error *error) CHECK_RESULT;
/** file_reader_stop() - runs all that is queued, calls `done` for each; NULL allowed */
void file_reader_stop(struct file_reader *reader);
/** file_reader_queue() - @task is the reader's until `done` */
void file_reader_queue(struct file_reader *reader, struct file_task *task);
