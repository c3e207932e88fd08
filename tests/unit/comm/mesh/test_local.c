/* Tests of links within one node: the way to the listener, and other users on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/name.h"
#include "comm/mesh/local.h"
#include "comm/mesh/tcp.h"

#define NOBODY 65534

static char address[ADDRESS_SIZE]; /* of a port that this test has */
static int port, listener;

static int setup(void **state)
{
    struct error error;
    (void)state;
    listener = -1;
    if (tcp_listen("127.0.0.1:0", &port, &error))
        return -1;
    return tcp_local_address(port, address);
}

static int teardown(void **state)
{
    (void)state;
    close_descriptor(&listener);
    return close(port);
}

static struct link *accept_now(void)
{
    struct link *link;
    struct pollfd wanted = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&wanted, 1, 20000), 1);
    assert_int_equal(local_accept(listener, &link), 0);
    return link;
}

static void test_one_that_listens_beside_an_address_is_found_there_alone(void **state)
{
    struct link *one, *other, *none;
    char got[4];
    (void)state;
    assert_int_equal(local_connect(address, &none), -ECONNREFUSED);
    assert_int_equal(local_listen(address, &listener), 0);
    assert_int_equal(local_connect("127.0.0.1:1", &none), -ECONNREFUSED);
    assert_int_equal(local_accept(listener, &none), -EAGAIN);
    assert_int_equal(local_connect(address, &one), 0);
    assert_int_equal(link_connected(one), 0);
    other = accept_now();
    struct iovec out = {.iov_base = "snow", .iov_len = 4}, in = {.iov_base = got, .iov_len = 4};
    assert_int_equal(link_receive(other, &in, 1), -EAGAIN);
    assert_int_equal(link_send(one, &out, 1), 4);
    link_set_timeout(one, 1);
    link_finish(one);
    assert_int_equal(link_receive(other, &in, 1), 4);
    assert_memory_equal(got, "snow", 4);
    assert_int_equal(link_receive(other, &in, 1), 0);
    link_free(one);
    assert_int_equal(link_send(other, &out, 1), -EPIPE);
    link_free(other);
}

static void test_a_name_that_is_taken_is_told(void **state)
{
    int second;
    (void)state;
    assert_int_equal(local_listen(address, &listener), 0);
    assert_int_equal(local_listen(address, &second), -EADDRINUSE);
}

/* Run @act as another user. Return: its result, 0 to 99 */
static int as_another_user(int (*act)(void))
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(setuid(NOBODY) ? 100 : act());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 100);
    return WEXITSTATUS(status);
}

static int refuse_the_owner(void)
{
    struct link *link;
    return -local_connect(address, &link);
}

/* Connect without asking whose listener it is. */
static int connect_anyway(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "firn-link/%s", address);
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&name, size))
        return 1;
    return write(descriptor, "", 1) == 1 ? 0 : 2;
}

static void test_another_user_neither_serves_nor_is_served(void **state)
{
    struct link *link;
    (void)state;
    if (geteuid() != 0)
        skip(); /* only root can become another user */
    assert_int_equal(local_listen(address, &listener), 0);
    assert_int_equal(as_another_user(refuse_the_owner), EACCES);
    assert_int_equal(as_another_user(connect_anyway), 0);
    struct pollfd wanted = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&wanted, 1, 20000), 1);
    assert_int_equal(local_accept(listener, &link), -EACCES); /* the first left unaccepted */
    assert_int_equal(local_accept(listener, &link), -EACCES);
    assert_int_equal(local_accept(listener, &link), -EAGAIN);
    assert_int_equal(local_connect(address, &link), 0);
    link_free(link);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_that_listens_beside_an_address_is_found_there_alone),
        TEST(test_a_name_that_is_taken_is_told),
        TEST(test_another_user_neither_serves_nor_is_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
