/*
 * Calls against a server that answers with HTTP/2 frames from a script: a whole gRPC message is
 * delivered, and everything else ends the call with the reason.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "lib/membership/frames.h"
#include "lib/membership/listener.h"
#include "membership/etcd/grpc.h"
#include "membership/transport/poll_loop.h"

#define WAIT_NS      (10 * NS_PER_SECOND)
#define ACTS_MAX     16
#define MESSAGE_MAX  16 /* bytes of an answer */
#define STREAMED_MAX 64 /* and of all messages of a stream that come at once */

enum act_kind {
    END = 0,  /* of the script: the connection stays open */
    HEADERS,  /* `text`: a line for each */
    TRAILERS, /* the same, and the stream ends */
    DATA,
    AWAIT, /* until so many bytes of messages have come */
    RESET, /* of the stream, with that code */
    CLOSE, /* the connection */
};

struct act {
    enum act_kind kind;
    const char *text;
    size_t text_bytes;
};

#define TEXT(literal) (literal), sizeof(literal) - 1
#define GRPC          ":status: 200\ncontent-type: application/grpc"

struct server {
    int listener;
    unsigned port;
    pthread_t thread;
    const struct act *script;
    struct bytes received; /* bodies; read after the thread has ended */
};

/* Return false when the peer has gone. *stream is the request's. */
static bool read_frame(struct server *server, int connection, unsigned *stream)
{
    struct frame frame;
    if (!frame_read(connection, &frame))
        return false;
    if (frame.type == FRAME_SETTINGS && !(frame.flags & FRAME_ACK))
        frame_send(connection, FRAME_SETTINGS, FRAME_ACK, 0, NULL, 0);
    if (frame.type == FRAME_HEADERS)
        *stream = frame.stream;
    return frame.type != FRAME_DATA ||
           bytes_append(&server->received, frame.payload, frame.size_bytes) == 0;
}

static bool await(struct server *server, int connection, size_t size_bytes, unsigned *stream)
{
    while (server->received.size_bytes < size_bytes)
        if (!read_frame(server, connection, stream))
            return false;
    return true;
}

/* Returns false when the connection shall end. */
static bool play(struct server *server, int connection, const struct act *act, unsigned *stream)
{
    switch (act->kind) {
    case HEADERS:
        frame_send_headers(connection, 0, *stream, act->text);
        return true;
    case TRAILERS:
        frame_send_headers(connection, FRAME_END_STREAM, *stream, act->text);
        return true;
    case DATA:
        frame_send(connection, FRAME_DATA, 0, *stream, act->text, act->text_bytes);
        return true;
    case AWAIT:
        return await(server, connection, act->text_bytes, stream);
    case RESET:
        frame_send_number(connection, FRAME_RESET, *stream, (uint32_t)act->text_bytes);
        return true;
    default:
        return false;
    }
}

#define PING       "\0\0\0\0\4ping" /* begins every call */
#define PING_BYTES (sizeof(PING) - 1)

static void *serve(void *user)
{
    struct server *server = user;
    unsigned stream = 0;
    int connection = accept(server->listener, NULL, NULL);
    frame_send(connection, FRAME_SETTINGS, 0, 0, NULL, 0);
    bool goes_on = frame_read_preface(connection) && await(server, connection, PING_BYTES, &stream);
    for (const struct act *act = server->script; goes_on && act->kind != END; act++)
        goes_on = play(server, connection, act, &stream);
    while (goes_on)
        goes_on = read_frame(server, connection, &stream);
    close(connection);
    return NULL;
}

