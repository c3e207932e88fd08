/* Requests against a server that answers from a script: whole and streamed answers, and every way
 * to fail. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "lib/membership/listener.h"
#include "membership/transport/http.h"
#include "membership/transport/poll_loop.h"

#define WAIT_NS   (10 * NS_PER_SECOND)
#define LINES_MAX 4

/* One connection: one line of the script for each request, NULL ends it; "" answers nothing and
 * closes. */
struct script {
    const char *connections[2][LINES_MAX];
    bool hang; /* the last connection stays open after its script */
};

struct server {
    int listener;
    unsigned port;
    pthread_t thread;
    const struct script *script;
    unsigned requests; /* read after the thread has ended */
    char last[1024];
};

static bool read_request(struct server *server, int connection)
{
    size_t length = 0;
    for (;;) {
        ssize_t n = recv(connection, server->last + length, sizeof(server->last) - 1 - length, 0);
        if (n <= 0)
            return false;
        length += (size_t)n;
        server->last[length] = '\0';
        const char *body = strstr(server->last, "\r\n\r\n");
        /* Our bodies are "ping": with its last byte the request is whole. */
        if (body && (strncmp(server->last, "POST", 4) != 0 || strstr(body, "ping")))
            return true;
    }
}

static void *serve(void *user)
{
    struct server *server = user;
    for (size_t i = 0; i < 2 && server->script->connections[i][0]; i++) {
        int connection = accept(server->listener, NULL, NULL);
        const char *const *line = server->script->connections[i];
        for (; connection >= 0 && *line && read_request(server, connection); line++) {
            server->requests++;
            if (send(connection, *line, strlen(*line), MSG_NOSIGNAL) <= 0)
                break;
        }
        while (server->script->hang && read_request(server, connection))
            server->requests++;
        if (connection >= 0)
            close(connection);
    }
    return NULL;
}

