#include "checkpoint/io_progress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

struct io_progress io_progress_start(int descriptor, const void *data, size_t size_bytes,
                                     uint64_t offset, uint64_t user)
{
    int flags = fcntl(descriptor, F_GETFL);
    return (struct io_progress){
        .descriptor = descriptor,
        .data = data,
        .size_bytes = size_bytes,
        .offset = offset,
        .user = user,
        .granule_bytes = flags >= 0 && (flags & O_DIRECT) != 0 ? IO_ALIGN : 1,
    };
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
    if ((uint64_t)result >= progress->size_bytes)
        return IO_PROGRESS_DONE;
    /* What was begun of a granule is written again. */
    size_t written = (size_t)result / progress->granule_bytes * progress->granule_bytes;
    if (written == 0)
        return retry(progress, -EIO);
    progress->data += written;
    progress->size_bytes -= written;
    progress->offset += written;
    progress->retries = 0;
    return IO_PROGRESS_AGAIN;
}
