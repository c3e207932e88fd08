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

struct byte_stream;

struct byte_stream_security {
    const char *ca_file, *certificate_file,
        *key_file; /* NULL: the system's authorities; no certificate */
};

struct byte_stream_order {
    const char *origin; /* "http://host:port" (TCP) or "https://host:port" (TLS) */
    const struct byte_stream_security *security;
    const char *protocol;        /* what TLS agrees on: "h2"; outlives the wire */
    uint64_t connect_timeout_ns; /* for TCP alone: TLS may take as long as the caller waits */
};

struct byte_stream_callbacks {
    /* Once: 0, or what curl_transfer_status() says, and why in words. Unless 0 only
     * byte_stream_close() is allowed afterwards. */
    void (*connected)(void *context, int status, const char *text);
    /* From then on: what byte_stream_watch() asked for; may close the wire. */
    void (*ready)(void *context);
};

/** byte_stream_open() - begin to connect. @order is borrowed for the call. Return: 0, -ENOMEM, -EIO
 */
int byte_stream_open(struct curl_loop *curl, const struct byte_stream_order *order,
                     const struct byte_stream_callbacks *callbacks, void *context,
                     struct byte_stream **ret_wire) CHECK_RESULT;
void byte_stream_close(struct byte_stream *wire); /* it does not call back any more; NULL allowed */

/** byte_stream_watch() - be called when it can be read, and also when it can be written. Return: 0,
 * -ENOMEM
 */
int byte_stream_watch(struct byte_stream *wire, bool write) CHECK_RESULT;

/**
 * byte_stream_read() - take what has come
 *
 * @ret_more: more may be here that the loop does not tell of: read on until it is false or -EAGAIN
 *
 * Return: bytes; 0: the peer has closed its side; -EAGAIN; -ECONNRESET.
 */
ssize_t byte_stream_read(struct byte_stream *wire, void *room, size_t size_bytes,
                         bool *ret_more) CHECK_RESULT;
/** byte_stream_refusal() - after -ECONNRESET: why the peer ended TLS; NULL: it has not said. Until
 *  byte_stream_close() */
const char *byte_stream_refusal(const struct byte_stream *wire);
/** byte_stream_write() - Return: how much of @data was taken, more than 0; -EAGAIN; -ECONNRESET */
ssize_t byte_stream_write(struct byte_stream *wire, const void *data,
                          size_t size_bytes) CHECK_RESULT;
