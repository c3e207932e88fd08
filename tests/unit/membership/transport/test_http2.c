/*
 * Requests to a server that sends HTTP/2 frames from a script: many requests share a connection. A
 * failure of one request ends that request alone; a failure of the connection ends its requests and
 * no others.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "lib/membership/frames.h"
#include "lib/membership/http2_server.h"
#include "lib/membership/listener.h"
#include "membership/transport/http2.h"
#include "membership/transport/poll_loop.h"

#define WAIT_NS      (10 * NS_PER_SECOND)
#define SHORT_NS     (250 * NS_PER_MS) /* for a timeout that is waited for; a stall is shorter */
#define REQUESTS_MAX 4
#define ANSWER_MAX   (64u << 20)

/* ---- the client ---- */

struct exchange {
    struct test *test;
    struct http2_request *request;
    bool heard, done;
    int status, code;
    bool sent;
    size_t body_bytes;
    char body[32], data[32], end[8];
    struct exchange *cancels; /* when data come, or at its end */
};

struct test {
    struct server server;
    struct poll_loop *loop;
    struct http2_client *client;
    char url[64];
};

static void start_test(struct test *test, const struct act *script)
{
    *test = (struct test){.server = {.script = script}, .loop = poll_loop_new()};
    assert_int_equal(sem_init(&test->server.hung_up, 0, 0), 0);
    test->server.listener = listener_open(&test->server.port);
    assert_int_equal(pthread_create(&test->server.thread, NULL, http2_server_run, &test->server),
                     0);
    snprintf(test->url, sizeof(test->url), "http://127.0.0.1:%u/x", test->server.port);
    assert_int_equal(http2_client_new(poll_loop_table(test->loop),
                                      &(struct byte_stream_security){0}, &test->client),
                     0);
}

static void end_test(struct test *test)
{
    http2_client_free(test->client);
    shutdown(test->server.listener, SHUT_RDWR);
    pthread_join(test->server.thread, NULL);
    close(test->server.listener);
    poll_loop_free(test->loop);
}

static void cancel(struct exchange *exchange)
{
    http2_cancel(exchange->request);
    exchange->done = true;
}

static void finished(void *context, const struct http2_answer *answer)
{
    struct exchange *exchange = context;
    const char *end = http2_answer_header(exchange->request, "x-end");
    assert_false(exchange->done);
    exchange->done = true;
    exchange->status = answer->status;
    exchange->code = answer->code;
    exchange->sent = answer->sent;
    exchange->body_bytes = answer->body_bytes;
    snprintf(exchange->body, sizeof(exchange->body), "%.*s", (int)MIN(answer->body_bytes, 31u),
             answer->body_bytes > 0 ? (const char *)answer->body : "");
    snprintf(exchange->end, sizeof(exchange->end), "%s", end ? end : "");
    assert_non_null(answer->text);
    assert_true(answer->status == 0 || answer->text[0] != '\0');
    if (exchange->cancels)
        cancel(exchange->cancels);
}

static void data_came(void *context, const uint8_t *data, size_t size_bytes)
{
    struct exchange *exchange = context;
    size_t length = strlen(exchange->data);
    exchange->heard = true;
    snprintf(exchange->data + length, sizeof(exchange->data) - length, "%.*s", (int)size_bytes,
             (const char *)data);
    if (exchange->cancels)
        cancel(exchange->cancels);
}

static struct http2_order order_of(const struct test *test, uint64_t timeout_ns)
{
    static const char *const headers[] = {"content-type: text/plain", NULL};
    return (struct http2_order){.url = test->url,
                                .headers = headers,
                                .body = "ping",
                                .body_bytes = 4,
                                .timeout_ns = timeout_ns,
                                .answer_bytes_max = ANSWER_MAX};
}

static void ask(struct test *test, struct exchange *exchange, uint64_t timeout_ns)
{
    const struct http2_order order = order_of(test, timeout_ns);
    assert_int_equal(
        http2_start(test->client, &order, NULL, finished, exchange, &exchange->request), 0);
    assert_false(exchange->done);
}

