/*
 * File operations of a checkpoint behind one table: io_uring, a thread pool, and (tests) one that
 * injects faults or records everything for crash enumeration.
 *
 * A checkpoint writer submits large writes from a fixed staging arena and drains them. Small
 * durable steps (fsync, rename, directory fsync) are synchronous calls of the same table, so a
 * recorder sees all of them in order.
 *
 * Every operation returns 0 (or the value in its comment), or a negative errno. Only one thread at
 * a time may use a context. A failed fsync is never retried: the kernel may have dropped the dirty
 * pages and then report success, so the caller must give the whole file up.
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
    /* @depth: maximum of writes and reads in flight; @arena: all buffers are inside (may be
     * registered) */
    int (*open)(unsigned depth, void *arena, size_t arena_bytes, struct io_context **ret_context,
                struct error *error) CHECK_RESULT;
    void (*close)(struct io_context *context);
    /* Create a new file. Return: a descriptor >= 0; -EEXIST. With @direct, O_DIRECT is used
     * unless the file system refuses it. */
    int (*create)(struct io_context *context, const char *path, bool direct) CHECK_RESULT;
    /* Post a write; -EAGAIN at full depth (drain first). The buffer is borrowed until drained. */
    int (*write)(struct io_context *context, int descriptor, const void *data, size_t size_bytes,
                 uint64_t offset, uint64_t user) CHECK_RESULT;
    /* Post a read of at least @needed_bytes, at most @room_bytes: O_DIRECT reads whole blocks,
     * and a file may end inside the last block. Otherwise as write. */
    int (*read)(struct io_context *context, int descriptor, void *ret_data, size_t room_bytes,
                size_t needed_bytes, uint64_t offset, uint64_t user) CHECK_RESULT;
    /* Take one finished write or read; its `user` into *ret_user. 1: complete (short results,
     * EINTR and EAGAIN were resubmitted, with a limit); negative: failed (-ENODATA: the file
     * ended before @needed_bytes); 0: none in flight or, without @wait, none finished yet. */
    int (*drain)(struct io_context *context, bool wait, uint64_t *ret_user) CHECK_RESULT;
    int (*truncate)(struct io_context *context, int descriptor, uint64_t size_bytes) CHECK_RESULT;
    int (*sync)(struct io_context *context,
                int descriptor) CHECK_RESULT; /* fdatasync; never retried */
    int (*close_file)(struct io_context *context, int descriptor) CHECK_RESULT;
    int (*rename)(struct io_context *context, const char *from, const char *to) CHECK_RESULT;
    /* Create a second name for a complete file. Fails between file systems (-EXDEV), on file
     * systems without links (-EPERM, -EOPNOTSUPP), and at a file's maximum of links (-EMLINK). */
    int (*link)(struct io_context *context, const char *from, const char *to) CHECK_RESULT;
    int (*sync_directory)(struct io_context *context, const char *path) CHECK_RESULT;
    /* Create a folder and its missing parents, each parent made durable; 0 if it exists. The
     * folder's own name is not synced: the caller renames the folder in the end, and a sync
     * here would delay the first byte of a checkpoint. */
    int (*make_directory)(struct io_context *context, const char *path) CHECK_RESULT;
    int (*unlink)(struct io_context *context,
                  const char *path) CHECK_RESULT; /* a file, or an empty directory */
    int (*reserve)(struct io_context *context, int descriptor,
                   /* fallocate, or, without it, a comparison with the free space: an early
                    * -ENOSPC */
                   uint64_t size_bytes) CHECK_RESULT;
};

#define IO_DEPTH_MAX 256

const struct io *io_uring_table(void);
const struct io *io_threads_table(void);
/** io_probe() - choose io_uring if the kernel allows it, else threads; *ret_why is a static text
 * with the reason */
const struct io *io_probe(const char **ret_why);