static void server_start(struct server *server, const struct act *script)
{
    *server = (struct server){.script = script};
    server->listener = listener_open(&server->port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct server *server)
{
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
}

/* ---- the call ---- */

struct exchange {
    bool done;
    struct grpc_call *call;
    int status;
    bool sent;
    enum grpc_code code;
    char text[GRPC_TEXT_SIZE];
    char messages[256]; /* with a blank behind each */
    const char *says;   /* sent when the first message comes */
    bool cancels;       /* then */
};

static void append(struct exchange *exchange, const uint8_t *message, size_t message_bytes)
{
    size_t length = strlen(exchange->messages);
    snprintf(exchange->messages + length, sizeof(exchange->messages) - length, "%.*s ",
             (int)message_bytes, (const char *)message);
}

static void message_came(void *context, const uint8_t *message, size_t message_bytes)
{
    struct exchange *exchange = context;
    append(exchange, message, message_bytes);
    if (exchange->says) {
        assert_int_equal(grpc_send(exchange->call, exchange->says, strlen(exchange->says)), 0);
        exchange->says = NULL;
    }
    if (exchange->cancels) {
        grpc_cancel(exchange->call);
        exchange->done = true;
    }
}

static void finished(void *context, const struct grpc_answer *answer)
{
    struct exchange *exchange = context;
    assert_false(exchange->done);
    exchange->done = true;
    exchange->status = answer->status;
    exchange->sent = answer->sent;
    exchange->code = answer->code;
    snprintf(exchange->text, sizeof(exchange->text), "%s", answer->text);
    if (answer->message)
        append(exchange, answer->message, answer->message_bytes);
}

/* Make one call. @received: NULL, or gets the bytes that the server received. */
static void make_call(const struct act *script, bool stream, struct exchange *exchange,
                      struct bytes *received)
{
    struct server server;
    struct http2_client *http;
    char url[80];
    const char *const metadata[] = {"hasleader: true", NULL};
    struct poll_loop *loop = poll_loop_new();
    assert_non_null(loop);
    server_start(&server, script);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/a.Service/Method", server.port);
    const struct grpc_order order = {.url = url,
                                     .metadata = metadata,
                                     .message = "ping",
                                     .message_bytes = 4,
                                     .timeout_ns = stream ? 0 : WAIT_NS,
                                     .message_bytes_max = stream ? STREAMED_MAX : MESSAGE_MAX};
    assert_int_equal(
        http2_client_new(poll_loop_table(loop), &(struct byte_stream_security){0}, &http), 0);
    assert_int_equal(
        grpc_start(http, &order, stream ? message_came : NULL, finished, exchange, &exchange->call),
        0);
    assert_int_equal(poll_loop_run(loop, &exchange->done, clock_monotonic_ns() + WAIT_NS), 0);
    http2_client_free(http);
    server_stop(&server);
    poll_loop_free(loop);
    assert_memory_equal(server.received.data, PING, PING_BYTES);
    if (received != NULL)
        *received = server.received;
    else
        bytes_done(&server.received);
}

/* ---- one message for one ---- */

struct expectation {
    const char *what;
    struct act script[ACTS_MAX];
    int status;
    enum grpc_code code;
    const char *text;     /* NULL: any */
    const char *messages; /* NULL: none */
};

static void check_all(const struct expectation *expectations, size_t count, bool stream)
{
    for (size_t i = 0; i < count; i++) {
        const struct expectation *want = &expectations[i];
        const char *messages = want->messages ? want->messages : "";
        struct exchange got = {.says = stream ? "how" : NULL};
        make_call(want->script, stream, &got, NULL);
        if (got.status != want->status || got.code != want->code ||
            !(got.sent || got.status == 0) || (want->text && strcmp(got.text, want->text) != 0) ||
            strcmp(got.messages, messages) != 0)
            fail_msg("%s: status %d, %s, code %d, \"%s\", messages \"%s\"", want->what, got.status,
                     got.sent ? "sent" : "not sent", (int)got.code, got.text, got.messages);
    }
}

static void test_answers(void **state)
{
    (void)state;
    static const struct expectation expectations[] = {
        {.what = "an answer",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\4pong")},
                    {TRAILERS, TEXT("grpc-status: 0")}},
         .messages = "pong "},
        {.what = "in pieces",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0")},
                    {DATA, TEXT("\0\4po")},
                    {DATA, TEXT("ng")},
                    {TRAILERS, TEXT("grpc-status: 0\ngrpc-message: fine")}},
         .messages = "pong "},
        {.what = "an empty message",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\0")},
                    {TRAILERS, TEXT("grpc-status: 0")}},
         .messages = " "},
        {.what = "a refusal in the trailers",
         .script = {{HEADERS, TEXT(GRPC)},
                    {TRAILERS, TEXT("grpc-status: 5\ngrpc-message: no such lease")}},
         .code = GRPC_NOT_FOUND,
         .text = "no such lease"},
        {.what = "trailers alone",
         .script = {{TRAILERS, TEXT(GRPC "\ngrpc-status: 14\ngrpc-message: no leader")}},
         .code = GRPC_UNAVAILABLE,
         .text = "no leader"},
        {.what = "a coded text",
         .script = {{TRAILERS,
                     TEXT(GRPC "\ngrpc-status: 2\ngrpc-message: 100%25%20of %c3%a4, %zz %4 %")}},
         .code = GRPC_UNKNOWN,
         .text = "100% of \xc3\xa4, %zz %4 %"},
        {.what = "a refusal without words",
         .script = {{TRAILERS, TEXT(GRPC "\ngrpc-status: 7")}},
         .code = GRPC_PERMISSION_DENIED,
         .text = ""},
    };
    check_all(expectations, ARRAY_COUNT(expectations), false);
}

