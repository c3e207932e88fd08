/*
 * A link: a non-blocking byte stream to one peer. It is the interface between the mesh and its
 * transport: tcp.c between machines and local.c within one; a simulated network implements the same
 * table.
 *
 * One thread (the I/O thread of a mesh) uses a link. Framing, authentication, heartbeats and
 * failure are above it (frame_stream.h, handshake.h, mesh_thread.c).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/compiler.h"

struct link;

struct link_operations {
    /* Return: 0 once connected, -EINPROGRESS, or the error of connecting */
    int (*connected)(struct link *link);
    /* Return: bytes taken, -EAGAIN when the link is full, else the link is broken */
    ssize_t (*send)(struct link *link, const struct iovec *parts, int part_count);
    /* Return: bytes, 0 when the peer has finished, -EAGAIN without data, else the link is broken */
    ssize_t (*receive)(struct link *link, const struct iovec *parts, int part_count);
    /* Break the link when the peer's machine has acknowledged no data for @timeout_ns. NULL: it is
     * this machine. */
    void (*set_timeout)(struct link *link, uint64_t timeout_ns);
    /* End sending; bytes taken before still arrive, and receiving continues. */
    void (*finish)(struct link *link);
    void (*free)(struct link *link);
};

struct link {
    const struct link_operations *operations;
    int descriptor; /* readable and writable as epoll says */
};

static inline int link_connected(struct link *link)
{
    return link->operations->connected(link);
}

static inline ssize_t link_send(struct link *link, const struct iovec *parts, int part_count)
{
    return link->operations->send(link, parts, part_count);
}

static inline ssize_t link_receive(struct link *link, const struct iovec *parts, int part_count)
{
    return link->operations->receive(link, parts, part_count);
}

static inline void link_set_timeout(struct link *link, uint64_t timeout_ns)
{
    if (link->operations->set_timeout)
        link->operations->set_timeout(link, timeout_ns);
}

static inline void link_finish(struct link *link)
{
    link->operations->finish(link);
}

static inline void link_free(struct link *link)
{
    if (link)
        link->operations->free(link);
}
