/* Tests of the queue of a listener before a mesh is open: many connect, and nobody accepts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/mesh/doorman.h"
#include "comm/mesh/link.h"
#include "comm/mesh/tcp.h"

#define MANY   600
#define TRIES  20000 /* of a millisecond each */
#define QUEUED 256

static int listener;
static char address[ADDRESS_SIZE];
static struct link *links[MANY];

static int set_up(void **state)
{
    struct error error;

    (void)state;
    if (tcp_listen("127.0.0.1:0", &listener, &error))
        return -1;
    return tcp_local_address(listener, address);
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        if (links[i])
            link_free(links[i]);
    return close(listener);
}

static void connect_many(void)
{
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(tcp_connect(address, -1, &links[i]), 0);
}

static bool await_queue(bool (*is_there)(unsigned waiting))
{
    for (unsigned i = 0; i < TRIES; i++) {
        if (is_there(tcp_waiting(listener)))
            return true;
        poll(NULL, 0, 1);
    }
    return false;
}

static bool is_full(unsigned waiting)
{
    return waiting == MANY;
}

static bool is_short(unsigned waiting)
{
    return waiting <= QUEUED;
}

/* The doorman rests while a mesh opens, then continues. */
static void test_the_queue_stays_short(void **state)
{
    struct mesh_doorman *doorman;

    (void)state;
    assert_int_equal(mesh_doorman_new(listener, &doorman), 0);
    mesh_doorman_rest(doorman, true);
    connect_many();
    assert_true(await_queue(is_full));
    mesh_doorman_rest(doorman, false);
    assert_true(await_queue(is_short));
    assert_true(tcp_waiting(listener) > 0); /* the youngest stay: they may be peers */
    mesh_doorman_free(doorman);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_queue_stays_short, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
