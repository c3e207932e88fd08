/*
 * gRPC calls over HTTP/2 (grpc.io, "gRPC over HTTP2"; membership/transport/http2.h) on the caller's
 * loop: unary calls, and streams of messages both ways.
 *
 * A call is a POST whose body and answer are messages, each with five bytes before it: whether it
 * is compressed (never) and its length. The result is in a trailer, `grpc-status`, behind the
 * answer. As with http2.h, a call that starts (0) ends in exactly one of: its `done`, or
 * grpc_cancel(). No callback runs inside a function of this header. Single-threaded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "membership/transport/http2.h"

#define GRPC_TEXT_SIZE 256

/* The gRPC status codes that etcd uses. */
enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16,
};

struct grpc_call;

struct grpc_order {
    const char *url;             /* "http://host:port/package.Service/Method" */
    const char *const *metadata; /* "name: value" each; the last is NULL */
    const void *message;         /* copied */
    size_t message_bytes;
    uint64_t timeout_ns; /* this and the next two as in http2.h */
    uint64_t silence_ns, reach_ns;
    uint64_t connect_timeout_ns; /* of TCP; 0: timeout_ns */
    size_t message_bytes_max;    /* of an answer */
};

struct grpc_answer {
    int status; /* 0: the server returned a code; negative as in http2_answer; -EPROTO: the answer
                 * is not gRPC; -EFBIG: over message_bytes_max */
    bool sent;  /* with a failure: the server may have seen the call */
    enum grpc_code code;
    const char *text;       /* of a failure: the server's, or the connection's */
    const uint8_t *message; /* of a unary call with GRPC_OK */
    size_t message_bytes;
};

typedef void (*grpc_message_callback)(void *context, const uint8_t *message, size_t message_bytes);
typedef void (*grpc_done_callback)(void *context, const struct grpc_answer *answer);

/**
 * grpc_start() - make a call
 * @order: borrowed
 * @message: NULL: a unary call; else a stream: grpc_send() sends more messages, and @message gets
 *      each message as it arrives; it may cancel the call
 * @done: ends the call; @answer is borrowed
 *
 * Return: 0, -ENOMEM, -EIO, -EINVAL (the URL).
 */
int grpc_start(struct http2_client *client, const struct grpc_order *order,
               grpc_message_callback message, grpc_done_callback done, void *context,
               struct grpc_call **ret_call) CHECK_RESULT;
/** grpc_send() - send one more message of a stream. Return: 0 or -ENOMEM */
int grpc_send(struct grpc_call *call, const void *message, size_t message_bytes) CHECK_RESULT;
/** grpc_cancel() - cancel the call, without a callback; NULL allowed; not inside its own `done` */
void grpc_cancel(struct grpc_call *call);
