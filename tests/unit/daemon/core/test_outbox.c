/*
 * Tests of the outbox's guarantee: the newest value of every key gets written, once, however long
 * it takes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "lib/daemon/store.h"

#include "daemon/core/outbox.h"

static struct fake_store store;
static struct outbox *outbox;

static int open_box(void **state)
{
    (void)state;
    fake_store_init(&store);
    return outbox_new(&store.loop, &store.kv, "n0", &outbox);
}

static int close_box(void **state)
{
    (void)state;
    outbox_free(outbox);
    outbox = NULL;
    return 0;
}

static void put(const char *key, const char *value)
{
    assert_int_equal(outbox_put(outbox, key, value), 0);
}

static void expect_flight(const char *key, const char *value)
{
    assert_true(store.in_flight);
    assert_string_equal(store.key, key);
    assert_string_equal(store.value, value);
}

static void test_one_at_a_time_in_order(void **state)
{
    (void)state;
    put("a", "1");
    put("b", "2");
    expect_flight("a", "1");
    fake_store_answer(&store, 0);
    expect_flight("b", "2");
    fake_store_answer(&store, 0);
    assert_false(store.in_flight);
    assert_int_equal(store.started, 2);
}

static void test_newest_value_wins_while_waiting(void **state)
{
    (void)state;
    put("a", "1");
    put("b", "old");
    put("b", "new");
    fake_store_answer(&store, 0);
    expect_flight("b", "new");
    fake_store_answer(&store, 0);
    assert_int_equal(store.started, 2);
}

static void test_replaced_in_flight_is_written_again(void **state)
{
    (void)state;
    put("a", "1");
    put("a", "2");
    put("a", "3");
    expect_flight("a", "1");
    fake_store_answer(&store, 0);
    expect_flight("a", "3");
    fake_store_answer(&store, 0);
    assert_false(store.in_flight);
    assert_int_equal(store.started, 2);
}

static void test_tried_again_until_written(void **state)
{
    static const int failures[] = {-ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH, -EACCES};

    (void)state;
    put("a", "1");
    for (size_t i = 0; i < ARRAY_COUNT(failures); i++) {
        fake_store_answer(&store, failures[i]);
        assert_false(store.in_flight); /* not at once: that would flood an etcd that is away */
        put("b", "2");
        assert_false(store.in_flight);
        fake_store_wait(&store);
        expect_flight("a", "1");
    }
    fake_store_answer(&store, 0);
    expect_flight("b", "2");
    fake_store_answer(&store, 0);
    assert_int_equal(store.started, ARRAY_COUNT(failures) + 2);
}

/* The value that arrived while the failed value was in flight is written, and only once. */
static void test_replaced_then_failed(void **state)
{
    (void)state;
    put("a", "1");
    put("a", "2");
    fake_store_answer(&store, -ETIMEDOUT);
    fake_store_wait(&store);
    expect_flight("a", "2");
    fake_store_answer(&store, 0);
    assert_false(store.in_flight);
    assert_int_equal(store.started, 2);
}

/*
 * A put that was given up cannot overwrite a newer value: each put is guarded by the last known
 * revision.
 */
static void test_puts_are_guarded(void **state)
{
    (void)state;
    store.revision = 40;
    put("a", "1");
    assert_int_equal(store.guard, 0);
    fake_store_answer(&store, 0);
    put("a", "2");
    assert_int_equal(store.guard, 41);
    fake_store_answer(&store, -ETIMEDOUT);
    fake_store_wait(&store);
    assert_int_equal(store.guard, 41);
    fake_store_answer_changed(&store); /* the put that was given up succeeded after all */
    put("a", "3");
    fake_store_answer_read(&store, 42);
    expect_flight("a", "3");
    assert_int_equal(store.guard, 42);
    fake_store_answer(&store, 0);
    assert_false(store.in_flight);
}

static void test_a_put_that_cannot_start(void **state)
{
    (void)state;
    store.refuse = -ENOMEM;
    put("a", "1");
    assert_false(store.in_flight);
    fake_store_wait(&store);
    expect_flight("a", "1");
    fake_store_answer(&store, 0);
}

static void test_free_with_mail(void **state)
{
    put("a", "1");
    put("b", "2");
    close_box(state);
    assert_int_equal(store.cancelled, 1);
    assert_null(store.timer.fired);
    outbox_free(NULL);
}

/* etcd answers, and takes nothing: it has no space, for example. */
static void test_refusals_are_told_from_silence(void **state)
{
    (void)state;
    put("a", "1");
    fake_store_answer(&store, -ETIMEDOUT);
    assert_false(outbox_refused(outbox));
    fake_store_wait(&store);
    fake_store_answer(&store, -ENOSPC);
    assert_true(outbox_refused(outbox));
    fake_store_wait(&store);
    fake_store_answer(&store, -ETIMEDOUT); /* nothing new is known */
    assert_true(outbox_refused(outbox));
    fake_store_wait(&store);
    expect_flight("a", "1");
    fake_store_answer(&store, 0);
    assert_false(outbox_refused(outbox));
}

/* The keys behind it do not wait for it. */
static void test_what_is_too_large_for_etcd_is_left_out(void **state)
{
    (void)state;
    put("a", "1");
    put("b", "2");
    expect_flight("a", "1");
    fake_store_answer(&store, -EFBIG);
    assert_false(outbox_refused(outbox)); /* etcd takes others */
    expect_flight("b", "2");
    put("a", "3"); /* a newer value may be smaller */
    fake_store_answer(&store, 0);
    expect_flight("a", "3");
    put("a", "4"); /* or come while the large one is on its way */
    fake_store_answer(&store, -EFBIG);
    expect_flight("a", "4");
    fake_store_answer(&store, 0);
}

/* This program's own limit refuses it before it is sent. */
static void test_what_is_too_large_to_be_sent_is_left_out(void **state)
{
    (void)state;
    put("b", "1");
    put("a", "1");
    put("c", "1");
    expect_flight("b", "1");
    store.refuse = -EFBIG;
    fake_store_answer(&store, 0);
    expect_flight("c", "1");
    fake_store_answer(&store, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_box, close_box)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_too_large_for_etcd_is_left_out),
        TEST(test_what_is_too_large_to_be_sent_is_left_out),
        TEST(test_one_at_a_time_in_order),
        TEST(test_newest_value_wins_while_waiting),
        TEST(test_replaced_in_flight_is_written_again),
        TEST(test_tried_again_until_written),
        TEST(test_refusals_are_told_from_silence),
        TEST(test_replaced_then_failed),
        TEST(test_puts_are_guarded),
        TEST(test_a_put_that_cannot_start),
        TEST(test_free_with_mail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
