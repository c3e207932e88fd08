/*
 * One HTTP/2 connection (RFC 9113) with any number of requests on it at once: nghttp2 writes and
 * reads the frames, membership/transport/byte_stream.h carries them.
 *
 * A stream is one request and its answer. What comes is put aside until nghttp2 has returned, then
 * the streams' owner is told: `data` for what a 2xx answer brought, `ended` once. Both may begin
 * and leave streams of any connection. Streams can begin before the connection is there; none is
 * sent before the peer has greeted with its settings, which servers send at once. So what was
 * begun with a server that takes connections and does nothing else has surely not been seen.
 *
 * Windows: what comes is taken at once, so no stream holds up another; the owner's bound on an
 * answer ends a stream that brings more. What we send waits for the peer's windows.
 *
 * Is the peer alive? http2_connection_probe() sends a PING, and only for as long as that is
 * unanswered, and nothing else came either, does http2_connection_silent() count.
 *
 * Single-threaded. Nothing calls back from inside http2_stream_begin(), _send() and _leave().
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
    bool open_ended;         /* the body goes on with http2_stream_send() */
    size_t answer_bytes_max; /* of an answer, or of what is not yet delivered of a streamed one */
    void (*data)(struct http2_stream *stream, const uint8_t *data, size_t size_bytes); /* or NULL */
    /* It has left its connection. @status: 0: the answer is whole; -ECONNRESET, -EPROTO, -EFBIG,
     * -ENOMEM, or what `connected` of byte_stream.h says */
    void (*ended)(struct http2_stream *stream, int status, const char *text);

    /* to be read */
    struct http2_connection *connection; /* NULL: on none */
    bool sent;                           /* the peer may have seen it */
    bool heard;                          /* something of the answer came */
    int code;                            /* 200 */
    struct bytes answer;                 /* what came and was not delivered */

    /* the connection's */
    struct http2_stream *next, **back;
    struct http2_stream *told_next;
    struct bytes body; /* what is still to be sent, from `body_at` on */
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
    /* The connection has ended, its streams too: to be freed now. */
    void (*closed)(struct http2_connection *connection, void *context);
    void *context;
};

int http2_connection_new(const struct http2_connection_options *options,
                         struct http2_connection **ret_connection) CHECK_RESULT;
/** http2_connection_free() - not inside `data` and `ended`; all streams have left; NULL allowed */
void http2_connection_free(struct http2_connection *connection);

/** http2_connection_open() - whether it takes more streams: not after GOAWAY, not when it failed */
bool http2_connection_open(const struct http2_connection *connection);
bool http2_connection_connected(const struct http2_connection *connection);
/** http2_connection_greeted() - the peer has said something, so requests are on their way */
bool http2_connection_greeted(const struct http2_connection *connection);
/** http2_connection_look() - take now what has come, should the loop be late. May call `closed` */
void http2_connection_look(struct http2_connection *connection);
/** http2_connection_probe() - send a PING, unless one is out or the peer was asked too often */
void http2_connection_probe(struct http2_connection *connection);
/** http2_connection_silent() - a PING has been out for so long, and nothing came since */
bool http2_connection_silent(const struct http2_connection *connection, uint64_t for_ns);
/** http2_connection_break() - end it and its streams, with this reason. Calls `closed` */
void http2_connection_break(struct http2_connection *connection, int status, const char *text);

/**
 * http2_stream_begin() - send a request
 * @stream: the owner's part is set, the rest is zero
 * @authority, @path: "host:port", "/..."
 * @headers: "name: value" each, names in lower case; the last is NULL
 * @body: copied; its end is the request's unless it is open-ended
 *
 * Return: 0, -ENOMEM; -ECONNRESET: this connection takes no more.
 */
int http2_stream_begin(struct http2_stream *stream, struct http2_connection *connection,
                       const char *scheme, const char *authority, const char *path,
                       const char *const *headers, const void *body,
                       size_t body_bytes) CHECK_RESULT;
int http2_stream_send(struct http2_stream *stream, const void *data,
                      size_t size_bytes) CHECK_RESULT; /* 0 or -ENOMEM */
/** http2_stream_header() - of the answer or its trailers; borrowed from the stream. NULL: none */
const char *http2_stream_header(const struct http2_stream *stream, const char *name);
/** http2_stream_leave() - take it off its connection, if it is on one: it is reset there */
void http2_stream_leave(struct http2_stream *stream);
/** http2_stream_done() - leave, and free what it holds; also of a zeroed one */
void http2_stream_done(struct http2_stream *stream);