static void open_stream(struct test *test, struct exchange *exchange)
{
    struct http2_order order = order_of(test, 0);
    order.open_ended = true;
    assert_int_equal(
        http2_start(test->client, &order, data_came, finished, exchange, &exchange->request), 0);
}

static void wait_for(struct test *test, const struct exchange *exchange)
{
    assert_int_equal(poll_loop_run(test->loop, &exchange->done, clock_monotonic_ns() + WAIT_NS), 0);
}

static void expect_answer(struct test *test, const struct exchange *exchange, const char *body)
{
    wait_for(test, exchange);
    assert_int_equal(exchange->status, 0);
    assert_int_equal(exchange->code, 200);
    assert_string_equal(exchange->body, body);
    assert_string_equal(exchange->end, "yes");
}

static void expect_failure(struct test *test, const struct exchange *exchange, int status,
                           bool sent)
{
    wait_for(test, exchange);
    assert_int_equal(exchange->status, status);
    assert_int_equal(exchange->sent, sent);
}

/* ---- requests that share a connection ---- */

static void test_answers_come_in_any_order(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 3},
                                        {ANSWER, .which = 2},
                                        {ANSWER, .which = 3},
                                        {ANSWER, .which = 1},
                                        {0}};
    struct test test;
    struct exchange exchanges[3] = {0};
    start_test(&test, script);
    for (size_t i = 0; i < 3; i++)
        ask(&test, &exchanges[i], WAIT_NS);
    expect_answer(&test, &exchanges[0], "1");
    expect_answer(&test, &exchanges[1], "2");
    expect_answer(&test, &exchanges[2], "3");
    end_test(&test);
    assert_int_equal(test.server.connections, 1);
    assert_int_equal(test.server.body_bytes, 12);
}

static void test_a_stream_that_stalls_holds_nobody_up(void **state)
{
    (void)state;
    static const struct act script[] = {
        {BYTES, .number = 4},    {HEADERS, .which = 1}, {PIECE, .which = 1, .text = "half"},
        {REQUESTS, .number = 1}, {ANSWER, .which = 2},  {0}};
    struct test test;
    struct exchange stream = {0}, request = {0};
    start_test(&test, script);
    open_stream(&test, &stream);
    ask(&test, &request, WAIT_NS);
    expect_answer(&test, &request, "2");
    assert_string_equal(stream.data, "half");
    assert_false(stream.done);
    end_test(&test);
    assert_int_equal(test.server.connections, 1);
}

static void test_more_than_the_server_takes_at_once(void **state)
{
    (void)state;
    static const struct act script[] = {{LIMIT, .number = 1}, {REQUESTS, .number = 1},
                                        {ANSWER, .which = 1}, {REQUESTS, .number = 2},
                                        {ANSWER, .which = 2}, {REQUESTS, .number = 3},
                                        {ANSWER, .which = 3}, {0}};
    struct test test;
    struct exchange first = {0}, second = {0}, third = {0};
    start_test(&test, script);
    ask(&test, &first, WAIT_NS);
    expect_answer(&test, &first, "1"); /* with this its limit is known */
    ask(&test, &second, WAIT_NS);
    ask(&test, &third, WAIT_NS);
    expect_answer(&test, &second, "2");
    expect_answer(&test, &third, "3");
    end_test(&test);
    assert_int_equal(test.server.connections, 1);
}

static void test_an_answer_larger_than_every_window(void **state)
{
    (void)state;
    static const struct act script[] = {
        {REQUESTS, .number = 2}, {GIANT, .which = 1, .number = 2100}, {ANSWER, .which = 2}, {0}};
    struct test test;
    struct exchange giant = {0}, small = {0};
    start_test(&test, script);
    ask(&test, &giant, WAIT_NS);
    ask(&test, &small, WAIT_NS);
    expect_answer(&test, &small, "2");
    wait_for(&test, &giant);
    assert_int_equal(giant.status, 0);
    assert_int_equal(giant.body_bytes, 2100u * FRAME_BYTES_MAX);
    end_test(&test);
}

