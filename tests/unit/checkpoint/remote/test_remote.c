/* Whether a node that does not answer has given any sign of life. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/checkpoint/file_server.h"

#define TIMEOUT_NS (100 * NS_PER_MS)
#define CALLERS    8

static int bind_loopback(unsigned *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(socket_fd >= 0);
    assert_int_equal(bind(socket_fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(socket_fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return socket_fd;
}

/* Is the node at @port, which gives nothing away, silent? */
static bool asked_in_vain(unsigned port)
{
    struct checkpoint_remote_node node = {.name = "a"};
    struct checkpoint_remote_options options = {
        .job = "sample", .nodes = &node, .node_count = 1, .timeout_ns = TIMEOUT_NS};
    struct checkpoint_remote *remote = NULL;
    char data[8];
    size_t size;
    snprintf(node.http, sizeof(node.http), "127.0.0.1:%u", port);
    assert_int_equal(checkpoint_remote_new(&options, &remote, NULL), 0);
    assert_false(checkpoint_remote_silent(remote, 0));
    assert_int_equal(checkpoint_remote_read(remote, "a", "step", "file", 0, data, 8, &size, NULL),
                     -EHOSTUNREACH);
    bool silent = checkpoint_remote_silent(remote, 0);
    checkpoint_remote_free(remote);
    return silent;
}

static void test_a_refusal_is_a_sign(void **state)
{
    unsigned port;
    int unheard = bind_loopback(&port); /* without accept() */
    (void)state;
    assert_false(asked_in_vain(port));
    close(unheard);
}

/* A full queue drops every new connection, as a cut cable does. */
static void test_silence_is_none(void **state)
{
    unsigned port;
    int full = bind_loopback(&port), callers[CALLERS];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    (void)state;
    assert_int_equal(listen(full, 0), 0);
    for (unsigned i = 0; i < CALLERS; i++) {
        callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(callers[i], (struct sockaddr *)&address, sizeof(address));
    }
    assert_true(asked_in_vain(port));
    for (unsigned i = 0; i < CALLERS; i++)
        close(callers[i]);
    close(full);
}

static void test_one_that_says_nothing_more_is_there(void **state)
{
    unsigned port;
    int deaf = bind_loopback(&port); /* only the kernel accepts */
    (void)state;
    assert_int_equal(listen(deaf, CALLERS), 0);
    assert_false(asked_in_vain(port));
    close(deaf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refusal_is_a_sign),
        cmocka_unit_test(test_silence_is_none),
        cmocka_unit_test(test_one_that_says_nothing_more_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
