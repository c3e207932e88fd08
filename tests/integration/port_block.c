#include "integration/port_block.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* As in ports.py: below the ports of `firnctl local`. */
#define FIRST 10240
#define END   16000

static bool is_free(int port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    AUTO_CLOSE int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return descriptor >= 0 && !bind(descriptor, (const struct sockaddr *)&address, sizeof(address));
}

static bool all_free(int first)
{
    for (int port = first; port < first + PORT_BLOCK; port++)
        if (!is_free(port))
            return false;
    return true;
}

static int lock_block(int first)
{
    const char *base = getenv("TMPDIR");
    char folder[256], path[300];
    int lock;

    snprintf(folder, sizeof(folder), "%s/firn-ports-%u", base ? base : "/tmp", getuid());
    if (mkdir(folder, 0700) && errno != EEXIST)
        return -errno;
    snprintf(path, sizeof(path), "%s/%d", folder, first);
    lock = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (lock >= 0 && !flock(lock, LOCK_EX | LOCK_NB) && all_free(first))
        return lock;
    if (lock >= 0)
        close(lock);
    return -EADDRINUSE;
}

int port_block_take(int *ret_lock)
{
    int count = (END - FIRST) / PORT_BLOCK, start = getpid() % count;

    for (int i = 0; i < count; i++) {
        int first = FIRST + (start + i) % count * PORT_BLOCK;
        int lock = lock_block(first);
        if (lock >= 0) {
            *ret_lock = lock;
            return first;
        }
    }
    return -EADDRINUSE;
}
