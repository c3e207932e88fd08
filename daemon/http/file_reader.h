/*
 * Read files for the HTTP server on separate threads: a slow disk must not block the daemon's one
 * loop.
 *
 * A task is queued, run on one of a few threads, and handed back on the loop: an eventfd wakes the
 * loop, which calls `done` once for each task. A connection waits as long as its task, so the queue
 * is shorter than the server has connections: while a disk hangs, pages without files are served.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "base/error.h"
#include "daemon/core/event_loop.h"

struct file_reader;

struct file_task {
    struct file_task *next;              /* owned by the reader */
    void (*run)(struct file_task *task); /* called on a thread of the reader */
};

/** file_reader_start() - start the threads; @done is called on the loop for each completed task */
int file_reader_start(struct event_loop *loop, void (*done)(void *context, struct file_task *task),
                      void *context, struct file_reader **ret_reader,
                      struct error *error) CHECK_RESULT;
/** file_reader_stop() - run all queued tasks, call `done` for each; NULL allowed */
void file_reader_stop(struct file_reader *reader);
/** file_reader_has_room() - return whether another task may wait */
bool file_reader_has_room(struct file_reader *reader);
/** file_reader_queue() - queue @task, which belongs to the reader until `done` */
void file_reader_queue(struct file_reader *reader, struct file_task *task);
