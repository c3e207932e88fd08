/* The one cleanup function that is not worth inlining everywhere. */
#include "base/compiler.h"

#include <errno.h>
#include <unistd.h>

void close_descriptor(int *descriptor)
{
    if (*descriptor < 0)
        return;
    int saved_errno = errno; /* cleanup runs after a failure, before the caller reads errno */
    close(*descriptor);
    errno = saved_errno;
}
