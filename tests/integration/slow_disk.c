/*
 * A disk that reads checkpoints slowly. Preloaded into firnd and its workers, it lets each large
 * pread() from a folder step-N take the time of FIRN_READ_RATE bytes per second, and refuses
 * io_uring, whose reads it could not delay. Headers are read at once: a test has little state, so
 * its disk is so slow that nothing else would work.
 */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LARGE_BYTES ((size_t)128 << 10)

/* The libraries' functions, taken over by their symbols: their declarations stay the headers'. */
ssize_t slow_pread(int file, void *data, size_t size_bytes, off_t offset) __asm__("pread64");
ssize_t slow_pread_too(int file, void *data, size_t size_bytes, off_t offset) __asm__("pread");
int refused_queue_init(unsigned entries, struct io_uring *ring,
                       unsigned flags) __asm__("io_uring_queue_init");

int refused_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
    (void)entries;
    (void)ring;
    (void)flags;
    return -EPERM;
}

static int is_checkpoint(int file)
{
    char link[64], path[4096];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    return strstr(path, "/step-") != NULL;
}

ssize_t slow_pread(int file, void *data, size_t size_bytes, off_t offset)
{
    const char *rate = getenv("FIRN_READ_RATE");
    ssize_t got = syscall(SYS_pread64, file, data, size_bytes, offset);

    if (got < (ssize_t)LARGE_BYTES || !rate || !is_checkpoint(file))
        return got;
    (void)poll(NULL, 0, (int)(1e3 * (double)got / strtod(rate, NULL)));
    return got;
}

ssize_t slow_pread_too(int file, void *data, size_t size_bytes, off_t offset)
{
    return slow_pread(file, data, size_bytes, offset);
}
