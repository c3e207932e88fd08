/* The client against one real member: operations, errors, a member that dies, comes back, or is
 * silent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void test_put_and_range(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    store_open(&store, &fixture);
    struct outcome put = store_put(&store, "/r/b", "two \"quoted\" \xc3\xa9\n", 0);
    assert_int_equal(put.status, 0);
    assert_true(put.succeeded);
    assert_int_equal(store_put(&store, "/r/a", "", 0).status, 0);
    assert_int_equal(store_put(&store, "/ra", "outside of the prefix", 0).status, 0);
    struct outcome all = store_range(&store, "/r/", true);
    assert_int_equal(all.status, 0);
    assert_int_equal(all.count, 2);
    assert_string_equal(all.entries[0].key, "/r/a");
    assert_string_equal(all.entries[0].value, "");
    assert_string_equal(all.entries[1].value, "two \"quoted\" \xc3\xa9\n");
    assert_int_equal(all.entries[1].create_revision, put.revision);
    assert_int_equal(all.entries[1].version, 1);
    assert_int_equal(all.revision, put.revision + 2);
    assert_int_equal(store_range(&store, "/r/", false).count, 0);
    assert_int_equal(store_range(&store, "/none", false).count, 0);
    store_close(&store);
}

static void test_a_prefix_is_deleted_as_a_whole(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    store_open(&store, &fixture);
    static const char *const keys[] = {"/p/1/a", "/p/1/b", "/p/10/a", "/p/1"};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(store_put(&store, keys[i], "", 0).status, 0);
    const struct kv_operation operations[] = {{.type = KV_PUT, .key = "/p/2", .value = ""},
                                              {.type = KV_DELETE_PREFIX, .key = "/p/1/"},
                                              {.type = KV_DELETE_PREFIX, .key = "/p/3/"}};
    assert_true(store_txn(&store, NULL, 0, operations, 3).succeeded);
    struct outcome left = store_range(&store, "/p/", true);
    assert_int_equal(left.count, 3);
    assert_string_equal(left.entries[0].key, "/p/1");
    assert_string_equal(left.entries[1].key, "/p/10/a");
    assert_string_equal(left.entries[2].key, "/p/2");
    store_close(&store);
}

static void test_txn_is_all_or_nothing(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    store_open(&store, &fixture);
    struct kv_compare compares[] = {{.key = "/t/a", .target = KV_CREATE_REVISION},
                                    {.key = "/t/b", .target = KV_MOD_REVISION}};
    struct kv_operation operations[] = {{.type = KV_PUT, .key = "/t/a", .value = "1"},
                                        {.type = KV_PUT, .key = "/t/b", .value = "1"}};
    struct outcome first = store_txn(&store, compares, 2, operations, 2);
    assert_true(first.succeeded);
    struct outcome second = store_txn(&store, compares, 2, operations, 2);
    assert_int_equal(second.status, 0);
    assert_false(second.succeeded);
    assert_int_equal(second.revision, first.revision);
    compares[0].value = compares[1].value = first.revision;
    compares[1].target = KV_CREATE_REVISION;
    operations[1] = (struct kv_operation){.type = KV_DELETE, .key = "/t/b"};
    assert_true(store_txn(&store, compares, 2, operations, 2).succeeded);
    struct kv_compare version = {.key = "/t/a", .target = KV_VERSION, .value = 2};
    assert_true(store_txn(&store, &version, 1, NULL, 0).succeeded);
    struct kv_compare newer = {
        .key = "/t/a", .target = KV_NOT_AFTER, .value = first.revision, .before = "/t/b"};
    assert_false(store_txn(&store, &newer, 1, NULL, 0).succeeded);
    newer.value++;
    assert_true(store_txn(&store, &newer, 1, NULL, 0).succeeded);
    newer.key = "/t/aa"; /* nothing from there on */
    newer.value = 0;
    assert_true(store_txn(&store, &newer, 1, NULL, 0).succeeded);
    struct outcome all = store_range(&store, "/t/", true);
    assert_int_equal(all.count, 1);
    assert_int_equal(all.entries[0].version, 2);
    store_close(&store);
}

