/*
 * Links over TCP. Sockets are non-blocking, without Nagle's delay. Buffer sizes are left to the
 * kernel's tuning (a fixed SO_SNDBUF would end it, and wmem_max is often smaller than the tuned
 * size); TCP_NOTSENT_LOWAT keeps the unsent data in the kernel short, so that a heartbeat or a
 * fault does not wait behind megabytes.
 */
#pragma once

#include "base/error.h"
#include "base/name.h"
#include "comm/mesh/link.h"

/** tcp_listen() - open a listening socket and store its descriptor in *ret_listener. @address:
 * numeric "host:port", "[v6]:port"; port 0: any */
int tcp_listen(const char *address, int *ret_listener, struct error *error) CHECK_RESULT;

/** tcp_local_address() - return the bound address of a listener as text */
int tcp_local_address(int descriptor, char ret_address[ADDRESS_SIZE]) CHECK_RESULT;

/** tcp_address_valid() - check an address. Return: 0, or -EINVAL: not a numeric "host:port" */
int tcp_address_valid(const char *address, struct error *error) CHECK_RESULT;

/** tcp_connect() - begin to connect; link_connected() returns the result once the link is writable
 * @listener: bind the connection to the address of this listener where possible (the other end
 * accepts only addresses of the plan); -1: any source address */
int tcp_connect(const char *address, int listener, struct link **ret_link) CHECK_RESULT;

/** tcp_accept() - accept one connection. Return: 0, -EAGAIN when none waits, -ENOMEM, or errno of
 * accept */
int tcp_accept(int listener, struct link **ret_link) CHECK_RESULT;

/* An address without its port; IPv4 as ::ffff:a.b.c.d. All zero: unknown. */
struct tcp_host {
    uint8_t bytes[16];
};
bool tcp_host_equal(const struct tcp_host *one, const struct tcp_host *other);
/** tcp_host_of() - parse the host of a numeric "host:port" */
struct tcp_host tcp_host_of(const char *address);
/** tcp_host_of_peer() - return the host of the other end of a link */
struct tcp_host tcp_host_of_peer(const struct link *link);
#define TCP_HOST_TEXT_SIZE 48
/** tcp_host_text() - write "10.0.0.1" or "fd00::1" */
void tcp_host_text(const struct tcp_host *host, char ret_text[TCP_HOST_TEXT_SIZE]);

/** tcp_waiting() - count the connections that wait to be accepted */
unsigned tcp_waiting(int listener);
/** tcp_thin() - accept and close the oldest connections of a long queue */
void tcp_thin(int listener);