static void test_a_request_larger_than_the_servers_windows(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 1}, {ANSWER, .which = 1}, {0}};
    static const uint8_t body[300000];
    struct test test;
    struct exchange exchange = {0};
    start_test(&test, script);
    struct http2_order order = order_of(&test, WAIT_NS);
    order.body = body;
    order.body_bytes = sizeof(body);
    assert_int_equal(http2_start(test.client, &order, NULL, finished, &exchange, &exchange.request),
                     0);
    expect_answer(&test, &exchange, "1");
    end_test(&test);
    assert_int_equal(test.server.body_bytes, sizeof(body));
}

static void test_an_answer_over_its_bound(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 2},
                                        {HEADERS, .which = 1},
                                        {PIECE, .which = 1, .text = "four+"},
                                        {ANSWER, .which = 2},
                                        {0}};
    struct test test;
    struct exchange large = {0}, other = {0};
    start_test(&test, script);
    struct http2_order order = order_of(&test, WAIT_NS);
    order.answer_bytes_max = 4;
    assert_int_equal(http2_start(test.client, &order, NULL, finished, &large, &large.request), 0);
    ask(&test, &other, WAIT_NS);
    expect_failure(&test, &large, -EFBIG, true);
    expect_answer(&test, &other, "2");
    end_test(&test);
}

/* A lone PING is answered after a while, and at once when a second one comes. */
static void test_pings_of_the_server(void **state)
{
    (void)state;
    static const struct act script[] = {
        {REQUESTS, .number = 1}, {ASK, .number = 1},   {ASK, .number = 2},
        {PONGS, .number = 1},    {ANSWER, .which = 1}, {REQUESTS, .number = 2},
        {PONGS, .number = 2},    {ANSWER, .which = 2}, {0}};
    struct test test;
    struct exchange first = {0}, second = {0};
    start_test(&test, script);
    ask(&test, &first, WAIT_NS);
    expect_answer(&test, &first, "1");
    ask(&test, &second, WAIT_NS);
    expect_answer(&test, &second, "2");
    end_test(&test);
}

/* ---- failures of one request ---- */

static void test_resets_end_one_request(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 3},
                                        {RESET, .which = 1, .number = FRAME_INTERNAL_ERROR},
                                        {RESET, .which = 2, .number = FRAME_REFUSED},
                                        {ANSWER, .which = 3},
                                        {0}};
    struct test test;
    struct exchange broken = {0}, refused = {0}, answered = {0};
    start_test(&test, script);
    ask(&test, &broken, WAIT_NS);
    ask(&test, &refused, WAIT_NS);
    ask(&test, &answered, WAIT_NS);
    expect_failure(&test, &broken, -ECONNRESET, true);
    expect_failure(&test, &refused, -ECONNRESET, false);
    expect_answer(&test, &answered, "3");
    end_test(&test);
    assert_int_equal(test.server.connections, 1);
}

static void test_a_late_answer_costs_no_connection(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 1}, {PINGS, .number = 1},
                                        {RESETS, .number = 1}, /* the request is given up */
                                        {ANSWER, .which = 1},    {REQUESTS, .number = 2},
                                        {ANSWER, .which = 2},    {0}};
    struct test test;
    struct exchange late = {0}, next = {0};
    start_test(&test, script);
    ask(&test, &late, SHORT_NS);
    expect_failure(&test, &late, -ETIMEDOUT, true);
    ask(&test, &next, WAIT_NS);
    expect_answer(&test, &next, "2");
    end_test(&test);
    assert_int_equal(test.server.connections, 1);
}

/* etcd hangs up on clients that ping too often. */
static void test_a_slow_server_is_not_pinged_to_death(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 6}, {RESETS, .number = 6}, {0}};
    struct test test;
    start_test(&test, script);
    for (unsigned i = 0; i < 6; i++) {
        struct exchange late = {0};
        ask(&test, &late, SHORT_NS);
        expect_failure(&test, &late, -ETIMEDOUT, true);
    }
    end_test(&test);
    assert_int_equal(test.server.connections, 1);
    assert_int_equal(test.server.pings, 2);
}

