/* The client against three real members, some of which die, hang, and come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/membership/store.h"

static struct etcd_fixture fixture;

static int start(void **state)
{
    (void)state;
    return etcd_fixture_available() && !etcd_fixture_start(&fixture, 3);
}

static int stop(void **state)
{
    (void)state;
    etcd_fixture_stop(&fixture);
    return 0;
}

static void bring_back(unsigned member)
{
    etcd_fixture_launch(&fixture, member);
    assert_true(etcd_fixture_wait(&fixture, member));
}

/* Reads are repeated by the client; a write may need a caller that repeats while a leader is
 * elected. */
static void put_until_done(struct store *store, const char *key, const char *value)
{
    uint64_t until_ns = clock_monotonic_ns() + STORE_WAIT_NS;
    while (store_put(store, key, value, 0).status != 0)
        assert_true(clock_monotonic_ns() < until_ns);
}

/* Put a key with a separate client. */
static void put_anew(const char *key, const char *value)
{
    struct store store;
    store_open(&store, &fixture);
    put_until_done(&store, key, value);
    store_close(&store);
}

static void test_each_member_may_die(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    char value[] = "0";
    store_open(&store, &fixture);
    store_watch(&store, "/a/", &watched);
    STORE_UNTIL(&store, watched.snapshots == 1);
    for (unsigned i = 0; i < 3; i++) {
        etcd_fixture_kill(&fixture, i);
        ++*value;
        put_until_done(&store, "/a/n", value);
        STORE_UNTIL(&store, watched_is(&watched, "/a/n", value));
        bring_back(i);
    }
    assert_int_equal(watched.snapshots, 1); /* always resumed, never started over */
    store_close(&store);
}

static void test_hanging_member_is_passed_over(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    store_open(&store, &fixture);
    store_watch(&store, "/b/", &watched);
    STORE_UNTIL(&store, watched.snapshots == 1);
    assert_int_equal(store_put(&store, "/b/a", "1", 0).status, 0);
    etcd_fixture_pause(&fixture, 0); /* the first endpoint is the one in use */
    struct outcome read = {.status = -1};
    for (unsigned i = 0; i < 20 && read.status != 0; i++)
        read = store_range(&store, "/b/a", false);
    assert_int_equal(read.status, 0);
    assert_string_equal(read.entries[0].value, "1");
    put_until_done(&store, "/b/a", "2");
    STORE_UNTIL(&store, watched_is(&watched, "/b/a", "2")); /* watched on another endpoint */
    assert_int_equal(watched.losses, watched.returns); /* none, where the others have a leader */
    etcd_fixture_continue(&fixture, 0);
    store_close(&store);
}

/* The hanging member still accepts connections; calls that do not get there, writes included, may
 * go to another member. */
static void test_hanging_member_is_not_waited_for_at_the_start(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    put_anew("/e/a", "1");
    etcd_fixture_pause(&fixture, 0);
    put_anew("/e/a", "2");
    for (unsigned i = 0; i < 2; i++) {
        store_open(&store, &fixture);
        assert_int_equal(store_put(&store, "/e/a", "3", 0).status, 0);
        struct outcome read = store_range(&store, "/e/a", false);
        assert_int_equal(read.status, 0);
        assert_string_equal(read.entries[0].value, "3");
        store_close(&store);
    }
    etcd_fixture_continue(&fixture, 0);
}

static void test_without_quorum_nothing_is_answered(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    store_open(&store, &fixture);
    put_until_done(&store, "/c/a", "1");
    store_watch(&store, "/c/", &watched);
    STORE_UNTIL(&store, watched_is(&watched, "/c/a", "1"));
    etcd_fixture_kill(&fixture, 1);
    etcd_fixture_kill(&fixture, 2);
    STORE_UNTIL(&store, watched.losses >= 1); /* also on the live member: no leader */
    struct outcome read = store_range(&store, "/c/a", false);
    assert_true(read.status == -EHOSTUNREACH || read.status == -ECONNREFUSED ||
                read.status == -ETIMEDOUT);
    assert_non_null(strstr(read.text, "none of 3 etcd endpoints serves"));
    assert_true(store_put(&store, "/c/a", "2", 0).status < 0);
    etcd_fixture_launch(&fixture, 1);
    bring_back(2);
    put_until_done(&store, "/c/a", "3");
    STORE_UNTIL(&store, watched_is(&watched, "/c/a", "3"));
    assert_int_equal(watched.snapshots, 1);
    assert_true(watched.returns >= 1); /* members on a busy machine may lose each other again */
    store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_member_may_die),
        cmocka_unit_test(test_hanging_member_is_passed_over),
        cmocka_unit_test(test_hanging_member_is_not_waited_for_at_the_start),
        cmocka_unit_test(test_without_quorum_nothing_is_answered),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
