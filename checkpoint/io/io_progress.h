/*
 * Progress of one posted write or read: the remaining bytes, and the meaning of a kernel result.
 * Both backends pass results through io_progress_accept(), so short writes, EINTR and EAGAIN are
 * handled alike, and are tested without a kernel that produces them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define IO_RETRIES_MAX 64   /* consecutive results without progress */
#define IO_ALIGN       4096 /* O_DIRECT's alignment of addresses, lengths and offsets */

struct io_progress {
    int descriptor;
    uint8_t *data;       /* remaining memory; only read by a write */
    size_t size_bytes;   /* remaining size of the memory */
    size_t needed_bytes; /* remaining bytes until the operation is complete; a write needs all */
    uint64_t offset;
    uint64_t user;
    size_t granule_bytes; /* step at which a write may resume: whole blocks for O_DIRECT */
    unsigned retries;
    bool reading;
};

enum { IO_PROGRESS_DONE = 0, IO_PROGRESS_AGAIN = 1 };

/** io_progress_start() - prepare a write; checks whether the descriptor is O_DIRECT */
struct io_progress io_progress_start(int descriptor, const void *data, size_t size_bytes,
                                     uint64_t offset, uint64_t user);
/** io_progress_start_read() - prepare a read of at least @needed_bytes, at most @room_bytes */
struct io_progress io_progress_start_read(int descriptor, void *ret_data, size_t room_bytes,
                                          size_t needed_bytes, uint64_t offset, uint64_t user);

/**
 * io_progress_accept() - account for one result of write(2) or read(2): bytes, or a negative errno
 *
 * Return: IO_PROGRESS_DONE; IO_PROGRESS_AGAIN: post the rest; a negative errno: failed (-EIO if the
 * kernel made no progress and gave no error; -ENODATA if the file ends before the needed bytes).
 */
int io_progress_accept(struct io_progress *progress, int64_t result) CHECK_RESULT;
