/*
 * One HTTP/2 connection (RFC 9113) with any number of requests on it at once: nghttp2 writes and
 * reads the frames, membership/transport/byte_stream.h carries them.
 *
 * A stream is one request and its answer. Received bytes are buffered until nghttp2 has returned.
 * Then the owner of the stream is called: `data` for the bytes of a 2xx answer, `ended` once. Both
 * callbacks may begin and leave streams of any connection. Streams can begin before the connection
 * is established. No stream is sent before the peer's SETTINGS frame, which servers send at once.
 * So a server that only accepts connections has certainly not seen the request.
 *
 * Windows: received bytes are taken at once, so no stream blocks another. A stream that exceeds the
 * owner's limit of an answer is ended. Sent bytes wait for the peer's windows.
 *
 * Liveness: http2_connection_probe() sends a PING. http2_connection_silent() counts only the time
 * in which the PING is unanswered and no other byte arrives.
 *
 * Single-threaded. No callback runs inside http2_stream_begin(), _send() and _leave().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "membership/transport/byte_stream.h"

struct http2_connection;

struct http2_stream {
    /* set by the owner */
    bool open_ended;         /* http2_stream_send() continues the body */
    size_t answer_bytes_max; /* limit of an answer, or of the undelivered bytes of a streamed
                              * answer */
    void (*data)(struct http2_stream *stream, const uint8_t *data, size_t size_bytes); /* or NULL */
    /* The stream has left its connection. @status: 0: the answer is complete; -ECONNRESET, -EPROTO,
     * -EFBIG, -ENOMEM, or a status of `connected` in byte_stream.h */
    void (*ended)(struct http2_stream *stream, int status, const char *text);

    /* read-only for the owner */
    struct http2_connection *connection; /* NULL: none */
    bool sent;                           /* the peer may have seen the request */
    bool heard;                          /* a part of the answer has arrived */
    int code;                            /* 200 */
    struct bytes answer;                 /* received bytes that are not delivered */

    /* the connection's */
    struct http2_stream *next, **back;
    struct http2_stream *told_next;
    struct bytes body; /* bytes to be sent, from `body_at` on */
    size_t body_at;
    struct bytes headers; /* "name\0value\0" each */
    int32_t id;
    bool told, whole, failed, waits;
    int status;
    const char *text;
};

struct http2_connection_options {
    struct curl_loop *curl;
    const struct loop *loop;
    struct byte_stream_order wire; /* borrowed for the call */
    /* The connection and its streams have ended; the owner frees the connection now. */
    void (*closed)(struct http2_connection *connection, void *context);
    void *context;
};

int http2_connection_new(const struct http2_connection_options *options,
                         struct http2_connection **ret_connection) CHECK_RESULT;
/** http2_connection_free() - free the connection after all streams have left; not inside `data` and
 * `ended`; NULL allowed */
void http2_connection_free(struct http2_connection *connection);

/** http2_connection_open() - return whether the connection takes more streams: not after GOAWAY,
 * not after a failure */
bool http2_connection_open(const struct http2_connection *connection);
bool http2_connection_connected(const struct http2_connection *connection);
/** http2_connection_greeted() - return whether the peer has sent SETTINGS, so that requests are
 * being sent */
bool http2_connection_greeted(const struct http2_connection *connection);
/** http2_connection_look() - read received bytes now, in case the loop is late. May call
 * `closed` */
void http2_connection_look(struct http2_connection *connection);
/** http2_connection_probe() - send a PING, unless one is unanswered or the peer was probed too
 * often */
void http2_connection_probe(struct http2_connection *connection);
/** http2_connection_silent() - return whether a PING has been unanswered for @for_ns, with no byte
 * received since */
bool http2_connection_silent(const struct http2_connection *connection, uint64_t for_ns);
/** http2_connection_break() - end the connection and its streams with @status. Calls `closed` */
void http2_connection_break(struct http2_connection *connection, int status, const char *text);

/**
 * http2_stream_begin() - send a request
 * @stream: the owner's part is set, the rest is zero
 * @authority, @path: "host:port", "/..."
 * @headers: "name: value" each, names in lower case; the last is NULL
 * @body: copied; ends the request unless the stream is open_ended
 *
 * Return: 0, -ENOMEM; -ECONNRESET: the connection takes no more streams.
 */
int http2_stream_begin(struct http2_stream *stream, struct http2_connection *connection,
                       const char *scheme, const char *authority, const char *path,
                       const char *const *headers, const void *body,
                       size_t body_bytes) CHECK_RESULT;
int http2_stream_send(struct http2_stream *stream, const void *data,
                      size_t size_bytes) CHECK_RESULT; /* 0 or -ENOMEM */
/** http2_stream_header() - return a header of the answer or its trailers; borrowed from the stream.
 * NULL: none */
const char *http2_stream_header(const struct http2_stream *stream, const char *name);
/** http2_stream_leave() - remove the stream from its connection, if any, and reset it there */
void http2_stream_leave(struct http2_stream *stream);
/** http2_stream_done() - leave the connection and free the stream's memory; a zeroed stream is
 * allowed */
void http2_stream_done(struct http2_stream *stream);
