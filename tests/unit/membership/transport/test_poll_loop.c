#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "membership/transport/poll_loop.h"
#include "membership/transport/timer.h"

#define SOON (clock_monotonic_ns() + 10 * NS_PER_SECOND)

struct probe {
    const struct loop *loop;
    struct loop_io *io;
    struct timer timer, other;
    unsigned calls;
    unsigned events;
    bool done, again;
    char order[8];
};

static void io_ready(void *user, int descriptor, unsigned events)
{
    struct probe *probe = user;
    char byte;
    probe->calls++;
    probe->events |= events;
    if (events & LOOP_READ)
        assert_true(read(descriptor, &byte, 1) >= 0);
    probe->loop->io_remove(probe->loop->context, probe->io); /* inside its own callback */
    probe->done = true;
}

static void test_descriptors(void **state)
{
    (void)state;
    struct poll_loop *loop = poll_loop_new();
    int pair[2];
    struct probe probe = {.loop = poll_loop_table(loop)};
    const struct loop *table = probe.loop;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(table->io_add(table->context, pair[0], LOOP_READ, io_ready, &probe, &probe.io),
                     0);
    bool never = false;
    assert_int_equal(poll_loop_run(loop, &never, clock_monotonic_ns() + NS_PER_MS), -ETIMEDOUT);
    assert_int_equal(probe.calls, 0);
    assert_int_equal(write(pair[1], "x", 1), 1);
    assert_int_equal(poll_loop_run(loop, &probe.done, SOON), 0);
    assert_int_equal(probe.events, LOOP_READ);
    assert_int_equal(write(pair[1], "x", 1), 1); /* removed: no callback */
    assert_int_equal(poll_loop_run(loop, &never, clock_monotonic_ns() + NS_PER_MS), -ETIMEDOUT);
    assert_int_equal(probe.calls, 1);
    assert_int_equal(table->io_add(table->context, pair[0], 0, io_ready, &probe, &probe.io), 0);
    assert_int_equal(poll_loop_run(loop, &never, clock_monotonic_ns() + NS_PER_MS), -ETIMEDOUT);
    assert_int_equal(table->io_set(table->context, probe.io, LOOP_WRITE), 0);
    probe.done = false;
    assert_int_equal(poll_loop_run(loop, &probe.done, SOON), 0);
    assert_int_equal(probe.events, LOOP_READ | LOOP_WRITE);
    close(pair[0]);
    close(pair[1]);
    poll_loop_free(loop);
}

static void test_hang_up_wakes_a_reader(void **state)
{
    (void)state;
    struct poll_loop *loop = poll_loop_new();
    int pair[2];
    struct probe probe = {.loop = poll_loop_table(loop)};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(
        probe.loop->io_add(probe.loop->context, pair[0], LOOP_READ, io_ready, &probe, &probe.io),
        0);
    close(pair[1]);
    assert_int_equal(poll_loop_run(loop, &probe.done, SOON), 0);
    close(pair[0]);
    poll_loop_free(loop);
}

static void first_fired(void *user)
{
    struct probe *probe = user;
    strcat(probe->order, "1");
    if (probe->again) {
        probe->again = false;
        timer_set_in(&probe->timer, 0);
    }
}

static void second_fired(void *user)
{
    struct probe *probe = user;
    strcat(probe->order, "2");
    timer_done(&probe->other); /* inside its own callback */
    probe->done = true;
}

static void test_alarms(void **state)
{
    (void)state;
    struct poll_loop *loop = poll_loop_new();
    struct probe probe = {.again = true};
    const struct loop *table = poll_loop_table(loop);
    assert_int_equal(timer_init(&probe.timer, table, first_fired, &probe), 0);
    assert_int_equal(timer_init(&probe.other, table, second_fired, &probe), 0);
    bool never = false; /* neither is set */
    assert_int_equal(poll_loop_run(loop, &never, clock_monotonic_ns() + NS_PER_MS), -ETIMEDOUT);
    assert_string_equal(probe.order, "");
    timer_set_in(&probe.timer, 0);
    timer_set_in(&probe.other, 20 * NS_PER_MS);
    assert_int_equal(poll_loop_run(loop, &probe.done, SOON), 0);
    assert_string_equal(probe.order, "112"); /* once per setting */
    timer_set_in(&probe.timer, 0);
    timer_clear(&probe.timer);
    assert_int_equal(poll_loop_run(loop, &never, clock_monotonic_ns() + NS_PER_MS), -ETIMEDOUT);
    assert_string_equal(probe.order, "112");
    timer_set_in(&probe.timer, UINT64_MAX); /* never, not long ago */
    assert_int_equal(poll_loop_run(loop, &never, clock_monotonic_ns() + NS_PER_MS), -ETIMEDOUT);
    assert_string_equal(probe.order, "112");
    poll_loop_free(loop); /* with a timer still there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_hang_up_wakes_a_reader),
        cmocka_unit_test(test_alarms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
