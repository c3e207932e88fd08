/*
 * File operations of a checkpoint behind one table: io_uring, a pwrite thread pool, and (tests) one
 * that injects faults or records everything for crash enumeration.
 *
 * A checkpoint writer submits large writes from a fixed staging arena and drains them; small durable
 * steps (fsync, rename, directory fsync) are synchronous calls of the same table, so a recorder sees
 * all of them in order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/error.h"

struct io_context;

struct io {
    const char *name; /* "io_uring", "threads" */
    /* @depth: writes in flight at most; @arena: buffers come from here (may be registered) */
    int (*open)(unsigned depth, void *arena, size_t arena_bytes, struct io_context **ret_context,
                struct error *error) CHECK_RESULT;
    void (*close)(struct io_context *context);
    /* >= 0: a descriptor; O_DIRECT is tried when @direct and dropped where the file system refuses */
    int (*create)(struct io_context *context, const char *path, bool direct) CHECK_RESULT;
    /* Posts a write; -EAGAIN when depth is reached (drain some). The buffer stays borrowed until drained. */
    int (*write)(struct io_context *context, int descriptor, const void *data, size_t size_bytes,
                 uint64_t offset, uint64_t user) CHECK_RESULT;
    /* Waits until at least one posted write is complete (short writes, EINTR and EAGAIN are resubmitted
       inside, bounded); its `user` into *ret_user. 1: one completed, 0: none outstanding, negative: it failed */
    int (*drain)(struct io_context *context, uint64_t *ret_user) CHECK_RESULT;
    int (*truncate)(struct io_context *context, int descriptor, uint64_t size_bytes) CHECK_RESULT;
    int (*sync)(struct io_context *context, int descriptor) CHECK_RESULT; /* fdatasync; never retried */
    int (*close_file)(struct io_context *context, int descriptor) CHECK_RESULT;
    int (*rename)(struct io_context *context, const char *from, const char *to) CHECK_RESULT;
    int (*sync_directory)(struct io_context *context, const char *path) CHECK_RESULT;
    int (*make_directory)(struct io_context *context, const char *path) CHECK_RESULT; /* parents too; 0 if there */
    int (*unlink)(struct io_context *context, const char *path) CHECK_RESULT;
    int (*reserve)(struct io_context *context, int descriptor, uint64_t size_bytes) CHECK_RESULT; /* fallocate; -ENOSPC early */
};

const struct io *io_uring_table(void);
const struct io *io_threads_table(void);
/** io_probe() - io_uring where the kernel allows it, else threads; *ret_why says so in words (static) */
const struct io *io_probe(const char **ret_why);
