/* The common part of links over TCP (tcp.h) and over Unix sockets (local.h). */
#pragma once

#include "comm/mesh/link.h"

/** socket_link_new() - make a link of a socket; the socket is closed on failure too. Return: 0,
 * -ENOMEM */
int socket_link_new(int descriptor, const struct link_operations *operations,
                    struct link **ret_link) CHECK_RESULT;

/** socket_link_accept() - accept one connection. Return: its non-blocking descriptor, -EAGAIN when
 * none waits, or errno of accept */
int socket_link_accept(int listener) CHECK_RESULT;

/* Operations of links (link.h). */
int socket_link_connected(struct link *link);
ssize_t socket_link_send(struct link *link, const struct iovec *parts, int part_count);
ssize_t socket_link_receive(struct link *link, const struct iovec *parts, int part_count);
void socket_link_finish(struct link *link);
void socket_link_free(struct link *link);
