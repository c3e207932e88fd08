/* Tests of many requests to nodes: one thread answers the first part of them and leaves the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/cluster/fetch.h"

#define MANY        700 /* more than are under way at once */
#define CONNECTIONS 1024

struct server {
    int listener, stop;
    unsigned port, most; /* connections side by side */
    unsigned answers;    /* requests that are answered; those after them are not */
    bool busy;           /* and how */
    pthread_t thread;
};

static void drop(struct pollfd *connection)
{
    close(connection->fd);
    connection->fd = -1;
}

static void answer(struct server *server, struct pollfd *connection)
{
    const char *code = server->busy ? "503 Service Unavailable" : "200 OK";
    char request[2048], text[128];

    snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
             code);

    if (recv(connection->fd, request, sizeof(request), 0) > 0 && server->answers > 0) {
        server->answers--;
        assert_int_equal(send(connection->fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    } else if (server->answers == 0) {
        connection->events = 0; /* it hears no more */
        return;
    }
    drop(connection);
}

static void *serve(void *context)
{
    struct server *server = context;
    static struct pollfd polled[2 + CONNECTIONS];
    nfds_t count = 2;

    polled[0] = (struct pollfd){.fd = server->stop, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    while (poll(polled, count, -1) > 0 && !polled[0].revents) {
        unsigned open = 0;
        for (nfds_t i = 2; i < count; i++) {
            if (polled[i].fd >= 0 && (polled[i].revents & POLLIN))
                answer(server, &polled[i]);
            else if (polled[i].fd >= 0 && polled[i].revents) /* given up */
                drop(&polled[i]);
            open += polled[i].fd >= 0;
        }
        if (polled[1].revents && count < 2 + CONNECTIONS) {
            polled[count++] =
                (struct pollfd){.fd = accept(server->listener, NULL, NULL), .events = POLLIN};
            open++;
        }
        server->most = MAX(server->most, open);
    }
    for (nfds_t i = 2; i < count; i++)
        if (polled[i].fd >= 0)
            close(polled[i].fd);
    return NULL;
}

static void start(struct server *server, int ret_stop[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);

    assert_int_equal(pipe(ret_stop), 0);
    server->stop = ret_stop[0];
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(server->listener, CONNECTIONS), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&at, &size), 0);
    server->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

/* Fetch MANY pages of a server that answers @answers of them. Return how many were good. */
static unsigned fetch_many(struct server *server, unsigned answers, bool busy, uint64_t timeout_ns)
{
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    struct fetch *fetches = calloc(MANY, sizeof(*fetches));
    struct error error = {0};
    unsigned good = 0, silent = 0;
    int stop[2];

    *server = (struct server){.answers = answers, .busy = busy};
    start(server, stop);
    assert_int_equal(
        cluster_client_open_at("http://127.0.0.1:1", "none", NS_PER_SECOND, &client, &error), 0);
    for (unsigned i = 0; i < MANY; i++)
        snprintf(fetches[i].url, sizeof(fetches[i].url), "http://127.0.0.1:%u/%u", server->port, i);
    fetch_all(&client, fetches, MANY, timeout_ns);
    for (unsigned i = 0; i < MANY; i++) {
        good += fetch_good(&fetches[i]) && !strcmp((const char *)fetches[i].body.data, "ok");
        silent += fetches[i].status < 0;
        char names[NAME_LIST_SIZE] = "";
        fetch_note_silence(&fetches[i], "b", names);
        assert_string_equal(names, fetch_good(&fetches[i]) ? ""
                                   : fetches[i].code       ? "b (HTTP 503)"
                                                           : "b");
        bytes_done(&fetches[i].body);
    }
    free(fetches);
    close(stop[1]);
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    close(stop[0]);
    close(server->listener);
    assert_int_equal(good + silent, MANY);
    return good;
}

static void test_all_are_asked_and_not_all_at_once(void **state)
{
    struct server server;

    (void)state;
    assert_int_equal(fetch_many(&server, MANY, false, 60 * NS_PER_SECOND), MANY);
    assert_in_range(server.most, 1, 256);
}

static void test_silent_ones_take_no_other_ones_turn(void **state)
{
    struct server server;

    (void)state;
    assert_int_equal(fetch_many(&server, 400, false, NS_PER_SECOND), 400);
    assert_true(server.most > 0);
}

/* A node that is busy has not said that it has nothing. */
static void test_a_refusal_is_no_answer(void **state)
{
    struct server server;

    (void)state;
    assert_int_equal(fetch_many(&server, MANY, true, 60 * NS_PER_SECOND), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_asked_and_not_all_at_once),
        cmocka_unit_test(test_silent_ones_take_no_other_ones_turn),
        cmocka_unit_test(test_a_refusal_is_no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
