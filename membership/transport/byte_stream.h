/*
 * A stream of bytes to a peer, over TCP or TLS, on the caller's loop.
 *
 * libcurl finds the host, connects and encrypts (CURLOPT_CONNECT_ONLY), and knows nothing of what
 * is said. What TLS is to agree on (ALPN) is told to OpenSSL behind its back: a libcurl that saw
 * "h2" agreed on would begin to speak HTTP/2 by itself.
 *
 * Single-threaded. Nothing calls back from inside a call of this header. Proxies of the environment
 * are not used.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "membership/transport/curl_loop.h"

struct wire;

struct wire_security {
    const char *ca_file, *certificate_file,
        *key_file; /* NULL: the system's authorities; no certificate */
};

struct wire_order {
    const char *origin; /* "http://host:port" (TCP) or "https://host:port" (TLS) */
    const struct wire_security *security;
    const char *protocol;        /* what TLS agrees on: "h2"; outlives the wire */
    uint64_t connect_timeout_ns; /* for TCP alone: TLS may take as long as the caller waits */
};

struct wire_callbacks {
    /* Once: 0, or what curl_transfer_status() says, and why in words. Unless 0 only wire_close()
     * is allowed afterwards. */
    void (*connected)(void *context, int status, const char *text);
    /* From then on: what wire_watch() asked for; may close the wire. */
    void (*ready)(void *context);
};

/** wire_open() - begin to connect. @order is borrowed for the call. Return: 0, -ENOMEM, -EIO */
int wire_open(struct curl_loop *curl, const struct wire_order *order,
              const struct wire_callbacks *callbacks, void *context,
              struct wire **ret_wire) CHECK_RESULT;
void wire_close(struct wire *wire); /* it does not call back any more; NULL allowed */

/** wire_watch() - be called when it can be read, and also when it can be written. Return: 0,
 * -ENOMEM
 */
int wire_watch(struct wire *wire, bool write) CHECK_RESULT;

/**
 * wire_read() - take what has come
 *
 * @ret_more: more may be here that the loop does not tell of: read on until it is false or -EAGAIN
 *
 * Return: bytes; 0: the peer has closed its side; -EAGAIN; -ECONNRESET.
 */
ssize_t wire_read(struct wire *wire, void *room, size_t size_bytes, bool *ret_more) CHECK_RESULT;
/** wire_refusal() - after -ECONNRESET: why the peer ended TLS; NULL: it has not said. Until
 *  wire_close() */
const char *wire_refusal(const struct wire *wire);
/** wire_write() - Return: how much of @data was taken, more than 0; -EAGAIN; -ECONNRESET */
ssize_t wire_write(struct wire *wire, const void *data, size_t size_bytes) CHECK_RESULT;
