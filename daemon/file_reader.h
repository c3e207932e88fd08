/*
 * Reads ranges of files for the HTTP server, on a thread of its own: a disk that takes its time
 * must not stop the daemon's one loop.
 *
 * A request is queued, read, and handed back on the loop: an eventfd wakes it, and `done` is called
 * there once for each request. Bounded by who asks: the HTTP server has so many connections and no
 * more.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "daemon/event_loop.h"

struct file_reader;

struct file_range {
    struct file_range *next; /* the reader's */
    char path[1400];
    uint64_t offset;
    size_t size_bytes; /* wanted; then what is in `data` */
    uint8_t *data;     /* room for size_bytes; the caller's */
    int status;        /* 0, or why nothing was read: negative errno */
};

/** file_reader_start() - @done: on the loop, for each range that was read */
int file_reader_start(struct event_loop *loop,
                      void (*done)(void *context, struct file_range *range), void *context,
                      struct file_reader **ret_reader, struct error *error) CHECK_RESULT;
/** file_reader_stop() - reads what is queued, calls `done` for all of it; NULL allowed */
void file_reader_stop(struct file_reader *reader);
/** file_reader_queue() - @range is the reader's until `done` */
void file_reader_queue(struct file_reader *reader, struct file_range *range);
