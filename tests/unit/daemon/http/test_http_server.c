/*
 * Tests of firnd's HTTP over real sockets: incomplete requests block no client, foreign host names
 * are refused, and other threads serve files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "daemon/config/config.h"
#include "daemon/core/daemon.h"
#include "daemon/http/http_server.h"
#include "lib/elastic/trace_sample.h"

#define HALF_REQUESTS 420
#define TURNS_MAX     20000 /* at most a millisecond each */
#define TRIES_MAX     5000

struct node {
    struct config config;
    struct daemon daemon;
    struct sockaddr_in address;
    char answer[1 << 20];
    size_t answer_bytes;
};

/* Take a port that no program listens at. */
static void take_port(struct node *node)
{
    socklen_t size = sizeof(node->address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    node->address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(listener, (struct sockaddr *)&node->address, size), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&node->address, &size), 0);
    close(listener);
    snprintf(node->config.http, sizeof(node->config.http), "127.0.0.1:%u",
             ntohs(node->address.sin_port));
}

static int begin(void **state)
{
    struct node *node = calloc(1, sizeof(*node));
    struct error error = {0};

    assert_non_null(node);
    strcpy(node->config.data_dir, "/tmp/firn-http-XXXXXX");
    assert_non_null(mkdtemp(node->config.data_dir));
    strcpy(node->config.node, "node1");
    node->daemon.config = &node->config;
    assert_int_equal(event_loop_init(&node->daemon.loop), 0);
    take_port(node);
    assert_int_equal(http_server_start(&node->daemon, &node->daemon.http, &error), 0);
    *state = node;
    return 0;
}

static int end(void **state)
{
    struct node *node = *state;
    char command[CONFIG_TEXT_SIZE + 16];

    http_server_stop(node->daemon.http);
    event_loop_done(&node->daemon.loop);
    snprintf(command, sizeof(command), "rm -r %s", node->config.data_dir);
    assert_int_equal(system(command), 0);
    free(node);
    return 0;
}