static void test_broken_answers(void **state)
{
    (void)state;
    static const struct expectation expectations[] = {
        {.what = "a message that is cut",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\5pong")},
                    {TRAILERS, TEXT("grpc-status: 0")}},
         .status = -EPROTO},
        {.what = "a prefix that is cut",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0")},
                    {TRAILERS, TEXT("grpc-status: 0")}},
         .status = -EPROTO},
        {.what = "no message",
         .script = {{HEADERS, TEXT(GRPC)}, {TRAILERS, TEXT("grpc-status: 0")}},
         .status = -EPROTO},
        {.what = "two messages",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\1a\0\0\0\0\1b")},
                    {TRAILERS, TEXT("grpc-status: 0")}},
         .status = -EPROTO},
        {.what = "compressed, which nobody asked for",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\1\0\0\0\4pong")},
                    {TRAILERS, TEXT("grpc-status: 0")}},
         .status = -EPROTO},
        {.what = "a message that says it is too long",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\x11pong")},
                    {TRAILERS, TEXT("grpc-status: 0")}},
         .status = -EFBIG},
        {.what = "one that is",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\x11seventeen letters")},
                    {TRAILERS, TEXT("grpc-status: 0")}},
         .status = -EFBIG},
        {.what = "no word of what became of it",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\4pong")},
                    {TRAILERS, TEXT("x: y")}},
         .status = -ECONNRESET,
         .text = "the answer broke off"},
        {.what = "a proxy's failure",
         .script = {{TRAILERS, TEXT(":status: 503\ncontent-type: text/plain")}},
         .code = GRPC_UNAVAILABLE,
         .text = "it answers with HTTP 503"},
        {.what = "no such path",
         .script = {{TRAILERS, TEXT(":status: 404")}},
         .code = GRPC_UNIMPLEMENTED,
         .text = "it answers with HTTP 404"},
        {.what = "a web page",
         .script = {{HEADERS, TEXT(":status: 200\ncontent-type: text/html")},
                    {DATA, TEXT("<html>")},
                    {TRAILERS, TEXT("x: y")}},
         .status = -EPROTO,
         .text = "what answers there does not speak gRPC"},
    };
    check_all(expectations, ARRAY_COUNT(expectations), false);
}

static void test_lost_connections(void **state)
{
    (void)state;
    static const struct expectation expectations[] = {
        {.what = "closed before the answer", .script = {{.kind = CLOSE}}, .status = -ECONNRESET},
        {.what = "closed behind the headers",
         .script = {{HEADERS, TEXT(GRPC)}, {.kind = CLOSE}},
         .status = -ECONNRESET},
        {.what = "closed within the message",
         .script = {{HEADERS, TEXT(GRPC)}, {DATA, TEXT("\0\0\0\0\4po")}, {.kind = CLOSE}},
         .status = -ECONNRESET},
        {.what = "closed where the trailers were due",
         .script = {{HEADERS, TEXT(GRPC)}, {DATA, TEXT("\0\0\0\0\4pong")}, {.kind = CLOSE}},
         .status = -ECONNRESET},
        {.what = "the call alone is ended",
         .script = {{HEADERS, TEXT(GRPC)}, {RESET, NULL, FRAME_INTERNAL_ERROR}},
         .status = -ECONNRESET},
    };
    check_all(expectations, ARRAY_COUNT(expectations), false);
}

