/*
 * One posted write on its way: what is left of it, and what a result of the kernel means for it.
 * Both backends put results through io_progress_accept(), so short writes, EINTR and EAGAIN mean
 * the same everywhere and are tested without a kernel that produces them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define IO_RETRIES_MAX 64   /* results in a row without progress */
#define IO_ALIGN       4096 /* what O_DIRECT wants of addresses, lengths and offsets */

struct io_progress {
    int descriptor;
    const uint8_t *data; /* of what is left */
    size_t size_bytes;
    uint64_t offset;
    uint64_t user;
    size_t granule_bytes; /* where a write may go on: O_DIRECT only at whole blocks */
    unsigned retries;
};

enum { IO_PROGRESS_DONE = 0, IO_PROGRESS_AGAIN = 1 };

/** io_progress_start() - a write about to be posted; asks the descriptor whether it is O_DIRECT */
struct io_progress io_progress_start(int descriptor, const void *data, size_t size_bytes,
                                     uint64_t offset, uint64_t user);

/**
 * io_progress_accept() - account for one result of write(2): bytes, or a negative errno
 *
 * Return: IO_PROGRESS_DONE; IO_PROGRESS_AGAIN: post what is left; a negative errno: the write
 * failed
 * (-EIO when the kernel stopped making progress without saying why).
 */
int io_progress_accept(struct io_progress *progress, int64_t result) CHECK_RESULT;