static void test_cancelling_others_from_callbacks(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 2},
                                        {HEADERS, .which = 1},
                                        {PIECE, .which = 1, .text = "a"},
                                        {ANSWER, .which = 2},
                                        {ANSWER, .which = 3},
                                        {RESETS, .number = 1},
                                        {0}};
    struct test test;
    struct exchange stream = {0}, first = {0}, second = {0};
    start_test(&test, script);
    open_stream(&test, &stream);
    ask(&test, &first, WAIT_NS);
    ask(&test, &second, WAIT_NS);
    stream.cancels = &stream;
    first.cancels = &second; /* its answer comes in the same piece */
    wait_for(&test, &first);
    assert_true(second.done);
    assert_string_equal(second.body, "");
    assert_true(stream.done);
    end_test(&test);
}

/* ---- failures of a connection ---- */

static void test_a_server_that_goes_away(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 2},
                                        {GO_AWAY, .which = 1},
                                        {ANSWER, .which = 1},
                                        {.kind = HANG_UP},
                                        {REQUESTS, .number = 1},
                                        {ANSWER, .which = 1},
                                        {0}};
    struct test test;
    struct exchange first = {0}, refused = {0}, next = {0};
    start_test(&test, script);
    ask(&test, &first, WAIT_NS);
    ask(&test, &refused, WAIT_NS);
    expect_failure(&test, &refused, -ECONNRESET, false);
    ask(&test, &next, WAIT_NS);
    expect_answer(&test, &first, "1");
    expect_answer(&test, &next, "1");
    end_test(&test);
    assert_int_equal(test.server.connections, 2);
}

/* A request that waits for a free stream is ended, for it would get no stream while the others
 * run. */
static void test_a_full_server_that_goes_away(void **state)
{
    (void)state;
    static const struct act script[] = {{LIMIT, .number = 1},
                                        {BYTES, .number = 4},
                                        {HEADERS, .which = 1},
                                        {PIECE, .which = 1, .text = "a"},
                                        {BYTES, .number = 8},
                                        {GO_AWAY, .which = 1},
                                        {RESETS, .number = 1},
                                        {.kind = HANG_UP},
                                        {REQUESTS, .number = 1},
                                        {ANSWER, .which = 1},
                                        {0}};
    struct test test;
    struct exchange stream = {0}, waits = {0}, next = {0};
    start_test(&test, script);
    open_stream(&test, &stream);
    assert_int_equal(poll_loop_run(test.loop, &stream.heard, clock_monotonic_ns() + WAIT_NS), 0);
    ask(&test, &waits, WAIT_NS);
    assert_int_equal(http2_send(stream.request, "pong", 4), 0);
    expect_failure(&test, &waits, -ECONNRESET, false);
    assert_false(stream.done);
    cancel(&stream);
    ask(&test, &next, WAIT_NS);
    expect_answer(&test, &next, "1");
    end_test(&test);
    assert_int_equal(test.server.connections, 2);
}

static void test_a_server_that_falls_silent(void **state)
{
    (void)state;
    static const struct act script[] = {
        {.kind = MUTE},        {BYTES, .number = 4},
        {HEADERS, .which = 1}, {REQUESTS, .number = 1},
        {RESETS, .number = 1}, {REQUESTS, .number = 2}, /* which do not come */
        {.kind = HANG_UP},     {REQUESTS, .number = 1},
        {ANSWER, .which = 1},  {0}};
    struct test test;
    struct exchange stream = {0}, late = {0}, next = {0};
    start_test(&test, script);
    open_stream(&test, &stream);
    struct http2_order order = order_of(&test, 100 * WAIT_NS); /* no reason to wait that long */
    order.silence_ns = SHORT_NS;
    assert_int_equal(http2_start(test.client, &order, NULL, finished, &late, &late.request), 0);
    expect_failure(&test, &late, -EHOSTUNREACH, true);
    assert_true(stream.done); /* no later */
    assert_int_equal(stream.status, -EHOSTUNREACH);
    ask(&test, &next, WAIT_NS);
    expect_answer(&test, &next, "1");
    end_test(&test);
    assert_int_equal(test.server.connections, 2);
}

