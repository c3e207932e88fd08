/* What the outbox promises: the newest value of every key gets written, once, however long it
 * takes. */
#include "unit/daemon/store.h"

#include <errno.h>

#include "daemon/outbox.h"

static void open_box(struct fake_store *store, struct outbox **ret_outbox)
{
    fake_store_init(store);
    assert_int_equal(outbox_new(&store->loop, &store->kv, "n0", ret_outbox), 0);
}

static void check_flight(const struct fake_store *store, const char *key, const char *value)
{
    assert_true(store->in_flight);
    assert_string_equal(store->key, key);
    assert_string_equal(store->value, value);
}

static void test_one_at_a_time_in_order(void **state)
{
    struct fake_store store;
    struct outbox *outbox;

    (void)state;
    open_box(&store, &outbox);
    assert_int_equal(outbox_put(outbox, "a", "1"), 0);
    assert_int_equal(outbox_put(outbox, "b", "2"), 0);
    check_flight(&store, "a", "1");
    fake_answer(&store, 0);
    check_flight(&store, "b", "2");
    fake_answer(&store, 0);
    assert_false(store.in_flight);
    assert_int_equal(store.started, 2);
    outbox_free(outbox);
}

static void test_newest_value_wins_while_waiting(void **state)
{
    struct fake_store store;
    struct outbox *outbox;

    (void)state;
    open_box(&store, &outbox);
    assert_int_equal(outbox_put(outbox, "a", "1"), 0);
    assert_int_equal(outbox_put(outbox, "b", "old"), 0);
    assert_int_equal(outbox_put(outbox, "b", "new"), 0);
    fake_answer(&store, 0);
    check_flight(&store, "b", "new");
    fake_answer(&store, 0);
    assert_int_equal(store.started, 2);
    outbox_free(outbox);
}

static void test_replaced_in_flight_is_written_again(void **state)
{
    struct fake_store store;
    struct outbox *outbox;

    (void)state;
    open_box(&store, &outbox);
    assert_int_equal(outbox_put(outbox, "a", "1"), 0);
    assert_int_equal(outbox_put(outbox, "a", "2"), 0);
    assert_int_equal(outbox_put(outbox, "a", "3"), 0);
    check_flight(&store, "a", "1");
    fake_answer(&store, 0);
    check_flight(&store, "a", "3");
    fake_answer(&store, 0);
    assert_false(store.in_flight);
    assert_int_equal(store.started, 2);
    outbox_free(outbox);
}

static void test_tried_again_until_written(void **state)
{
    static const int failures[] = {-ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH, -EACCES};
    struct fake_store store;
    struct outbox *outbox;

    (void)state;
    open_box(&store, &outbox);
    assert_int_equal(outbox_put(outbox, "a", "1"), 0);
    for (size_t i = 0; i < ARRAY_COUNT(failures); i++) {
        fake_answer(&store, failures[i]);
        assert_false(store.in_flight); /* not at once: etcd would be flooded while it is away */
        assert_int_equal(outbox_put(outbox, "b", "2"), 0);
        assert_false(store.in_flight);
        fake_wait(&store);
        check_flight(&store, "a", "1");
    }
    fake_answer(&store, 0);
    check_flight(&store, "b", "2");
    fake_answer(&store, 0);
    assert_int_equal(store.started, ARRAY_COUNT(failures) + 2);
    outbox_free(outbox);
}

/* The value that came while the failed one was in flight goes out, and only once. */
static void test_replaced_then_failed(void **state)
{
    struct fake_store store;
    struct outbox *outbox;

    (void)state;
    open_box(&store, &outbox);
    assert_int_equal(outbox_put(outbox, "a", "1"), 0);
    assert_int_equal(outbox_put(outbox, "a", "2"), 0);
    fake_answer(&store, -ETIMEDOUT);
    fake_wait(&store);
    check_flight(&store, "a", "2");
    fake_answer(&store, 0);
    assert_false(store.in_flight);
    assert_int_equal(store.started, 2);
    outbox_free(outbox);
}

/* A put that was given up cannot come back over a newer one: each counts on what it last knew. */
static void test_puts_are_guarded(void **state)
{
    struct fake_store store;
    struct outbox *outbox;

    (void)state;
    open_box(&store, &outbox);
    store.revision = 40;
    assert_int_equal(outbox_put(outbox, "a", "1"), 0);
    assert_int_equal(store.guard, 0);
    fake_answer(&store, 0);
    assert_int_equal(outbox_put(outbox, "a", "2"), 0);
    assert_int_equal(store.guard, 41);
    fake_answer(&store, -ETIMEDOUT);
    fake_wait(&store);
    assert_int_equal(store.guard, 41);
    fake_answer_changed(&store); /* the one that was given up went through after all */
    assert_int_equal(outbox_put(outbox, "a", "3"), 0);
    fake_answer_read(&store, 42);
    check_flight(&store, "a", "3");
    assert_int_equal(store.guard, 42);
    fake_answer(&store, 0);
    assert_false(store.in_flight);
    outbox_free(outbox);
}

static void test_a_put_that_cannot_start(void **state)
{
    struct fake_store store;
    struct outbox *outbox;

    (void)state;
    open_box(&store, &outbox);
    store.refuse = -ENOMEM;
    assert_int_equal(outbox_put(outbox, "a", "1"), 0);
    assert_false(store.in_flight);
    fake_wait(&store);
    check_flight(&store, "a", "1");
    fake_answer(&store, 0);
    outbox_free(outbox);
}

static void test_free_with_mail(void **state)
{
    struct fake_store store;
    struct outbox *outbox;

    (void)state;
    open_box(&store, &outbox);
    assert_int_equal(outbox_put(outbox, "a", "1"), 0);
    assert_int_equal(outbox_put(outbox, "b", "2"), 0);
    outbox_free(outbox);
    assert_int_equal(store.cancelled, 1);
    assert_null(store.timer.fired);
    outbox_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time_in_order),
        cmocka_unit_test(test_newest_value_wins_while_waiting),
        cmocka_unit_test(test_replaced_in_flight_is_written_again),
        cmocka_unit_test(test_tried_again_until_written),
        cmocka_unit_test(test_replaced_then_failed),
        cmocka_unit_test(test_puts_are_guarded),
        cmocka_unit_test(test_a_put_that_cannot_start),
        cmocka_unit_test(test_free_with_mail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
