/*
 * Links between the workers of one node over Unix sockets, which move a byte in less than half of
 * the processor time of TCP over the loopback.
 *
 * The socket's name is abstract and derived from the TCP address beside which it listens. Like that
 * address, an abstract name belongs to the network namespace, so a process that finds the name
 * would reach the same worker by TCP. If the name is not found or does not work, TCP is used.
 *
 * Both ends must belong to one user, which the kernel reports. Another user can take the name, but
 * gets no data.
 */
#pragma once

#include "comm/mesh/link.h"

/** local_listen() - listen beside the TCP listener that is bound to @address, as
 * tcp_local_address() writes it. Return: 0, or errno of the socket: -EADDRINUSE */
int local_listen(const char *address, int *ret_listener) CHECK_RESULT;

/** local_connect() - connect to the worker that listens beside @address; the link is connected at
 * once. Return: 0, -ENOMEM, -ECONNREFUSED: no listener; -EACCES: another user's listener; -EAGAIN:
 * its queue is full */
int local_connect(const char *address, struct link **ret_link) CHECK_RESULT;

/** local_accept() - accept one connection. Return: 0, -EAGAIN when none waits, -EACCES: it was
 * another user's, and was closed, -ENOMEM, or errno of accept */
int local_accept(int listener, struct link **ret_link) CHECK_RESULT;
