#include "checkpoint/io_progress.h"

#include <errno.h>
#include <stdbool.h>

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
    /* O_DIRECT refuses to go on from the middle of a block: write that block again. */
    size_t written = (size_t)result / IO_ALIGN * IO_ALIGN;
    if (written == 0)
        return retry(progress, -EIO);
    progress->data += written;
    progress->size_bytes -= written;
    progress->offset += written;
    progress->retries = 0;
    return IO_PROGRESS_AGAIN;
}
