/*
 * Tests of the watch against one real member. For changes while the watch is away, its loop does
 * not run, and another client with its own loop makes the changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "lib/membership/store.h"

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

static void open_quick(struct store *store)
{
    char endpoint[ETCD_FIXTURE_TEXT_SIZE];
    etcd_fixture_endpoints(&fixture, endpoint);
    store_open_options(store, &(struct etcd_options){.endpoints = endpoint,
                                                     .request_timeout_ns = 300 * NS_PER_MS});
}

static void restart(void)
{
    etcd_fixture_kill(&fixture, 0);
    etcd_fixture_launch(&fixture, 0);
    assert_true(etcd_fixture_wait(&fixture, 0));
}

static void test_snapshot_then_events_in_order(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    store_open(&store, &fixture);
    store_put(&store, "/a/old", "1", 0);
    store_watch(&store, "/a/", &watched);
    STORE_UNTIL(&store, watched.snapshots == 1);
    assert_int_equal(watched.count, 1);
    store_put(&store, "/a/x", "1", 0);
    store_put(&store, "/ax", "not below the prefix", 0);
    store_put(&store, "/a/x", "2", 0);
    store_delete(&store, "/a/x");
    store_put(&store, "/a/y", "", 0);
    STORE_UNTIL(&store, watched_is(&watched, "/a/y", ""));
    assert_string_equal(watched.history, "+/a/x=1 +/a/x=2 -/a/x +/a/y= ");
    assert_int_equal(watched.snapshots, 1);
    assert_int_equal(watched.losses + watched.returns, 0);
    store_unwatch(&store, &watched);
    store_put(&store, "/a/z", "1", 0); /* the watch is not notified */
    assert_null(watched_value(&watched, "/a/z"));
    store_close(&store);
}

static void test_operations_of_one_txn_arrive_together(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    store_open(&store, &fixture);
    store_watch(&store, "/b/", &watched);
    STORE_UNTIL(&store, watched.snapshots == 1);
    struct kv_operation puts[] = {{.type = KV_PUT, .key = "/b/1", .value = "v"},
                                  {.type = KV_PUT, .key = "/b/2", .value = "v"}};
    int64_t revision = store_txn(&store, NULL, 0, puts, 2).revision;
    STORE_UNTIL(&store, watched.revision == revision);
    assert_int_equal(watched.count, 2);
    store_close(&store);
}

/*
 * Events that come in many pieces at once are all delivered at once. They do not stay in a buffer
 * until a health check of the stream triggers a read.
 */
static void test_many_events_at_once(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store, other;
    struct watched watched;
    struct outcome outcome = {0};
    char value[STORE_TEXT_SIZE];
    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    store_open(&store, &fixture);
    store_open(&other, &fixture);
    store_watch(&store, "/many/", &watched);
    STORE_UNTIL(&store, watched.snapshots == 1);
    for (unsigned i = 1; i <= 400; i++) {
        struct kv_operation put = {.type = KV_PUT, .key = "/many/a", .value = value};
        struct kv_request *request;
        assert_int_equal(
            other.kv->txn(other.kv->context, NULL, 0, &put, 1, store_done, &outcome, &request), 0);
    }
    STORE_UNTIL(&other, outcome.calls == 400); /* meanwhile the watch is not read */
    int64_t last = store_put(&other, "/many/last", "1", 0).revision;
    uint64_t start_ns = clock_monotonic_ns();
    STORE_UNTIL(&store, watched.revision == last);
    assert_true(clock_monotonic_ns() - start_ns < 5 * NS_PER_SECOND); /* a question takes ten */
    store_close(&other);
    store_close(&store);
}

