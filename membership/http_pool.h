/*
 * The connections that a client keeps, and which HTTP they speak.
 *
 * Over HTTP/2 many requests could share one connection, and do not: libcurl before 8.0 then leaves
 * answers lying that it has read while it was busy with another request, until the connection has
 * more to read. So each carries one request at a time, and is kept for the next.
 *
 * libcurl finds a kept connection by itself, with another flaw: before 8.0 it begins HTTP/2 without
 * TLS ("prior knowledge") a second time on a connection that speaks it already, which fails (curl's
 * pull request 10643). So there a request that opens a connection says so, and one that is to use a
 * kept one asks for HTTP/2 as if to negotiate it, which is not done where it is spoken already.
 * Should libcurl give such a request a new connection all the same, because the kept one is gone,
 * then it is stopped before anything is sent, and opens one.
 *
 * A pool that is retired lives until its last request has left, so that what is on its way may
 * still arrive.
 */
#pragma once

#include "membership/curl_loop.h"

struct http_pool;

/* A request's place in a pool. */
struct http_seat {
    struct http_pool *pool; /* NULL: none */
    CURL *easy;             /* borrowed */
    bool http2, secure;
    /* HTTP/2 without TLS, see above: it opens a connection; it was given a new one though it does
     * not; its connection is kept. */
    bool opens, misplaced, keeps;
};

int http_pool_new(const struct loop *loop, struct http_pool **ret_pool) CHECK_RESULT;
void http_pool_retire(struct http_pool *pool); /* NULL allowed; it may be gone afterwards */
struct curl_loop *http_pool_curl(struct http_pool *pool);

/** http_seat_take() - sets what @seat's `easy` speaks; it is not started yet */
void http_seat_take(struct http_seat *seat, struct http_pool *pool);
/** http_seat_move() - the transfer has ended with @code. Return: whether it was stopped as above,
 * and is to be started again */
bool http_seat_move(struct http_seat *seat, CURLcode code);
void http_seat_leave(struct http_seat *seat); /* also one that was not taken */
