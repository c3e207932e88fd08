/*
 * File operations of a checkpoint behind one table: io_uring, a thread pool, and (tests) one
 * that injects faults or records everything for crash enumeration.
 *
 * A checkpoint writer submits large writes from a fixed staging arena and drains them; small
 * durable steps (fsync, rename, directory fsync) are synchronous calls of the same table, so a
 * recorder sees all of them in order.
 *
 * Every operation returns 0 (or what its comment says), or a negative errno. One thread at a time
 * uses a context. Nothing here retries a failed fsync: the kernel may have dropped the dirty pages
 * and then report success, so the file's owner gives the whole file up.
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
    /* @depth: writes and reads in flight at most; @arena: buffers come from here (may be
     * registered) */
    int (*open)(unsigned depth, void *arena, size_t arena_bytes, struct io_context **ret_context,
                struct error *error) CHECK_RESULT;
    void (*close)(struct io_context *context);
    /* >= 0: a descriptor of a new file (-EEXIST); O_DIRECT is tried when @direct and dropped where
     * the file system refuses */
    int (*create)(struct io_context *context, const char *path, bool direct) CHECK_RESULT;
    /* Posts a write; -EAGAIN when depth is reached (drain some). The buffer stays borrowed until
     * drained. */
    int (*write)(struct io_context *context, int descriptor, const void *data, size_t size_bytes,
                 uint64_t offset, uint64_t user) CHECK_RESULT;
    /* Posts a read of at least @needed_bytes, at most @room_bytes: O_DIRECT reads whole blocks, and
       a file may end inside the last one. Otherwise as write */
    int (*read)(struct io_context *context, int descriptor, void *ret_data, size_t room_bytes,
                size_t needed_bytes, uint64_t offset, uint64_t user) CHECK_RESULT;
    /* One finished write or read: its `user` into *ret_user. 1: it is complete (short ones, EINTR
       and EAGAIN were resubmitted inside, bounded); negative: it failed (-ENODATA: the file ended
       before what was needed). 0: none outstanding or, without @wait, none finished yet */
    int (*drain)(struct io_context *context, bool wait, uint64_t *ret_user) CHECK_RESULT;
    int (*truncate)(struct io_context *context, int descriptor, uint64_t size_bytes) CHECK_RESULT;
    int (*sync)(struct io_context *context,
                int descriptor) CHECK_RESULT; /* fdatasync; never retried */
    int (*close_file)(struct io_context *context, int descriptor) CHECK_RESULT;
    int (*rename)(struct io_context *context, const char *from, const char *to) CHECK_RESULT;
    /* A second name for a file that is not written any more. Refused between file systems (-EXDEV),
       by file systems without links (-EPERM, -EOPNOTSUPP) and when a file has too many (-EMLINK) */
    int (*link)(struct io_context *context, const char *from, const char *to) CHECK_RESULT;
    int (*sync_directory)(struct io_context *context, const char *path) CHECK_RESULT;
    /* Parents too, each of them made durable in its own; 0 if there. The name of the folder itself
       is left to its owner, who gives it another one in the end: a sync here would be waited for
       before a byte of a checkpoint is copied */
    int (*make_directory)(struct io_context *context, const char *path) CHECK_RESULT;
    int (*unlink)(struct io_context *context,
                  const char *path) CHECK_RESULT; /* a file, or an empty directory */
    int (*reserve)(struct io_context *context, int descriptor,
                   uint64_t size_bytes) CHECK_RESULT; /* fallocate,
or the free space compared where there is none: -ENOSPC early */
};

#define IO_DEPTH_MAX 256

const struct io *io_uring_table(void);
const struct io *io_threads_table(void);
/** io_probe() - io_uring where the kernel allows it, else threads; *ret_why says so in words
 * (static) */
const struct io *io_probe(const char **ret_why);