static void test_restart_loses_and_repeats_nothing(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store, other;
    struct watched watched;
    store_open(&store, &fixture);
    store_watch(&store, "/c/", &watched);
    STORE_UNTIL(&store, watched.snapshots == 1);
    store_put(&store, "/c/n", "1", 0);
    STORE_UNTIL(&store, watched_is(&watched, "/c/n", "1"));
    restart();
    store_open(&other, &fixture);
    for (char value[] = "2"; *value <= '5'; ++*value)
        assert_int_equal(store_put(&other, "/c/n", value, 0).status, 0);
    STORE_UNTIL(&store, watched_is(&watched, "/c/n", "5"));
    assert_string_equal(watched.history, "+/c/n=1 +/c/n=2 +/c/n=3 +/c/n=4 +/c/n=5 ");
    assert_int_equal(watched.snapshots, 1);
    STORE_UNTIL(&store, watched.returns == watched.losses);
    assert_true(watched.losses >= 1);
    store_close(&other);
    store_close(&store);
}

static void test_compaction_while_away_gives_a_new_snapshot(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store, other;
    struct watched watched;
    char body[64];
    store_open(&store, &fixture);
    store_put(&store, "/d/goes", "1", 0);
    store_put(&store, "/d/stays", "1", 0);
    store_watch(&store, "/d/", &watched);
    store_put(&store, "/d/last", "1", 0);
    STORE_UNTIL(&store, watched.count == 3);
    restart();
    store_open(&other, &fixture);
    store_delete(&other, "/d/goes");
    int64_t revision = store_put(&other, "/d/stays", "2", 0).revision;
    snprintf(body, sizeof(body), "{\"revision\":\"%lld\"}", (long long)revision);
    store_post(&fixture, "/v3/kv/compaction", body);
    STORE_UNTIL(&store, watched.snapshots == 2);
    assert_true(watched_is(&watched, "/d/goes", NULL));
    assert_true(watched_is(&watched, "/d/stays", "2"));
    store_put(&other, "/d/new", "1", 0);
    STORE_UNTIL(&store, watched_is(&watched, "/d/new", "1"));
    store_close(&other);
    store_close(&store);
}

static void test_compaction_under_a_live_watch_changes_nothing(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    char body[64];
    store_open(&store, &fixture);
    store_watch(&store, "/e/", &watched);
    int64_t revision = store_put(&store, "/e/a", "1", 0).revision;
    STORE_UNTIL(&store, watched_is(&watched, "/e/a", "1"));
    snprintf(body, sizeof(body), "{\"revision\":\"%lld\"}", (long long)revision);
    store_post(&fixture, "/v3/kv/compaction", body);
    store_put(&store, "/e/a", "2", 0);
    STORE_UNTIL(&store, watched_is(&watched, "/e/a", "2"));
    assert_int_equal(watched.snapshots, 1);
    store_close(&store);
}

static void test_silent_connection_is_noticed(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    open_quick(&store);
    store_watch(&store, "/f/", &watched);
    STORE_UNTIL(&store, watched.snapshots == 1);
    etcd_fixture_pause(&fixture, 0); /* the kernel still answers for it: only silence shows */
    STORE_UNTIL(&store, watched.losses == 1);
    assert_int_equal(watched.lost_status, -ETIMEDOUT);
    assert_non_null(strstr(watched.lost_text, "http://127.0.0.1:"));
    etcd_fixture_continue(&fixture, 0);
    STORE_UNTIL(&store, watched.returns >= 1 && watched.lost_status == 0);
    assert_int_equal(store_put(&store, "/f/a", "1", 0).status, 0);
    STORE_UNTIL(&store, watched_is(&watched, "/f/a", "1"));
    assert_string_equal(watched.history, "+/f/a=1 ");
    assert_int_equal(watched.snapshots, 1);
    store_close(&store);
}

/* Health checks of a stream must be answered, or every idle watch would break off. */
static void test_idle_watch_stays(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    char endpoint[ETCD_FIXTURE_TEXT_SIZE];
    etcd_fixture_endpoints(&fixture, endpoint);
    store_open_options(&store, &(struct etcd_options){.endpoints = endpoint,
                                                      .request_timeout_ns = 150 * NS_PER_MS});
    store_watch(&store, "/g/", &watched);
    uint64_t until_ns = clock_monotonic_ns() + NS_PER_SECOND; /* several questions */
    STORE_UNTIL(&store, clock_monotonic_ns() >= until_ns);
    assert_int_equal(watched.snapshots, 1);
    assert_int_equal(watched.losses, 0);
    store_close(&store);
}