static int dial(struct node *node, const char *request)
{
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(client >= 0);
    assert_int_equal(
        connect(client, (const struct sockaddr *)&node->address, sizeof(node->address)), 0);
    assert_int_equal(send(client, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    return client;
}

/* Let the server work until @client has its whole answer; close @client. */
static void hear(struct node *node, int client)
{
    node->answer_bytes = 0;
    for (unsigned turn = 0; turn < TURNS_MAX; turn++) {
        struct pollfd wait = {.fd = client, .events = POLLIN};
        assert_true(sd_event_run(node->daemon.loop.event, 1000) >= 0);
        if (poll(&wait, 1, 0) != 1)
            continue;
        ssize_t n = recv(client, node->answer + node->answer_bytes,
                         sizeof(node->answer) - 1 - node->answer_bytes, MSG_DONTWAIT);
        if (n <= 0)
            break;
        node->answer_bytes += (size_t)n;
    }
    node->answer[node->answer_bytes] = '\0';
    close(client);
}

static void ask(struct node *node, const char *path, const char *host)
{
    char request[512];

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
             path, host);
    hear(node, dial(node, request));
}

static void test_half_requests_keep_nobody_out(void **state)
{
    struct node *node = *state;
    int clients[HALF_REQUESTS];
    unsigned tries = 0;

    for (unsigned i = 0; i < HALF_REQUESTS; i++)
        clients[i] = dial(node, "GET /v1/node HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ");
    do /* the server waits a little before it closes idle connections */
        ask(node, "/metrics", "127.0.0.1");
    while (!memcmp(node->answer, "HTTP/1.1 503", 12) && ++tries < TRIES_MAX);
    assert_memory_equal(node->answer, "HTTP/1.1 200", 12);
    hear(node, clients[0]); /* the oldest was closed, without an answer */
    assert_int_equal(node->answer_bytes, 0);
    for (unsigned i = 1; i < HALF_REQUESTS; i++)
        close(clients[i]);
}

static void test_names_of_others_are_refused(void **state)
{
    struct node *node = *state;

    ask(node, "/v1/node", "evil.example.org");
    assert_memory_equal(node->answer, "HTTP/1.1 421", 12);
    assert_non_null(strstr(node->answer, "http_names"));
    assert_null(strstr(node->answer, "cluster"));
    ask(node, "/metrics", "node1:7580");
    assert_memory_equal(node->answer, "HTTP/1.1 200", 12);
}

static void test_a_file_is_read_and_sent(void **state)
{
    struct node *node = *state;
    char path[CONFIG_TEXT_SIZE + 64];
    static const char lines[] = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n";

    snprintf(path, sizeof(path), "%s/jobs/demo", node->config.data_dir);
    assert_int_equal(file_make_directories(path, 0755, NULL), 0);
    strcat(path, "/metrics.jsonl");
    assert_int_equal(file_replace(path, lines, strlen(lines), 0644, NULL), 0);
    ask(node, "/v1/jobs/demo/metrics?from=2", "127.0.0.1");
    assert_memory_equal(node->answer, "HTTP/1.1 200", 12);
    assert_null(strstr(node->answer, "{\"step\":1}"));
    assert_non_null(strstr(node->answer, "{\"step\":2}\n{\"step\":3}\n"));
    ask(node, "/v1/jobs/demo/events", "127.0.0.1");
    assert_memory_equal(node->answer, "HTTP/1.1 404", 12);
    assert_null(strstr(node->answer, node->config.data_dir)); /* the answer shows no path */
    ask(node, "/v1/jobs/demo/logs?slot=0&bytes=9", "127.0.0.1");
    assert_memory_equal(node->answer, "HTTP/1.1 404", 12);
}

/* A job of months: the file was rotated, and the older lines are in the previous file. */
static void test_lines_before_a_rotation_are_read_from_the_older_file(void **state)
{
    struct node *node = *state;
    char dir[CONFIG_TEXT_SIZE + 16], path[CONFIG_TEXT_SIZE + 64];
    static const char older[] = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n";
    static const char newer[] = "{\"step\":3}\n{\"step\":4}\n";

    snprintf(dir, sizeof(dir), "%s/jobs/demo", node->config.data_dir);
    assert_int_equal(file_make_directories(dir, 0755, NULL), 0);
    snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    assert_int_equal(file_replace(path, newer, strlen(newer), 0644, NULL), 0);
    ask(node, "/v1/jobs/demo/metrics?from=1", "127.0.0.1");
    assert_non_null(strstr(node->answer, newer));
    strcat(path, ".1");
    assert_int_equal(file_replace(path, older, strlen(older), 0644, NULL), 0);
    ask(node, "/v1/jobs/demo/metrics?from=2", "127.0.0.1");
    assert_non_null(strstr(node->answer, "\r\n\r\n{\"step\":2}\n{\"step\":3}\n"));
    assert_null(strstr(node->answer, "{\"step\":4}"));
    ask(node, "/v1/jobs/demo/metrics?from=4", "127.0.0.1");
    assert_non_null(strstr(node->answer, "\r\n\r\n{\"step\":4}\n"));
    ask(node, "/v1/jobs/demo/metrics?from=5", "127.0.0.1");
    assert_memory_equal(node->answer, "HTTP/1.1 200", 12);
    assert_null(strstr(node->answer, "step"));
}

static void test_traces_are_listed_and_sent(void **state)
{
    struct node *node = *state;
    char dir[CONFIG_TEXT_SIZE + 16], path[CONFIG_TEXT_SIZE + 64];
    AUTO_FREE uint8_t *ring = trace_sample_new(6);

    for (uint64_t step = 1; step <= 6; step++)
        trace_sample_add(ring, step, TRACE_STEP, step);
    snprintf(dir, sizeof(dir), "%s/jobs/demo", node->config.data_dir);
    assert_int_equal(file_make_directories(dir, 0755, NULL), 0);
    ask(node, "/v1/jobs/demo/trace", "127.0.0.1");
    assert_memory_equal(node->answer, "HTTP/1.1 404", 12);
    snprintf(path, sizeof(path), "%s/trace-1.2.ring", dir);
    assert_int_equal(file_replace(path, ring, TRACE_RING_BYTES, 0644, NULL), 0);
    ask(node, "/v1/jobs/demo/trace", "127.0.0.1");
    assert_non_null(strstr(node->answer, "{\"slot\":1,\"age\":2,\"pid\":77,\"newest_step\":6,"));
    ask(node, "/v1/jobs/demo/trace?slot=1&age=2&from=3&to=5&after=3", "127.0.0.1");
    const char *body = strstr(node->answer, "\r\n\r\n") + 4;
    size_t size_bytes = node->answer_bytes - (size_t)(body - node->answer);
    assert_int_equal(size_bytes, sizeof(struct trace_head) + 2 * sizeof(struct trace_span));
    assert_memory_equal(body + sizeof(struct trace_head),
                        ring + TRACE_RING_HEAD_BYTES + 3 * sizeof(struct trace_span),
                        2 * sizeof(struct trace_span));
    ask(node, "/v1/jobs/demo/trace?slot=1", "127.0.0.1");
    assert_memory_equal(node->answer, "HTTP/1.1 404", 12);
    ask(node, "/v1/jobs/demo/trace?slot=../../x&age=2", "127.0.0.1");
    assert_memory_equal(node->answer, "HTTP/1.1 404", 12);
}

static void ask_with(struct node *node, const char *path, const char *authorization)
{
    char request[512];

    snprintf(request, sizeof(request),
             "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s%sConnection: close\r\n\r\n", path,
             authorization, authorization[0] ? "\r\n" : "");
    hear(node, dial(node, request));
}

static void test_a_token_is_wanted_where_there_is_one(void **state)
{
    static const char *const pages[] = {"/metrics",
                                        "/v1/node",
                                        "/v1/jobs/demo/metrics",
                                        "/v1/jobs/demo/events",
                                        "/v1/jobs/demo/logs",
                                        "/v1/jobs/demo/workers",
                                        "/v1/jobs/demo/trace",
                                        "/v1/jobs/demo/trace?slot=0",
                                        "/no-such-page"};
    struct node *node = *state;

    ask_with(node, "/metrics", "");
    assert_memory_equal(node->answer, "HTTP/1.1 200", 12);
    strcpy(node->daemon.http_token, "0123456789abcdef");
    for (size_t i = 0; i < ARRAY_COUNT(pages); i++) {
        ask_with(node, pages[i], "");
        assert_memory_equal(node->answer, "HTTP/1.1 401", 12);
        assert_non_null(strstr(node->answer, "WWW-Authenticate: Bearer\r\n"));
        assert_non_null(strstr(node->answer, "FIRN_TOKEN_FILE"));
        assert_null(strstr(node->answer, "0123456789abcdef"));
        ask_with(node, pages[i], "Authorization: Bearer 0123456789abcdeF");
        assert_memory_equal(node->answer, "HTTP/1.1 401", 12);
        assert_non_null(strstr(node->answer, "this is not the token"));
    }
    ask_with(node, "/metrics", "Authorization: Bearer 0123456789abcdef");
    assert_memory_equal(node->answer, "HTTP/1.1 200", 12);
    ask_with(node, "/no-such-page", "Authorization: Bearer 0123456789abcdef");
    assert_memory_equal(node->answer, "HTTP/1.1 404", 12);
    /* A worker has no token; without the job's key it gets no file, either. */
    ask_with(node, "/v1/jobs/demo/checkpoints/step-0000000001/manifest.json?at=0&bytes=1", "");
    assert_memory_equal(node->answer, "HTTP/1.1 404", 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_half_requests_keep_nobody_out, begin, end),
        cmocka_unit_test_setup_teardown(test_names_of_others_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_a_file_is_read_and_sent, begin, end),
        cmocka_unit_test_setup_teardown(test_lines_before_a_rotation_are_read_from_the_older_file,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_traces_are_listed_and_sent, begin, end),
        cmocka_unit_test_setup_teardown(test_a_token_is_wanted_where_there_is_one, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