/* Nothing is sent to it, so all of that can go elsewhere; the connection may get there yet. */
static void test_a_server_that_does_not_greet(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 1}, {ANSWER, .which = 2}, {0}};
    struct test test = {.server = {.script = script}, .loop = poll_loop_new()};
    struct exchange moves = {0}, stays = {0}, late = {0};
    test.server.listener = listener_open(&test.server.port);
    assert_int_equal(sem_init(&test.server.hung_up, 0, 0), 0);
    snprintf(test.url, sizeof(test.url), "http://127.0.0.1:%u/x", test.server.port);
    const struct byte_stream_security none = {0};
    assert_int_equal(http2_client_new(poll_loop_table(test.loop), &none, &test.client), 0);
    struct http2_order order = order_of(&test, WAIT_NS);
    order.reach_ns = SHORT_NS;
    assert_int_equal(http2_start(test.client, &order, NULL, finished, &moves, &moves.request), 0);
    expect_failure(&test, &moves, -ETIMEDOUT, false);
    ask(&test, &stays, WAIT_NS);
    assert_int_equal(pthread_create(&test.server.thread, NULL, http2_server_run, &test.server), 0);
    expect_answer(&test, &stays, "2");
    ask(&test, &late, SHORT_NS); /* the script is over */
    expect_failure(&test, &late, -ETIMEDOUT, true);
    end_test(&test);
    assert_int_equal(test.server.connections, 1);
}

static void test_a_server_that_never_greets(void **state)
{
    (void)state;
    struct test test = {.loop = poll_loop_new()};
    struct exchange exchange = {0};
    test.server.listener = listener_open(&test.server.port);
    snprintf(test.url, sizeof(test.url), "http://127.0.0.1:%u/x", test.server.port);
    const struct byte_stream_security none = {0};
    assert_int_equal(http2_client_new(poll_loop_table(test.loop), &none, &test.client), 0);
    ask(&test, &exchange, SHORT_NS);
    expect_failure(&test, &exchange, -EHOSTUNREACH, false);
    http2_client_free(test.client);
    close(test.server.listener);
    poll_loop_free(test.loop);
}

static void test_a_connection_that_is_closed(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 2},
                                        {.kind = HANG_UP},
                                        {REQUESTS, .number = 1},
                                        {ANSWER, .which = 1},
                                        {0}};
    struct test test;
    struct exchange first = {0}, second = {0}, next = {0};
    start_test(&test, script);
    ask(&test, &first, WAIT_NS);
    ask(&test, &second, WAIT_NS);
    expect_failure(&test, &first, -ECONNRESET, true);
    expect_failure(&test, &second, -ECONNRESET, true);
    ask(&test, &next, WAIT_NS);
    expect_answer(&test, &next, "1");
    end_test(&test);
    assert_int_equal(test.server.connections, 2);
}

/* A server answers and closes: the next write fails before the received data are read. */
static void test_an_answer_before_the_end(void **state)
{
    (void)state;
    static const struct act script[] = {{REQUESTS, .number = 1}, {ANSWER, .which = 1},
                                        {REQUESTS, .number = 2}, {ANSWER, .which = 2},
                                        {.kind = HANG_UP},       {0}};
    struct test test;
    struct exchange first = {0}, answered = {0}, late[2] = {0};
    start_test(&test, script);
    ask(&test, &first, WAIT_NS);
    expect_answer(&test, &first, "1");
    ask(&test, &answered, WAIT_NS);
    assert_int_equal(sem_wait(&test.server.hung_up), 0);
    ask(&test, &late[0], WAIT_NS); /* the server's system refuses with a reset */
    ask(&test, &late[1], WAIT_NS);
    expect_answer(&test, &answered, "2");
    expect_failure(&test, &late[0], -ECONNRESET, true);
    expect_failure(&test, &late[1], -ECONNRESET, true);
    end_test(&test);
}