struct leaver {
    struct store *store;
    struct kv_watch *watch;
    bool at_snapshot, at_events, at_state, left;
};

static void leave(struct leaver *leaver)
{
    assert_false(leaver->left);
    leaver->left = true;
    leaver->store->kv->unwatch(leaver->store->kv->context, leaver->watch);
}

static void leave_at_snapshot(void *context, const struct kv_entry *entries, size_t count,
                              int64_t revision)
{
    struct leaver *leaver = context;
    (void)entries, (void)count, (void)revision;
    if (leaver->at_snapshot)
        leave(leaver);
}

static void leave_at_events(void *context, const struct kv_event *events, size_t count,
                            int64_t revision)
{
    struct leaver *leaver = context;
    (void)events, (void)count, (void)revision;
    if (leaver->at_events)
        leave(leaver);
}

static void leave_at_state(void *context, const struct error *error)
{
    struct leaver *leaver = context;
    (void)error;
    if (leaver->at_state)
        leave(leaver);
}

static const struct kv_watch_callbacks leaving = {leave_at_snapshot, leave_at_events,
                                                  leave_at_state};

static void test_unwatch_inside_every_callback(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    open_quick(&store);
    struct leaver first = {.store = &store, .at_snapshot = true};
    struct leaver second = {.store = &store, .at_events = true};
    struct leaver third = {.store = &store, .at_state = true};
    struct leaver *all[] = {&first, &second, &third};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++)
        assert_int_equal(
            store.kv->watch(store.kv->context, "/h/", NULL, &leaving, all[i], &all[i]->watch), 0);
    STORE_UNTIL(&store, first.left);
    for (char value[] = "1"; *value <= '3'; ++*value)
        store_put(&store, "/h/a", value, 0);
    STORE_UNTIL(&store, second.left);
    etcd_fixture_kill(&fixture, 0);
    STORE_UNTIL(&store, third.left);
    etcd_fixture_launch(&fixture, 0);
    assert_true(etcd_fixture_wait(&fixture, 0));
    store_close(&store);
}

static void test_watch_started_while_etcd_is_away(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    store_open(&store, &fixture);
    etcd_fixture_kill(&fixture, 0);
    store_watch(&store, "/i/", &watched);
    STORE_UNTIL(&store, watched.losses == 1);
    assert_int_equal(watched.lost_status, -ECONNREFUSED);
    etcd_fixture_launch(&fixture, 0);
    STORE_UNTIL(&store, watched.snapshots == 1 && watched.returns == 1);
    store_close(&store);
}

/* Last: the other tests' store is gone afterwards. */
static void test_emptied_store_gives_a_new_snapshot(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    char data[128];
    store_open(&store, &fixture);
    store_watch(&store, "/j/", &watched);
    store_put(&store, "/j/a", "1", 0);
    STORE_UNTIL(&store, watched_is(&watched, "/j/a", "1"));
    etcd_fixture_kill(&fixture, 0);
    snprintf(data, sizeof(data), "%s/m0", fixture.folder);
    nftw(data, etcd_fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
    etcd_fixture_launch(&fixture, 0);
    assert_true(etcd_fixture_wait(&fixture, 0));
    STORE_UNTIL(&store, watched.snapshots == 2);
    assert_int_equal(watched.count, 0);
    store_put(&store, "/j/b", "1", 0);
    STORE_UNTIL(&store, watched_is(&watched, "/j/b", "1"));
    store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_then_events_in_order),
        cmocka_unit_test(test_operations_of_one_txn_arrive_together),
        cmocka_unit_test(test_many_events_at_once),
        cmocka_unit_test(test_restart_loses_and_repeats_nothing),
        cmocka_unit_test(test_compaction_while_away_gives_a_new_snapshot),
        cmocka_unit_test(test_compaction_under_a_live_watch_changes_nothing),
        cmocka_unit_test(test_silent_connection_is_noticed),
        cmocka_unit_test(test_idle_watch_stays),
        cmocka_unit_test(test_unwatch_inside_every_callback),
        cmocka_unit_test(test_watch_started_while_etcd_is_away),
        cmocka_unit_test(test_emptied_store_gives_a_new_snapshot),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