/* ---- streams ---- */

/*
 * A closing connection may lose the data sent just before. So the script waits for a frame of the
 * client, which proves that the first message was delivered.
 */
#define HEARD                                                                                      \
    {                                                                                              \
        AWAIT, NULL, PING_BYTES + 5 + 3                                                            \
    }
static void test_streams(void **state)
{
    (void)state;
    static const struct expectation expectations[] = {
        {.what = "messages however they are cut",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\1a\0\0\0\0\2bc\0")},
                    {DATA, TEXT("\0\0\0")},
                    {DATA, TEXT("\3d")},
                    {DATA, TEXT("ef\0\0\0\0\0")},
                    {TRAILERS, TEXT("grpc-status: 0")},
                    {RESET, NULL, FRAME_NO_ERROR}},
         .messages = "a bc def  "},
        {.what = "a stream that the server ends",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\1a")},
                    {TRAILERS, TEXT("grpc-status: 14\ngrpc-message: going%20away")},
                    {RESET, NULL, FRAME_NO_ERROR}},
         .code = GRPC_UNAVAILABLE,
         .text = "going away",
         .messages = "a "},
        {.what = "lost within a message",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\1a\0\0\0\0\4b")},
                    HEARD,
                    {.kind = CLOSE}},
         .status = -ECONNRESET,
         .messages = "a "},
        {.what = "reset between two messages",
         .script = {{HEADERS, TEXT(GRPC)},
                    {DATA, TEXT("\0\0\0\0\1a")},
                    {RESET, NULL, FRAME_INTERNAL_ERROR}},
         .status = -ECONNRESET,
         .messages = "a "},
        {.what = "a message that is too long",
         .script = {{HEADERS, TEXT(GRPC)}, {DATA, TEXT("\0\0\0\0\1a\0\0\0\0\x41")}},
         .status = -EFBIG,
         .text = "a message is too large",
         .messages = "a "},
        {.what = "a compressed one",
         .script = {{HEADERS, TEXT(GRPC)}, {DATA, TEXT("\0\0\0\0\1a\1\0\0\0\1b")}},
         .status = -EPROTO,
         .text = "a message is malformed",
         .messages = "a "},
    };
    check_all(expectations, ARRAY_COUNT(expectations), true);
}

static void test_a_stream_is_spoken_to(void **state)
{
    (void)state;
    static const struct act script[] = {{HEADERS, TEXT(GRPC)},
                                        {DATA, TEXT("\0\0\0\0\1a")},
                                        HEARD,
                                        {DATA, TEXT("\0\0\0\0\1b")},
                                        {TRAILERS, TEXT("grpc-status: 0")},
                                        {RESET, NULL, FRAME_NO_ERROR},
                                        {0}};
    struct exchange got = {.says = "how"};
    struct bytes received CLEANUP(bytes_done) = {0};
    make_call(script, true, &got, &received);
    assert_int_equal(got.status, 0);
    assert_string_equal(got.messages, "a b ");
    assert_int_equal(received.size_bytes, PING_BYTES + 8);
    assert_memory_equal(received.data + PING_BYTES, "\0\0\0\0\3how", 8);
}

/* Messages that came together with the canceling message are not delivered any more. */
static void test_a_stream_is_canceled_by_its_message(void **state)
{
    (void)state;
    static const struct act script[] = {
        {HEADERS, TEXT(GRPC)}, {DATA, TEXT("\0\0\0\0\1a\0\0\0\0\1b")}, {0}};
    struct exchange got = {.cancels = true};
    make_call(script, true, &got, NULL);
    assert_string_equal(got.messages, "a ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_broken_answers),
        cmocka_unit_test(test_lost_connections),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_a_stream_is_spoken_to),
        cmocka_unit_test(test_a_stream_is_canceled_by_its_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
