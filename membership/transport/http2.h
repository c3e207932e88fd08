/*
 * HTTP/2 requests on the caller's loop: whole answers or streamed ones, all on one connection for
 * each server (membership/transport/http2_connection.h).
 *
 * A connection is opened for the first request, kept, and reopened when it is lost. A request
 * without an answer in time fails alone, because others may still be answered. The connection with
 * all its requests ends only if the server does not answer a PING either. So a slow server does not
 * have to accept a new connection for each late answer, and the first request detects a cut cable.
 *
 * Three times limit a request: `timeout_ns` until its answer, even if the server is alive;
 * `silence_ns` without a sign of life while it waits; and `reach_ns` until it is sent, which
 * expires at a server that does not send SETTINGS. An unsent request can be sent elsewhere at no
 * cost. Its connection stays, as it may still be established.
 *
 * Requests are never retried here. The caller decides about a retry and learns whether the server
 * may have seen the request.
 *
 * Single-threaded. A request that starts (0) ends in exactly one of: its `done`, or http2_cancel().
 * No callback runs inside a function of this header.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "membership/transport/byte_stream.h"
#include "membership/transport/loop.h"

struct http2_client;
struct http2_request;

struct http2_order {
    const char *url;            /* "http://host:port/path", or https */
    const char *const *headers; /* "name: value" each, in lower case, copied; the last is NULL */
    const void *body;           /* copied */
    size_t body_bytes;
    bool open_ended;             /* http2_send() continues the body */
    uint64_t timeout_ns;         /* of the whole request; 0: no limit, for the next two neither */
    uint64_t silence_ns;         /* 0: timeout_ns */
    uint64_t reach_ns;           /* 0: timeout_ns */
    uint64_t connect_timeout_ns; /* of TCP; 0: timeout_ns */
    size_t answer_bytes_max;     /* of a whole answer, or of a stream's bytes not yet delivered */
};

struct http2_answer {
    int status;       /* 0: an answer came, with any code. -ECONNREFUSED, -EHOSTUNREACH (no route;
                         or `sent`, and the server has fallen silent), -ETIMEDOUT, -ECONNRESET,
                         -EFBIG (over answer_bytes_max), -EPROTO (TLS, not HTTP/2), -EINVAL (the
                         URL), -ENOMEM */
    bool sent;        /* with a failure: the peer may have seen the request */
    int code;         /* 200 */
    const char *text; /* of a failure */
    const uint8_t *body; /* of a streamed answer only the undelivered bytes */
    size_t body_bytes;
};

typedef void (*http2_data_callback)(void *context, const uint8_t *data, size_t size_bytes);
typedef void (*http2_done_callback)(void *context, const struct http2_answer *answer);

/** http2_client_new() - @security: copied. Return: 0 or -ENOMEM */
int http2_client_new(const struct loop *loop, const struct byte_stream_security *security,
                     struct http2_client **ret_client) CHECK_RESULT;
/** http2_client_free() - cancel the requests in flight and free the client. Not from inside a
 * callback of this client; NULL allowed */
void http2_client_free(struct http2_client *client);

/**
 * http2_start() - send a POST
 * @order: borrowed for the call
 * @data: NULL, or gets the bytes of a 2xx answer as they arrive; may cancel
 * @done: ends the request; @answer is borrowed during the call
 *
 * Return: 0, -ENOMEM, -EIO, -EINVAL (the URL).
 */
int http2_start(struct http2_client *client, const struct http2_order *order,
                http2_data_callback data, http2_done_callback done, void *context,
                struct http2_request **ret_request) CHECK_RESULT;
/** http2_send() - send more of an open-ended body. Return: 0 or -ENOMEM */
int http2_send(struct http2_request *request, const void *data, size_t size_bytes) CHECK_RESULT;
/** http2_answer_header() - return a header of the answer or of its trailers; only inside `done`.
 * Return: borrowed until `done` returns; NULL: none */
const char *http2_answer_header(const struct http2_request *request, const char *name);
/** http2_cancel() - cancel the request, without a callback; NULL allowed; not inside its own
 * `done` */
void http2_cancel(struct http2_request *request);
