/*
 * Links between the workers of one node: Unix sockets, which move a byte in less than half of the
 * processor time that TCP takes over the loopback.
 *
 * The socket's name is abstract and made of the TCP address beside which it listens. An abstract
 * name belongs to the network namespace, as that address does, so who finds the name would reach
 * the same worker by TCP. Where it is not found, or something is wrong with it, TCP serves.
 *
 * Both ends must be of one user, as the kernel says: others can take the name, and get nothing.
 */
#pragma once

#include "comm/mesh/link.h"

/** local_listen() - listen beside the TCP listener that is bound to @address, as
 * tcp_local_address() writes it. Return: 0, or errno of the socket: -EADDRINUSE */
int local_listen(const char *address, int *ret_listener) CHECK_RESULT;

/** local_connect() - connect to the worker that listens beside @address; the link is connected at
 * once. Return: 0, -ENOMEM, -ECONNREFUSED: nobody listens there; -EACCES: another user does;
 * -EAGAIN: its queue is full */
int local_connect(const char *address, struct link **ret_link) CHECK_RESULT;

/** local_accept() - accept one connection. Return: 0, -EAGAIN when none waits, -EACCES: it was
 * another user's and is closed, -ENOMEM, or errno of accept */
int local_accept(int listener, struct link **ret_link) CHECK_RESULT;
