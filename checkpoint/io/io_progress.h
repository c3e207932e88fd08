/*
 * One posted write or read on its way: what is left of it, and what a result of the kernel means.
 * Both backends put results through io_progress_accept(), so short writes, EINTR and EAGAIN mean
 * the same everywhere and are tested without a kernel that produces them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define IO_RETRIES_MAX 64   /* results in a row without progress */
#define IO_ALIGN       4096 /* what O_DIRECT wants of addresses, lengths and offsets */

struct io_progress {
    int descriptor;
    uint8_t *data;       /* of what is left; a write only reads it */
    size_t size_bytes;   /* what is left of the memory */
    size_t needed_bytes; /* a read is over when it has these; of a write all is needed */
    uint64_t offset;
    uint64_t user;
    size_t granule_bytes; /* where a write may go on: O_DIRECT only at whole blocks */
    unsigned retries;
    bool reading;
};

enum { IO_PROGRESS_DONE = 0, IO_PROGRESS_AGAIN = 1 };

/** io_progress_start() - a write about to be posted; asks the descriptor whether it is O_DIRECT */
struct io_progress io_progress_start(int descriptor, const void *data, size_t size_bytes,
                                     uint64_t offset, uint64_t user);
/** io_progress_start_read() - a read of at least @needed_bytes, at most @room_bytes */
struct io_progress io_progress_start_read(int descriptor, void *ret_data, size_t room_bytes,
                                          size_t needed_bytes, uint64_t offset, uint64_t user);

/**
 * io_progress_accept() - account for one result of write(2) or read(2): bytes, or a negative errno
 *
 * Return: IO_PROGRESS_DONE; IO_PROGRESS_AGAIN: post what is left; a negative errno: it failed
 * (-EIO when the kernel stopped making progress without saying why; -ENODATA when the file ends
 * before what is needed).
 */
int io_progress_accept(struct io_progress *progress, int64_t result) CHECK_RESULT;