static void server_start(struct server *server, const struct script *script)
{
    *server = (struct server){.script = script};
    server->listener = listener_open(&server->port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_stop(struct server *server)
{
    shutdown(server->listener, SHUT_RDWR); /* ends an accept() without a client */
    pthread_join(server->thread, NULL);
    close(server->listener);
}

struct exchange {
    bool done;
    unsigned pieces;
    int status;
    long code;
    char data[256], body[256];
    struct http_request *cancel; /* from inside the first piece */
};

static void data_came(void *context, const uint8_t *data, size_t size_bytes)
{
    struct exchange *exchange = context;
    size_t length = strlen(exchange->data);
    exchange->pieces++;
    snprintf(exchange->data + length, sizeof(exchange->data) - length, "%.*s", (int)size_bytes,
             (const char *)data);
    if (exchange->cancel) {
        http_cancel(exchange->cancel);
        exchange->done = true;
    }
}

static void finished(void *context, const struct http_answer *answer)
{
    struct exchange *exchange = context;
    assert_false(exchange->done);
    exchange->done = true;
    exchange->status = answer->status;
    exchange->code = answer->code;
    assert_non_null(answer->text);
    assert_int_equal(answer->body[answer->body_bytes], '\0');
    snprintf(exchange->body, sizeof(exchange->body), "%s", (const char *)answer->body);
}

struct client {
    struct poll_loop *loop;
    struct http_client *http;
    char url[64];
};

static void client_start(struct client *client, unsigned port)
{
    client->loop = poll_loop_new();
    snprintf(client->url, sizeof(client->url), "http://127.0.0.1:%u/x", port);
    assert_int_equal(http_client_new(poll_loop_table(client->loop), &client->http), 0);
}

static void client_stop(struct client *client)
{
    http_client_free(client->http);
    poll_loop_free(client->loop);
}

static void run(struct client *client, const struct exchange *exchange)
{
    assert_int_equal(poll_loop_run(client->loop, &exchange->done, clock_monotonic_ns() + WAIT_NS),
                     0);
}

static struct exchange post(struct client *client, bool once)
{
    struct exchange exchange = {0};
    struct http_request *request;
    const char *const headers[] = {"Authorization: t0ken", "X-Y: z", NULL};
    const struct http_order order = {.url = client->url,
                                     .headers = headers,
                                     .body = "ping",
                                     .body_bytes = 4,
                                     .once = once,
                                     .timeout_ns = WAIT_NS,
                                     .answer_bytes_max = 64};
    assert_int_equal(http_start(client->http, &order, NULL, finished, &exchange, &request), 0);
    run(client, &exchange);
    return exchange;
}

static struct exchange get(struct client *client, bool streamed, uint64_t timeout_ns)
{
    struct exchange exchange = {0};
    struct http_request *request;
    assert_int_equal(http_get(client->http, client->url, timeout_ns, streamed ? data_came : NULL,
                              finished, &exchange, &request),
                     0);
    assert_false(exchange.done);
    run(client, &exchange);
    return exchange;
}

#define OK_PONG "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong"

static void test_whole_answer(void **state)
{
    (void)state;
    const struct script script = {.connections = {{OK_PONG}}};
    struct server server;
    struct client client;
    server_start(&server, &script);
    client_start(&client, server.port);
    struct exchange exchange = post(&client, false);
    assert_int_equal(exchange.status, 0);
    assert_int_equal(exchange.code, 200);
    assert_string_equal(exchange.body, "pong");
    client_stop(&client);
    server_stop(&server);
    assert_non_null(strstr(server.last, "POST /x HTTP/1.1\r\n"));
    assert_non_null(strstr(server.last, "\r\nAuthorization: t0ken\r\n"));
    assert_non_null(strstr(server.last, "\r\nX-Y: z\r\n"));
    assert_non_null(strstr(server.last, "\r\n\r\nping"));
}

static void test_the_token_goes_with_every_request(void **state)
{
    (void)state;
    const struct script script = {.connections = {{OK_PONG}}};
    struct server server;
    struct client client;
    server_start(&server, &script);
    client_start(&client, server.port);
    http_client_set_token(client.http, "0123456789abcdef");
    struct exchange exchange = get(&client, false, WAIT_NS);
    assert_int_equal(exchange.code, 200);
    client_stop(&client);
    server_stop(&server);
    assert_non_null(strstr(server.last, "\r\nAuthorization: Bearer 0123456789abcdef\r\n"));
}

static void test_streamed_answer(void **state)
{
    (void)state;
    const struct script script = {
        .connections = {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "3\r\none\r\n5\r\n, two\r\n0\r\n\r\n"}}};
    struct server server;
    struct client client;
    server_start(&server, &script);
    client_start(&client, server.port);
    struct exchange exchange = get(&client, true, WAIT_NS);
    assert_int_equal(exchange.status, 0);
    assert_string_equal(exchange.data, "one, two");
    assert_string_equal(exchange.body, "");
    client_stop(&client);
    server_stop(&server);
}

static void test_stream_that_is_refused_gives_the_reason(void **state)
{
    (void)state;
    const struct script script = {
        .connections = {{"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone"}}};
    struct server server;
    struct client client;
    server_start(&server, &script);
    client_start(&client, server.port);
    struct exchange exchange = get(&client, true, WAIT_NS);
    assert_int_equal(exchange.code, 404);
    assert_int_equal(exchange.pieces, 0);
    assert_string_equal(exchange.body, "gone");
    client_stop(&client);
    server_stop(&server);
}

static void test_stream_that_breaks_off(void **state)
{
    (void)state;
    const struct script script = {
        .connections = {{"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nhalf of it"}}};
    struct server server;
    struct client client;
    server_start(&server, &script);
    client_start(&client, server.port);
    struct exchange exchange = get(&client, true, WAIT_NS);
    assert_int_equal(exchange.status, -ECONNRESET);
    assert_string_equal(exchange.data, "half of it");
    client_stop(&client);
    server_stop(&server);
}

static void test_cancel_from_inside_a_stream(void **state)
{
    (void)state;
    const struct script script = {
        .connections = {{"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nhalf of it"}}, .hang = true};
    struct server server;
    struct client client;
    struct exchange exchange = {0};
    server_start(&server, &script);
    client_start(&client, server.port);
    assert_int_equal(http_get(client.http, client.url, WAIT_NS, data_came, finished, &exchange,
                              &exchange.cancel),
                     0);
    run(&client, &exchange);
    assert_int_equal(exchange.pieces, 1);
    client_stop(&client);
    server_stop(&server);
}

static void test_failures(void **state)
{
    static const struct {
        struct script script;
        int status;
    } cases[] = {
        {{.connections = {{""}}}, -ECONNRESET},
        {{.connections = {{"SSH-2.0-OpenSSH_9.2\r\n"}}}, -EPROTO},
        {{.connections = {{"HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n0123456789012345678901234"
                           "5678901234567890123456789012345678901234"}}},
         -EFBIG},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct server server;
        struct client client;
        server_start(&server, &cases[i].script);
        client_start(&client, server.port);
        assert_int_equal(post(&client, true).status, cases[i].status);
        client_stop(&client);
        server_stop(&server);
    }
}

static void test_nobody_listens(void **state)
{
    (void)state;
    const struct script script = {.connections = {{NULL}}};
    struct server server;
    struct client client;
    server_start(&server, &script);
    server_stop(&server);
    client_start(&client, server.port);
    assert_int_equal(get(&client, false, WAIT_NS).status, -ECONNREFUSED);
    client_stop(&client);
}

static void test_silence_ends_at_the_deadline(void **state)
{
    (void)state;
    const struct script script = {.connections = {{"HTTP/1.1 200"}}, .hang = true};
    struct server server;
    struct client client;
    server_start(&server, &script);
    client_start(&client, server.port);
    assert_int_equal(get(&client, false, 50 * NS_PER_MS).status, -ETIMEDOUT);
    client_stop(&client);
    server_stop(&server);
}

/*
 * A kept connection that the server closes when the second request arrives: that request may have
 * been carried out. libcurl would send it again; `once` forbids it.
 */
static unsigned requests_seen(bool once, int *ret_status)
{
    const struct script script = {.connections = {{OK_PONG, ""}, {OK_PONG}}};
    struct server server;
    struct client client;
    server_start(&server, &script);
    client_start(&client, server.port);
    assert_int_equal(post(&client, once).status, 0);
    *ret_status = post(&client, once).status;
    client_stop(&client);
    server_stop(&server);
    return server.requests;
}

static void test_once_is_never_sent_twice(void **state)
{
    (void)state;
    int status;
    assert_int_equal(requests_seen(true, &status), 2);
    assert_int_equal(status, -ECONNRESET);
    assert_int_equal(requests_seen(false, &status), 3);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_answer),
        cmocka_unit_test(test_the_token_goes_with_every_request),
        cmocka_unit_test(test_streamed_answer),
        cmocka_unit_test(test_stream_that_is_refused_gives_the_reason),
        cmocka_unit_test(test_stream_that_breaks_off),
        cmocka_unit_test(test_cancel_from_inside_a_stream),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_silence_ends_at_the_deadline),
        cmocka_unit_test(test_once_is_never_sent_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
