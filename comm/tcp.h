/*
 * Links over TCP. Sockets are non-blocking, without Nagle's delay. Buffer sizes are left to the
 * kernel's tuning (a fixed SO_SNDBUF would end it, and wmem_max is often smaller than what tuning
 * reaches); TCP_NOTSENT_LOWAT keeps what waits unsent in the kernel short, so that a heartbeat or a
 * fault is not behind megabytes.
 */
#pragma once

#include "base/error.h"
#include "base/name.h"
#include "comm/link.h"

/** tcp_listen() - @address: numeric "host:port", "[v6]:port"; port 0: any; the descriptor into
 * *ret_listener */
int tcp_listen(const char *address, int *ret_listener, struct error *error) CHECK_RESULT;

/** tcp_local_address() - where a listener is bound, as text */
int tcp_local_address(int descriptor, char ret_address[ADDRESS_SIZE]) CHECK_RESULT;

/** tcp_address_valid() - Return: 0, or -EINVAL: not a numeric "host:port" */
int tcp_address_valid(const char *address, struct error *error) CHECK_RESULT;

/** tcp_connect() - begin; link_connected() says how it went once the link is writable */
int tcp_connect(const char *address, struct link **ret_link) CHECK_RESULT;

/** tcp_accept() - Return: 0, -EAGAIN when nobody waits, or errno of accept or of memory */
int tcp_accept(int listener, struct link **ret_link) CHECK_RESULT;
