/* Tests of ranges that are larger than an answer: page by page from a real etcd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/membership/store.h"
#include "membership/etcd/etcd_pages.h"

#define LARGE       70 /* values of 1 MiB: an answer takes 64 */
#define LARGE_BYTES ((size_t)KV_VALUE_MAX)
#define SMALL       10000 /* keys: several pages */
#define TOGETHER    50    /* keys of a transaction */

static struct etcd_fixture fixture;

static int start(void **state)
{
    (void)state;
    return etcd_fixture_available() && !etcd_fixture_start(&fixture, 1);
}

static int stop(void **state)
{
    (void)state;
    etcd_fixture_stop(&fixture);
    return 0;
}

/* The content of a range: all keys, in order and once. */
struct seen {
    bool done;
    int status;
    size_t count, bytes;
    bool is_ordered;
};

static void see(struct seen *seen, const struct kv_entry *entries, size_t count)
{
    seen->count = count;
    seen->bytes = 0;
    seen->is_ordered = true;
    for (size_t i = 0; i < count; i++) {
        seen->bytes += entries[i].value_bytes;
        seen->is_ordered &= i == 0 || strcmp(entries[i - 1].key, entries[i].key) < 0;
    }
    seen->done = true;
}

static void ranged(void *context, const struct kv_result *result)
{
    struct seen *seen = context;

    seen->status = result->status;
    see(seen, result->entries, result->entry_count);
}

static struct seen range(struct store *store, const char *prefix)
{
    struct seen seen = {0};
    struct kv_request *request;

    assert_int_equal(store->kv->range(store->kv->context, prefix, true, ranged, &seen, &request),
                     0);
    STORE_UNTIL(store, seen.done);
    assert_int_equal(seen.status, 0);
    assert_true(seen.is_ordered);
    return seen;
}

static void put_small(struct store *store)
{
    char keys[TOGETHER][32];
    struct kv_operation operations[TOGETHER];

    for (unsigned first = 0; first < SMALL; first += TOGETHER) {
        for (unsigned i = 0; i < TOGETHER; i++) {
            snprintf(keys[i], sizeof(keys[i]), "/small/%06u", first + i);
            operations[i] = (struct kv_operation){.type = KV_PUT, .key = keys[i], .value = "x"};
        }
        assert_int_equal(store_txn(store, NULL, 0, operations, TOGETHER).status, 0);
    }
}

static void test_more_keys_than_a_page(void **state)
{
    struct store store;

    (void)state;
    REQUIRE_ETCD();
    store_open(&store, &fixture);
    put_small(&store);
    struct seen seen = range(&store, "/small/");
    assert_int_equal(seen.count, SMALL);
    assert_int_equal(seen.bytes, SMALL);
    assert_int_equal(range(&store, "/small/0000").count, 100);
    assert_int_equal(range(&store, "/none/").count, 0);
    store_close(&store);
}

static void on_snapshot(void *context, const struct kv_entry *entries, size_t count,
                        int64_t revision)
{
    (void)revision;
    see(context, entries, count);
}

static void on_events(void *context, const struct kv_event *events, size_t count, int64_t revision)
{
    (void)context;
    (void)events;
    (void)count;
    (void)revision;
}

static void on_state(void *context, const struct error *error)
{
    (void)context;
    assert_null(error);
}

static void test_more_bytes_than_an_answer(void **state)
{
    static const struct kv_watch_callbacks callbacks = {on_snapshot, on_events, on_state};
    struct store store;
    struct seen watched = {0};
    struct kv_watch *watch;
    char *value = malloc(LARGE_BYTES + 1), key[32];

    (void)state;
    REQUIRE_ETCD();
    memset(value, 'v', LARGE_BYTES);
    value[LARGE_BYTES] = '\0';
    store_open(&store, &fixture);
    for (unsigned i = 0; i < LARGE; i++) {
        snprintf(key, sizeof(key), "/large/%06u", i);
        assert_int_equal(store_put(&store, key, value, 0).status, 0);
    }
    free(value);
    struct seen seen = range(&store, "/large/");
    assert_int_equal(seen.count, LARGE);
    assert_int_equal(seen.bytes, LARGE * LARGE_BYTES);
    assert_int_equal(
        store.kv->watch(store.kv->context, "/large/", NULL, &callbacks, &watched, &watch), 0);
    STORE_UNTIL(&store, watched.done);
    assert_int_equal(watched.bytes, LARGE * LARGE_BYTES);
    store.kv->unwatch(store.kv->context, watch);
    store_close(&store);
}

/* A request that is cancelled between two pages has no callback. */
static void test_a_range_is_cancelled_in_the_middle(void **state)
{
    struct store store;
    struct seen seen = {0};
    struct kv_request *request;

    (void)state;
    REQUIRE_ETCD();
    store_open(&store, &fixture);
    assert_int_equal(store.kv->range(store.kv->context, "/small/", true, ranged, &seen, &request),
                     0);
    store.kv->cancel(store.kv->context, request);
    assert_int_equal(range(&store, "/small/").count, SMALL);
    assert_false(seen.done);
    store_close(&store);
}

static void test_pages_shrink_to_one_key(void **state)
{
    struct etcd_pages *pages = etcd_pages_new("/a/", NULL);
    unsigned smaller = 0;

    (void)state;
    while (etcd_pages_shrink(pages))
        smaller++;
    assert_int_equal(smaller, 6); /* 4096, 1024 ... 4, 1 */
    etcd_pages_free(pages);
    etcd_pages_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_keys_than_a_page),
        cmocka_unit_test(test_a_range_is_cancelled_in_the_middle),
        cmocka_unit_test(test_more_bytes_than_an_answer),
        cmocka_unit_test(test_pages_shrink_to_one_key),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
