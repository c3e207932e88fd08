/*
 * HTTP/1.1 requests on the caller's loop, with libcurl: whole answers or streamed ones. (HTTP/2,
 * for etcd: membership/transport/http2.h.)
 *
 * A client is a pool of kept-alive connections. Single-threaded. A request that starts (0) ends in
 * exactly one of: its `done`, or http_cancel(). No callback runs inside a function of this header.
 * Proxies of the environment are not used and redirects are not followed: the peers are firn's own.
 * Over TLS their certificates are checked with the authorities that base/http_url.h names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "membership/transport/http_token.h"
#include "membership/transport/loop.h"

struct http_client;
struct http_request;

struct http_order {
    const char *url;
    const char *const *headers; /* "Name: value" each, copied; the last is NULL. NULL: none */
    const void *body;           /* copied; NULL: GET, else POST */
    size_t body_bytes;
    bool once;               /* never sent twice, even if libcurl would (a kept connection died) */
    uint64_t timeout_ns;     /* of the whole request; 0: none */
    size_t answer_bytes_max; /* of a whole answer, or of a stream's bytes not yet delivered */
};

struct http_answer {
    int status;       /* 0: an answer came, with any code. -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT,
                         -ECONNRESET, -EKEYREJECTED (its certificate cannot be trusted), -EFBIG (over
                         answer_bytes_max), -EPROTO (not HTTP), -EINVAL (the URL), ... */
    long code;        /* 200 */
    const char *text; /* of a failure, without the URL */
    const uint8_t *body; /* zero-terminated past its end; streamed: only a body that is not 2xx */
    size_t body_bytes;
};

typedef void (*http_data_callback)(void *context, const uint8_t *data, size_t size_bytes);
typedef void (*http_done_callback)(void *context, const struct http_answer *answer);

int http_client_new(const struct loop *loop, struct http_client **ret_client) CHECK_RESULT;
/** http_client_free() - cancel the requests in flight and free the client. Not from inside a
 * callback of this client; NULL allowed */
void http_client_free(struct http_client *client);
/**
 * http_client_set_token() - send the cluster's token (membership/transport/http_token.h) with every
 * request from now on; such a client must send requests only to firnds
 * @token: copied; "": none
 */
void http_client_set_token(struct http_client *client, const char *token);

/**
 * http_start() - send a request
 * @order: borrowed for the call
 * @data: NULL, or gets the bytes of a 2xx answer as they arrive
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

/** http_cancel() - cancel the request, without a callback; NULL allowed; not inside its own
 * `done` */
void http_cancel(struct http_request *request);
