/*
 * HTTP requests on the caller's loop, with libcurl: whole answers or streamed ones.
 *
 * A client is a pool of kept-alive connections with one set of TLS options. Single-threaded. A
 * request that starts (0) ends in exactly one of: its `done`, or http_cancel(). Nothing calls back
 * from inside a call of this header. Proxies of the environment are not used and redirects are not
 * followed: the peers are our own.
 *
 * After an HTTP/2 request that is not answered in time nothing else is asked on any connection that
 * was kept, for a peer that was cut off may be behind them; what is on its way may still arrive.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "membership/loop.h"

struct http_client;
struct http_request;

struct http_client_options {
    const char *ca_file, *certificate_file,
        *key_file; /* NULL: the system's authorities; no certificate */
};

struct http_order {
    const char *url;
    const char *const *headers; /* "Name: value" each, copied; the last is NULL. NULL: none */
    const void *body;           /* copied; NULL: GET, else POST */
    size_t body_bytes;
    bool http2;      /* HTTP/2 and nothing else, also without TLS; else HTTP/1.1 */
    bool open_ended; /* HTTP/2: the body goes on with http_send() */
    bool
        once; /* never sent a second time, even where libcurl would (a kept connection that died) */
    uint64_t timeout_ns;         /* of everything; 0: none */
    uint64_t connect_timeout_ns; /* 0: timeout_ns, or libcurl's */
    size_t answer_bytes_max;     /* of a whole answer, or of a stream's bytes not yet delivered */
};

struct http_answer {
    int status; /* 0: an answer came, whatever its code. -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT,
                   -ECONNRESET, -EFBIG (over answer_bytes_max), -EPROTO (TLS, not HTTP), -EINVAL
                   (the URL), ... */
    bool sent;  /* with a failure: the peer may have seen the request */
    long code;  /* 200 */
    const char *text; /* of a failure, without the URL */
    const uint8_t
        *body; /* zero-terminated past its end; of a streamed answer only what is not 2xx */
    size_t body_bytes;
};

typedef void (*http_data_callback)(void *context, const uint8_t *data, size_t size_bytes);
typedef void (*http_done_callback)(void *context, const struct http_answer *answer);

int http_client_new(const struct loop *loop, const struct http_client_options *options,
                    struct http_client **ret_client) CHECK_RESULT;
/** http_client_free() - cancels what is in flight. Not from inside a callback of this client; NULL
 * allowed */
void http_client_free(struct http_client *client);

/**
 * http_start() - send a request
 * @order: borrowed for the call
 * @data: NULL, or gets the bytes of a 2xx answer as they come
 * @done: ends the request; @answer is borrowed during the call
 *
 * Return: 0, -ENOMEM, -EIO.
 */
int http_start(struct http_client *client, const struct http_order *order, http_data_callback data,
               http_done_callback done, void *context,
               struct http_request **ret_request) CHECK_RESULT;

/** http_get() - http_start() of a plain GET whose answer is at most HTTP_GET_BYTES_MAX (a stream:
 * unbounded) */
#define HTTP_GET_BYTES_MAX (16u << 20)
int http_get(struct http_client *client, const char *url, uint64_t timeout_ns,
             http_data_callback data, http_done_callback done, void *context,
             struct http_request **ret_request) CHECK_RESULT;

/** http_send() - more of an open-ended body. Return: 0 or -ENOMEM */
int http_send(struct http_request *request, const void *data, size_t size_bytes) CHECK_RESULT;

/**
 * http_answer_header() - a header of the answer, or of the trailers behind its body
 *
 * To be asked inside of `done`. Return: its value, borrowed until that returns; NULL: there is
 * none.
 */
const char *http_answer_header(const struct http_request *request, const char *name);

/** http_cancel() - it does not call back any more; NULL allowed; not inside its own `done` */
void http_cancel(struct http_request *request);