static void test_limits_are_refused_at_once(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    store_open(&store, &fixture);
    char *large = malloc(KV_VALUE_MAX + 2);
    assert_non_null(large);
    memset(large, 'x', KV_VALUE_MAX + 1);
    large[KV_VALUE_MAX + 1] = '\0';
    struct kv_operation put = {.type = KV_PUT, .key = "/l", .value = large};
    struct kv_request *request;
    const struct kv *kv = store.kv;
    assert_int_equal(kv->txn(kv->context, NULL, 0, &put, 1, store_done, NULL, &request), -EFBIG);
    assert_int_equal(
        kv->txn(kv->context, NULL, 0, &put, KV_TXN_MAX + 1, store_done, NULL, &request), -EINVAL);
    large[KV_VALUE_MAX] = '\0';
    struct outcome outcome = store_put(&store, "/l", large, 0);
    assert_int_equal(outcome.status, 0);
    outcome = store_range(&store, "/l", false);
    assert_int_equal(outcome.count, 1);
    free(large);
    store_close(&store);
}

static void test_lease_expires_unless_kept(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    store_open(&store, &fixture);
    struct outcome lease = store_lease(&store, store.kv->lease_grant, 1);
    assert_int_equal(lease.status, 0);
    assert_true(lease.lease != 0);
    assert_int_equal(lease.ttl_seconds, 1);
    assert_int_equal(store_put(&store, "/e/a", "1", lease.lease).status, 0);
    assert_int_equal(store_range(&store, "/e/a", false).entries[0].lease, lease.lease);
    assert_int_equal(store_lease(&store, store.kv->lease_keep_alive, lease.lease).ttl_seconds, 1);
    store_watch(&store, "/e/", &watched);
    STORE_UNTIL(&store, watched_is(&watched, "/e/a", "1"));
    STORE_UNTIL(&store, watched_is(&watched, "/e/a", NULL)); /* it runs out */
    struct outcome gone = store_lease(&store, store.kv->lease_keep_alive, lease.lease);
    assert_int_equal(gone.status, 0);
    assert_int_equal(gone.ttl_seconds, 0);
    assert_int_equal(store_put(&store, "/e/b", "1", lease.lease).status, -ENOENT);
    store_close(&store);
}

static void test_revoke_deletes_and_is_idempotent(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    store_open(&store, &fixture);
    int64_t lease = store_lease(&store, store.kv->lease_grant, 60).lease;
    assert_int_equal(store_put(&store, "/v/a", "1", lease).status, 0);
    assert_int_equal(store_lease(&store, store.kv->lease_revoke, lease).status, 0);
    assert_int_equal(store_range(&store, "/v/", true).count, 0);
    assert_int_equal(store_lease(&store, store.kv->lease_revoke, lease).status, 0);
    store_close(&store);
}

static void test_cancelled_requests_do_not_call_back(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct outcome outcome = {0};
    struct kv_request *request;
    store_open(&store, &fixture);
    const struct kv *kv = store.kv;
    assert_int_equal(kv->range(kv->context, "/x", false, store_done, &outcome, &request), 0);
    kv->cancel(kv->context, request);
    kv->cancel(kv->context, NULL);
    assert_int_equal(store_range(&store, "/x", false).status, 0);
    assert_int_equal(outcome.calls, 0);
    assert_int_equal(kv->range(kv->context, "/x", false, store_done, &outcome, &request), 0);
    store_close(&store); /* in flight: does not call back either */
    assert_int_equal(outcome.calls, 0);
}

static void test_many_requests_at_once(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct outcome outcome = {0};
    struct kv_request *request;
    store_open(&store, &fixture);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(
            store.kv->range(store.kv->context, "/r/", true, store_done, &outcome, &request), 0);
    STORE_UNTIL(&store, outcome.calls == 100);
    assert_int_equal(outcome.status, 0);
    store_close(&store);
}

