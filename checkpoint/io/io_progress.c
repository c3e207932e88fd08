#include "checkpoint/io/io_progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

static size_t granule_of(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) != 0 ? IO_ALIGN : 1;
}

struct io_progress io_progress_start(int descriptor, const void *data, size_t size_bytes,
                                     uint64_t offset, uint64_t user)
{
    return (struct io_progress){
        .descriptor = descriptor,
        .data = (uint8_t *)(uintptr_t)data,
        .size_bytes = size_bytes,
        .needed_bytes = size_bytes,
        .offset = offset,
        .user = user,
        .granule_bytes = granule_of(descriptor),
    };
}

struct io_progress io_progress_start_read(int descriptor, void *ret_data, size_t room_bytes,
                                          size_t needed_bytes, uint64_t offset, uint64_t user)
{
    struct io_progress read = io_progress_start(descriptor, ret_data, room_bytes, offset, user);
    read.needed_bytes = needed_bytes;
    read.reading = true;
    return read;
}

static bool worth_retrying(int64_t result)
{
    return result == -EINTR || result == -EAGAIN;
}

static int retry(struct io_progress *progress, int code)
{
    return ++progress->retries > IO_RETRIES_MAX ? code : IO_PROGRESS_AGAIN;
}

int io_progress_accept(struct io_progress *progress, int64_t result)
{
    if (result < 0)
        return worth_retrying(result) ? retry(progress, (int)result) : (int)result;
    if ((uint64_t)result >= progress->needed_bytes)
        return IO_PROGRESS_DONE;
    if (result == 0 && progress->reading)
        return -ENODATA;
    /* A partly written granule is written again. */
    size_t moved = (size_t)result / progress->granule_bytes * progress->granule_bytes;
    if (moved == 0)
        return retry(progress, -EIO);
    progress->data += moved;
    progress->size_bytes -= moved;
    progress->needed_bytes -= moved;
    progress->offset += moved;
    progress->retries = 0;
    return IO_PROGRESS_AGAIN;
}
