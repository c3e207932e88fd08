/*
 * Which HTTP connections stay: the decision behind daemon/http/http_server.c, without sockets or a
 * clock.
 *
 * Connections are few, so that they cost a bounded amount of memory. A client that opens many and
 * sends half a request on each must not keep the others out. So a newcomer is let in at the expense
 * of a connection that has waited for a request for longer than a round trip takes: the oldest one
 * of the address with the most connections. When there is none, an address that has more answers
 * under way than the newcomer has connections gives one up; else the newcomer is refused in words
 * (503).
 *
 * Each connection has a deadline that its bytes do not move: for the request as a whole, then for
 * the answer, in proportion to the answer's size.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/compiler.h"

struct http_guard_limits {
    unsigned total, per_address; /* connections; per_address is not for the loopback interface */
    unsigned refused;            /* that are being told so, beyond `total` */
    uint64_t grace_ns;           /* a wait this short makes no room: the request is on its way */
    uint64_t first_request_ns;   /* from the connection to the end of its first request */
    uint64_t next_request_ns;    /* from an answer to the end of the next request */
    uint64_t answer_ns;          /* from the request to the end of an empty answer */
    uint64_t bytes_per_second;   /* of larger ones, at least */
};

enum http_visit {
    HTTP_VISIT_WAITS,   /* for a request */
    HTTP_VISIT_ANSWERS, /* a request is here */
    HTTP_VISIT_REFUSED, /* is told that there are too many */
    HTTP_VISIT_DISMISSED,
};

#define HTTP_VISITORS_MAX 512 /* those that are dismissed and not yet gone included */

struct http_address {
    uint8_t bytes[16]; /* of an IPv6 client its network of 64 bits */
    bool local;        /* the loopback interface */
    unsigned users;    /* visitors that refer to this; 0: unused */
    unsigned counted;  /* of those, the ones that wait or are answered */
};

/* One connection; the caller's memory. */
struct http_visitor {
    TAILQ_ENTRY(http_visitor) entry;
    struct http_address *address;
    enum http_visit visit;
    uint64_t since_ns, deadline_ns; /* of `visit` */
};
TAILQ_HEAD(http_visitors, http_visitor);

struct http_guard {
    const struct http_guard_limits *limits; /* borrowed */
    struct http_visitors visitors;          /* the oldest first, by their last change of state */
    void (*dismiss)(struct http_visitor *visitor);
    struct http_address addresses[HTTP_VISITORS_MAX];
    unsigned counted;
};

/** http_guard_init() - @dismiss: end this connection; http_guard_leave() follows some time later */
void http_guard_init(struct http_guard *guard, const struct http_guard_limits *limits,
                     void (*dismiss)(struct http_visitor *visitor));
/** http_guard_enter() - take a new connection, of HTTP_VISITORS_MAX at most; @visitor->visit says
 * whether it is refused */
void http_guard_enter(struct http_guard *guard, struct http_visitor *visitor,
                      const struct sockaddr *address, uint64_t now_ns);
/** http_guard_answers() - a whole request came, and is answered by @size_bytes or fewer */
void http_guard_answers(struct http_guard *guard, struct http_visitor *visitor, uint64_t size_bytes,
                        uint64_t now_ns);
/** http_guard_waits() - the answer has been sent */
void http_guard_waits(struct http_guard *guard, struct http_visitor *visitor, uint64_t now_ns);
void http_guard_leave(struct http_guard *guard, struct http_visitor *visitor);
/** http_guard_expire() - dismiss all that are past their deadlines; Return: the next deadline,
 * UINT64_MAX: none */
uint64_t http_guard_expire(struct http_guard *guard, uint64_t now_ns);
