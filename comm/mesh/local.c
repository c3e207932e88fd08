#include "comm/mesh/local.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "comm/mesh/socket_link.h"

#define SEND_BUFFER_BYTES (512 * 1024) /* as much as TCP holds unsent (tcp.c) */

/* Write the abstract name; it begins with a zero byte. Return: the size of the address. */
static socklen_t name_of(const char *address, struct sockaddr_un *ret_name)
{
    char *text = ret_name->sun_path + 1;
    size_t room = sizeof(ret_name->sun_path) - 1;

    *ret_name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(text, room, "firn-link/%s", address);
    assert(length > 0 && (size_t)length < room);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool is_of_this_user(int descriptor)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           peer.uid == geteuid();
}

/* Return: a new socket, or -errno */
static int socket_new(void)
{
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return descriptor < 0 ? -errno : descriptor;
}

int local_listen(const char *address, int *ret_listener)
{
    struct sockaddr_un name;
    socklen_t size = name_of(address, &name);
    int listener = socket_new();

    if (listener < 0)
        return listener;
    if (bind(listener, (struct sockaddr *)&name, size) < 0 || listen(listener, SOMAXCONN) < 0) {
        int status = -errno;
        close(listener);
        return status;
    }
    *ret_listener = listener;
    return 0;
}

static const struct link_operations operations = {
    .connected = socket_link_connected,
    .send = socket_link_send,
    .receive = socket_link_receive,
    .finish = socket_link_finish,
    .free = socket_link_free,
};

/* Make a link; takes the descriptor in every case. */
static int link_new(int descriptor, struct link **ret_link)
{
    const int size = SEND_BUFFER_BYTES; /* the kernel may grant less */
    setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return socket_link_new(descriptor, &operations, ret_link);
}

int local_connect(const char *address, struct link **ret_link)
{
    struct sockaddr_un name;
    socklen_t size = name_of(address, &name);
    int descriptor = socket_new(), status = 0;

    if (descriptor < 0)
        return descriptor;
    if (connect(descriptor, (struct sockaddr *)&name, size) < 0)
        status = -errno;
    else if (!is_of_this_user(descriptor))
        status = -EACCES;
    if (status < 0) {
        close(descriptor);
        return status;
    }
    return link_new(descriptor, ret_link);
}

int local_accept(int listener, struct link **ret_link)
{
    int descriptor = socket_link_accept(listener);
    if (descriptor < 0)
        return descriptor;
    if (is_of_this_user(descriptor))
        return link_new(descriptor, ret_link);
    close(descriptor);
    return -EACCES;
}
