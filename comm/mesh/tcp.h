/*
 * Links over TCP. Sockets are non-blocking, without Nagle's delay. Buffer sizes are left to the
 * kernel's tuning (a fixed SO_SNDBUF would end it, and wmem_max is often smaller than what tuning
 * reaches); TCP_NOTSENT_LOWAT keeps what waits unsent in the kernel short, so that a heartbeat or a
 * fault is not behind megabytes.
 */
#pragma once

#include "base/error.h"
#include "base/name.h"
#include "comm/mesh/link.h"

/** tcp_listen() - @address: numeric "host:port", "[v6]:port"; port 0: any; the descriptor into
 * *ret_listener */
int tcp_listen(const char *address, int *ret_listener, struct error *error) CHECK_RESULT;

/** tcp_local_address() - where a listener is bound, as text */
int tcp_local_address(int descriptor, char ret_address[ADDRESS_SIZE]) CHECK_RESULT;

/** tcp_address_valid() - Return: 0, or -EINVAL: not a numeric "host:port" */
int tcp_address_valid(const char *address, struct error *error) CHECK_RESULT;

/** tcp_connect() - begin; link_connected() says how it went once the link is writable
 * @listener: the connection comes from the address that this one is bound to, where that is
 * possible (the other side accepts addresses of the plan alone); -1: from any */
int tcp_connect(const char *address, int listener, struct link **ret_link) CHECK_RESULT;

/** tcp_accept() - Return: 0, -EAGAIN when nobody waits, or errno of accept or of memory */
int tcp_accept(int listener, struct link **ret_link) CHECK_RESULT;

/* An address without its port; IPv4 as ::ffff:a.b.c.d. All zero: not known. */
struct tcp_host {
    uint8_t bytes[16];
};
bool tcp_host_equal(const struct tcp_host *one, const struct tcp_host *other);
/** tcp_host_of() - of numeric "host:port" */
struct tcp_host tcp_host_of(const char *address);
/** tcp_host_of_peer() - of the other end of a link */
struct tcp_host tcp_host_of_peer(const struct link *link);
#define TCP_HOST_TEXT_SIZE 48
/** tcp_host_text() - write "10.0.0.1" or "fd00::1" */
void tcp_host_text(const struct tcp_host *host, char ret_text[TCP_HOST_TEXT_SIZE]);

/** tcp_waiting() - how many connections wait to be accepted */
unsigned tcp_waiting(int listener);
/** tcp_turn_away() - accept and close up to @count, the oldest first */
void tcp_turn_away(int listener, unsigned count);