static void test_dead_member_is_an_error_and_comes_back(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    store_open(&store, &fixture);
    assert_int_equal(store_put(&store, "/d/a", "kept", 0).status, 0);
    etcd_fixture_kill(&fixture, 0);
    struct outcome refused = store_range(&store, "/d/a", false);
    assert_true(refused.status == -ECONNREFUSED || refused.status == -ECONNRESET);
    assert_non_null(strstr(refused.text, "http://127.0.0.1:"));
    assert_int_equal(store_put(&store, "/d/a", "lost", 0).status, -ECONNREFUSED);
    etcd_fixture_launch(&fixture, 0);
    assert_true(etcd_fixture_wait(&fixture, 0));
    struct outcome back = store_range(&store, "/d/a", false);
    assert_int_equal(back.status, 0);
    assert_string_equal(back.entries[0].value, "kept");
    store_close(&store);
}

static void test_silent_member_times_out(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    store_open(&store, &fixture);
    assert_int_equal(store_put(&store, "/s/a", "1", 0).status, 0);
    etcd_fixture_pause(&fixture, 0);
    assert_int_equal(store_put(&store, "/s/a", "2", 0).status, -EHOSTUNREACH);
    etcd_fixture_continue(&fixture, 0);
    /* That write had an unknown outcome: either is right, nothing in between is. */
    struct outcome after = store_range(&store, "/s/a", false);
    assert_int_equal(after.status, 0);
    assert_true(strcmp(after.entries[0].value, "1") == 0 ||
                strcmp(after.entries[0].value, "2") == 0);
    store_close(&store);
}

static void test_endpoints_are_tried_in_turn(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    char endpoints[ETCD_FIXTURE_TEXT_SIZE];
    snprintf(endpoints, sizeof(endpoints), "http://127.0.0.1:%u, http://127.0.0.1:%u/",
             etcd_fixture_free_port(), fixture.members[0].client_port);
    store_open_options(&store, &(struct etcd_options){.endpoints = endpoints});
    assert_int_equal(store_put(&store, "/f/a", "1", 0).status, 0); /* unsent, so tried again */
    assert_int_equal(store_range(&store, "/f/a", false).count, 1);
    store_close(&store);
}

/* A web server that speaks HTTP/1.1 only: an error, no crash. */
static void test_foreign_answers_are_refused(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    char endpoint[ETCD_FIXTURE_TEXT_SIZE];
    etcd_fixture_url(fixture.members[0].health_port, endpoint);
    store_open_options(&store, &(struct etcd_options){.endpoints = endpoint});
    struct outcome outcome = store_range(&store, "/x", false);
    assert_true(outcome.status == -EPROTO || outcome.status == -ECONNRESET);
    assert_non_null(strstr(outcome.text, endpoint));
    store_close(&store);
}

static void check_options(const char *endpoints, const char *user, const char *file,
                          const char *words)
{
    struct poll_loop *loop = poll_loop_new();
    struct etcd *etcd = NULL;
    struct error error = {0};
    struct etcd_options options = {.endpoints = endpoints, .user = user, .ca_file = file};
    int status = etcd_new(poll_loop_table(loop), &options, &etcd, &error);
    assert_true(status < 0);
    assert_null(etcd);
    assert_non_null(strstr(error.text, words));
    poll_loop_free(loop);
}

static void test_bad_options(void **state)
{
    (void)state;
    check_options("", NULL, NULL, "no etcd endpoint");
    check_options(NULL, NULL, NULL, "no etcd endpoint");
    check_options("127.0.0.1:2379", NULL, NULL, "http://host:2379");
    check_options("http://a:1", "alice", NULL, "a user and a password");
    check_options("http://a:1", NULL, "/nonexistent/ca.pem", "/nonexistent/ca.pem cannot be read");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_and_range),
        cmocka_unit_test(test_a_prefix_is_deleted_as_a_whole),
        cmocka_unit_test(test_txn_is_all_or_nothing),
        cmocka_unit_test(test_limits_are_refused_at_once),
        cmocka_unit_test(test_lease_expires_unless_kept),
        cmocka_unit_test(test_revoke_deletes_and_is_idempotent),
        cmocka_unit_test(test_cancelled_requests_do_not_call_back),
        cmocka_unit_test(test_many_requests_at_once),
        cmocka_unit_test(test_dead_member_is_an_error_and_comes_back),
        cmocka_unit_test(test_silent_member_times_out),
        cmocka_unit_test(test_endpoints_are_tried_in_turn),
        cmocka_unit_test(test_foreign_answers_are_refused),
        cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
