#include "comm/mesh/socket_link.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int socket_link_new(int descriptor, const struct link_operations *operations,
                    struct link **ret_link)
{
    struct link *link = malloc(sizeof(*link));
    if (!link) {
        close(descriptor);
        return -ENOMEM;
    }
    *link = (struct link){.operations = operations, .descriptor = descriptor};
    *ret_link = link;
    return 0;
}

int socket_link_accept(int listener)
{
    for (;;) {
        int descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor >= 0)
            return descriptor;
        /* ECONNABORTED: the connector left while it waited in the backlog; another may wait behind
         * it. */
        if (errno != EINTR && errno != ECONNABORTED)
            return -errno;
    }
}

int socket_link_connected(struct link *link)
{
    int problem = 0;
    socklen_t size = sizeof(problem);
    if (getsockopt(link->descriptor, SOL_SOCKET, SO_ERROR, &problem, &size) < 0)
        return -errno;
    if (problem != 0)
        return -problem;
    struct sockaddr_storage peer;
    size = sizeof(peer);
    if (getpeername(link->descriptor, (struct sockaddr *)&peer, &size) < 0)
        return errno == ENOTCONN ? -EINPROGRESS : -errno;
    return 0;
}

ssize_t socket_link_send(struct link *link, const struct iovec *parts, int part_count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)part_count};
    for (;;) {
        ssize_t count = sendmsg(link->descriptor, &message, MSG_NOSIGNAL);
        if (count >= 0)
            return count;
        if (errno != EINTR)
            return -errno;
    }
}

ssize_t socket_link_receive(struct link *link, const struct iovec *parts, int part_count)
{
    for (;;) {
        ssize_t count = readv(link->descriptor, parts, part_count);
        if (count >= 0)
            return count;
        if (errno != EINTR)
            return -errno;
    }
}

void socket_link_finish(struct link *link)
{
    shutdown(link->descriptor, SHUT_WR);
}

void socket_link_free(struct link *link)
{
    close(link->descriptor);
    free(link);
}
