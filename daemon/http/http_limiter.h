/*
 * Decide which HTTP connections stay, for daemon/http/http_server.c. No sockets, no clock.
 *
 * The number of connections is limited, so that their memory is bounded. A client that opens many
 * connections and sends half a request on each must not keep other clients out. So a new connection
 * evicts a connection that has waited for a request for longer than a round trip takes: the oldest
 * one of the address with the most connections. If there is none, an address with more answers in
 * flight than the new client has connections loses one of them. Otherwise the new connection is
 * answered with 503.
 *
 * Each connection has deadlines that its bytes do not extend: one for the whole request, then one
 * for the answer, in proportion to the answer's size.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/compiler.h"

struct http_limits {
    /* connections; per_address does not apply to the loopback interface */
    unsigned total, per_address;
    unsigned refused;          /* connections being answered with 503, beyond `total` */
    uint64_t grace_ns;         /* not evicted after a shorter wait: a request may come */
    uint64_t first_request_ns; /* from the connection to the end of its first request */
    uint64_t next_request_ns;  /* from an answer to the end of the next request */
    uint64_t answer_ns;        /* from the request to the end of an empty answer */
    uint64_t bytes_per_second; /* minimum rate for larger answers */
};

enum http_visit {
    HTTP_VISIT_WAITS,   /* for a request */
    HTTP_VISIT_ANSWERS, /* a request has been received */
    HTTP_VISIT_REFUSED, /* being answered with 503 */
    HTTP_VISIT_DISMISSED,
};

#define HTTP_VISITORS_MAX 512 /* including dismissed connections that are not closed yet */

struct http_address {
    uint8_t bytes[16]; /* only the network's 64 bits of an IPv6 client */
    bool local;        /* the loopback interface */
    unsigned users;    /* visitors that refer to this entry; 0: unused */
    unsigned counted;  /* of these, the visitors that wait or are answered */
};

/* One connection; memory owned by the caller. */
struct http_visitor {
    TAILQ_ENTRY(http_visitor) entry;
    struct http_address *address;
    enum http_visit visit;
    uint64_t since_ns, deadline_ns; /* of the current state */
};
TAILQ_HEAD(http_visitors, http_visitor);

struct http_limiter {
    const struct http_limits *limits; /* borrowed */
    struct http_visitors visitors;    /* oldest state change first */
    void (*dismiss)(struct http_visitor *visitor);
    struct http_address addresses[HTTP_VISITORS_MAX];
    unsigned counted;
};

/** http_limiter_init() - @dismiss closes a connection; http_limiter_leave() follows some time later
 */
void http_limiter_init(struct http_limiter *limiter, const struct http_limits *limits,
                       void (*dismiss)(struct http_visitor *visitor));
/** http_limiter_enter() - admit a new connection, HTTP_VISITORS_MAX at most; @visitor->visit is
 * HTTP_VISIT_REFUSED if it is refused */
void http_limiter_enter(struct http_limiter *limiter, struct http_visitor *visitor,
                        const struct sockaddr *address, uint64_t now_ns);
/** http_limiter_answers() - note that a whole request was received and that its answer has
 * @size_bytes or fewer */
void http_limiter_answers(struct http_limiter *limiter, struct http_visitor *visitor,
                          uint64_t size_bytes, uint64_t now_ns);
/** http_limiter_waits() - note that the answer has been sent */
void http_limiter_waits(struct http_limiter *limiter, struct http_visitor *visitor,
                        uint64_t now_ns);
void http_limiter_leave(struct http_limiter *limiter, struct http_visitor *visitor);
/** http_limiter_expire() - dismiss all connections past their deadlines. Return: the next
 * deadline, UINT64_MAX: none */
uint64_t http_limiter_expire(struct http_limiter *limiter, uint64_t now_ns);