static void test_what_is_not_http2(void **state)
{
    (void)state;
#define TEXT(literal) .number = sizeof(literal) - 1, .text = (literal)
#define NO_SETTINGS   "\0\0\0\4\0\0\0\0\0"
    static const struct act scripts[][3] = {
        {{RAW, TEXT("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")}, {0}},
        {{RAW, TEXT("SSH-2.0-OpenSSH_9.2\r\n")}, {0}},
        {{RAW, TEXT("\0\0\1\0\0\0\0\0\1x")}, {0}},                     /* no settings */
        {{RAW, TEXT(NO_SETTINGS "\0\0\1\0\0\0\0\0\0x")}, {0}},         /* data of no stream */
        {{RAW, TEXT(NO_SETTINGS "\xff\xff\xff\0\0\0\0\0\1")}, {0}},    /* a giant frame */
        {{RAW, TEXT(NO_SETTINGS "\0\0\1\1\4\0\0\0\1\x80")}, {0}},      /* no such header */
        {{RAW, TEXT(NO_SETTINGS "\0\0\4\x8\0\0\0\0\0\0\0\0\0")}, {0}}, /* no window */
        {{RAW, TEXT(NO_SETTINGS "\0\0\1\0\0\0\0\0\1x")}, {0}},         /* data come first */
    };
    for (size_t i = 0; i < ARRAY_COUNT(scripts); i++) {
        struct test test;
        struct exchange exchange = {0};
        start_test(&test, scripts[i]);
        ask(&test, &exchange, WAIT_NS);
        wait_for(&test, &exchange);
        if (exchange.status != -EPROTO)
            fail_msg("script %zu: %d", i, exchange.status);
        end_test(&test);
    }
}

static void test_nobody_listens(void **state)
{
    (void)state;
    struct test test;
    struct exchange first = {0}, second = {0};
    start_test(&test, (const struct act[]){{0}});
    shutdown(test.server.listener, SHUT_RDWR);
    pthread_join(test.server.thread, NULL);
    close(test.server.listener);
    ask(&test, &first, WAIT_NS);
    ask(&test, &second, WAIT_NS);
    expect_failure(&test, &first, -ECONNREFUSED, false);
    expect_failure(&test, &second, -ECONNREFUSED, false);
    http2_client_free(test.client);
    poll_loop_free(test.loop);
}

static void test_urls_that_are_none(void **state)
{
    (void)state;
    static const char *const urls[] = {"", "x", "http://", "http://host", "http:///x"};
    struct test test;
    struct exchange exchange = {0};
    start_test(&test, (const struct act[]){{0}});
    struct http2_order order = order_of(&test, WAIT_NS);
    for (size_t i = 0; i < ARRAY_COUNT(urls); i++) {
        order.url = urls[i];
        assert_int_equal(
            http2_start(test.client, &order, NULL, finished, &exchange, &exchange.request),
            -EINVAL);
    }
    end_test(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_come_in_any_order),
        cmocka_unit_test(test_a_stream_that_stalls_holds_nobody_up),
        cmocka_unit_test(test_more_than_the_server_takes_at_once),
        cmocka_unit_test(test_an_answer_larger_than_every_window),
        cmocka_unit_test(test_a_request_larger_than_the_servers_windows),
        cmocka_unit_test(test_an_answer_over_its_bound),
        cmocka_unit_test(test_pings_of_the_server),
        cmocka_unit_test(test_resets_end_one_request),
        cmocka_unit_test(test_a_late_answer_costs_no_connection),
        cmocka_unit_test(test_a_slow_server_is_not_pinged_to_death),
        cmocka_unit_test(test_cancelling_others_from_callbacks),
        cmocka_unit_test(test_a_server_that_goes_away),
        cmocka_unit_test(test_a_full_server_that_goes_away),
        cmocka_unit_test(test_a_server_that_falls_silent),
        cmocka_unit_test(test_a_server_that_does_not_greet),
        cmocka_unit_test(test_a_server_that_never_greets),
        cmocka_unit_test(test_a_connection_that_is_closed),
        cmocka_unit_test(test_an_answer_before_the_end),
        cmocka_unit_test(test_what_is_not_http2),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_urls_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
