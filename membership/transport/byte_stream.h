/*
 * A byte stream to a peer, over TCP or TLS, on the caller's loop.
 *
 * libcurl resolves the host, connects and encrypts (CURLOPT_CONNECT_ONLY), and does not know the
 * protocol above. The ALPN protocol is set in OpenSSL directly, without libcurl: if libcurl saw
 * "h2" negotiated it would begin to speak HTTP/2 by itself.
 *
 * Single-threaded. No callback runs inside a function of this header. Proxies of the environment
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
    const char *protocol;        /* ALPN protocol: "h2"; outlives the wire */
    uint64_t connect_timeout_ns; /* of TCP alone: TLS may take as long as the caller waits */
};

struct byte_stream_callbacks {
    /* Called once: 0, or a status of curl_transfer_status() and its reason as text. After an error
     * only byte_stream_close() is allowed. */
    void (*connected)(void *context, int status, const char *text);
    /* Called afterwards for the events of byte_stream_watch(); may close the wire. */
    void (*ready)(void *context);
};

/** byte_stream_open() - begin to connect. @order is borrowed for the call. Return: 0, -ENOMEM, -EIO
 */
int byte_stream_open(struct curl_loop *curl, const struct byte_stream_order *order,
                     const struct byte_stream_callbacks *callbacks, void *context,
                     struct byte_stream **ret_wire) CHECK_RESULT;
void byte_stream_close(struct byte_stream *wire); /* no callback afterwards; NULL allowed */

/** byte_stream_watch() - request `ready` when the wire is readable, and with @write also when it is
 * writable. Return: 0, -ENOMEM
 */
int byte_stream_watch(struct byte_stream *wire, bool write) CHECK_RESULT;

/**
 * byte_stream_read() - read the available bytes
 *
 * @ret_more: more bytes may be buffered without an event of the loop: read on until it is false or
 * -EAGAIN
 *
 * Return: bytes; 0: the peer has closed its side; -EAGAIN; -ECONNRESET.
 */
ssize_t byte_stream_read(struct byte_stream *wire, void *room, size_t size_bytes,
                         bool *ret_more) CHECK_RESULT;
/** byte_stream_refusal() - after -ECONNRESET: return why the peer ended TLS; NULL: unknown. Valid
 * until byte_stream_close() */
const char *byte_stream_refusal(const struct byte_stream *wire);
/** byte_stream_write() - write. Return: the bytes of @data that were taken, more than 0; -EAGAIN;
 * -ECONNRESET */
ssize_t byte_stream_write(struct byte_stream *wire, const void *data,
                          size_t size_bytes) CHECK_RESULT;
