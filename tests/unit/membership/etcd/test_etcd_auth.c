/* The client against an etcd with users: the right and the wrong password, tokens that are
 * forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/membership/store.h"

static struct etcd_fixture fixture;
static char endpoint[ETCD_FIXTURE_TEXT_SIZE];

/* root may everything; alice may read and write below /firn/ (base64: L2Zpcm4v to L2Zpcm4w). */
static int start(void **state)
{
    static const char *const calls[][2] = {
        {"/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"summit\"}"},
        {"/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}"},
        {"/v3/auth/user/add", "{\"name\":\"alice\",\"password\":\"névé \\\"1\\\"\"}"},
        {"/v3/auth/role/add", "{\"name\":\"firn\"}"},
        {"/v3/auth/role/grant", "{\"name\":\"firn\",\"perm\":{\"permType\":\"READWRITE\","
                                "\"key\":\"L2Zpcm4v\",\"range_end\":\"L2Zpcm4w\"}}"},
        {"/v3/auth/user/grant", "{\"user\":\"alice\",\"role\":\"firn\"}"},
        {"/v3/auth/enable", "{}"},
    };
    (void)state;
    if (!etcd_fixture_available())
        return 0;
    if (!etcd_fixture_start(&fixture, 1))
        return -1;
    store_post(&fixture, "/v3/auth/role/add", "{\"name\":\"root\"}");
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++)
        store_post(&fixture, calls[i][0], calls[i][1]);
    etcd_fixture_endpoints(&fixture, endpoint);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    etcd_fixture_stop(&fixture);
    return 0;
}

static void open_as(struct store *store, const char *user, const char *password)
{
    store_open_options(store, &(struct etcd_options){.endpoints = endpoint,
                                                     .user = user,
                                                     .password = password,
                                                     .request_timeout_ns = STORE_WAIT_NS});
}

static void test_right_password(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    struct outcome outcome = {0};
    struct kv_request *request;
    open_as(&store, "alice", "névé \"1\"");
    for (unsigned i = 0; i < 5; i++) /* all wait for one token */
        assert_int_equal(
            store.kv->range(store.kv->context, "/firn/", true, store_done, &outcome, &request), 0);
    store.kv->cancel(store.kv->context, request);
    STORE_UNTIL(&store, outcome.calls == 4);
    assert_int_equal(outcome.status, 0);
    store_watch(&store, "/firn/", &watched);
    assert_int_equal(store_put(&store, "/firn/a", "1", 0).status, 0);
    STORE_UNTIL(&store, watched_is(&watched, "/firn/a", "1"));
    store_close(&store);
}

static void test_wrong_password(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    open_as(&store, "alice", "crevasse");
    for (unsigned i = 0; i < 2; i++) {
        struct outcome outcome = store_range(&store, "/firn/", true);
        assert_int_equal(outcome.status, -EACCES);
        assert_non_null(strstr(outcome.text, "\"alice\""));
        assert_non_null(strstr(outcome.text, endpoint));
        assert_null(strstr(outcome.text, "crevasse"));
    }
    store_close(&store);
}

static void test_wrong_password_fails_all_that_wait(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    struct outcome outcome = {0};
    struct kv_request *request;
    open_as(&store, "nobody", "crevasse");
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(
            store.kv->range(store.kv->context, "/firn/", true, store_done, &outcome, &request), 0);
    store.kv->cancel(store.kv->context, request);
    store_watch(&store, "/firn/", &watched);
    STORE_UNTIL(&store, outcome.calls == 4 && watched.losses == 1);
    assert_int_equal(outcome.status, -EACCES);
    assert_int_equal(watched.lost_status, -EACCES);
    store_close(&store);
}

static void test_no_user(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    open_as(&store, NULL, NULL);
    struct outcome outcome = store_range(&store, "/firn/", true);
    assert_int_equal(outcome.status, -EACCES);
    assert_non_null(strstr(outcome.text, "user and a password"));
    store_close(&store);
}

static void test_missing_right(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    open_as(&store, "alice", "névé \"1\"");
    struct outcome outcome = store_put(&store, "/other/a", "1", 0);
    assert_int_equal(outcome.status, -EACCES);
    assert_non_null(strstr(outcome.text, "permission denied"));
    assert_int_equal(store_put(&store, "/firn/a", "1", 0).status, 0);
    store_close(&store);
}

/* A change of alice's password, even to the same one, ends all her tokens. */
static void forget_tokens(void)
{
    struct posted posted = store_post_as(&fixture, NULL, "/v3/auth/authenticate",
                                         "{\"name\":\"root\",\"password\":\"summit\"}");
    const char *token = strstr(posted.body, "\"token\":\"");
    assert_non_null(token);
    char root[128] = "";
    assert_int_equal(sscanf(token, "\"token\":\"%127[^\"]", root), 1);
    store_post_as(&fixture, root, "/v3/auth/user/changepw",
                  "{\"name\":\"alice\",\"password\":\"névé \\\"1\\\"\"}");
}

static void test_forgotten_token_is_renewed(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct watched watched;
    open_as(&store, "alice", "névé \"1\"");
    store_watch(&store, "/firn/", &watched);
    assert_int_equal(store_put(&store, "/firn/b", "1", 0).status, 0);
    STORE_UNTIL(&store, watched_is(&watched, "/firn/b", "1"));
    forget_tokens();
    assert_int_equal(store_put(&store, "/firn/b", "2", 0).status, 0);
    STORE_UNTIL(&store, watched_is(&watched, "/firn/b", "2"));
    assert_int_equal(watched.snapshots, 1);
    store_close(&store);
}

/* The watch's token is refused when the watch resumes, and no other call asks for a new token. */
static void test_watch_renews_its_token(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store, other;
    struct watched watched;
    open_as(&store, "alice", "névé \"1\"");
    open_as(&other, "alice", "névé \"1\"");
    store_watch(&store, "/firn/", &watched);
    STORE_UNTIL(&store, watched.snapshots == 1);
    etcd_fixture_kill(&fixture, 0);
    etcd_fixture_launch(&fixture, 0);
    assert_true(etcd_fixture_wait(&fixture, 0));
    forget_tokens();
    assert_int_equal(store_put(&other, "/firn/c", "1", 0).status, 0);
    STORE_UNTIL(&store, watched_is(&watched, "/firn/c", "1"));
    assert_int_equal(watched.snapshots, 1);
    store_close(&other);
    store_close(&store);
}

static void test_user_at_a_server_without_users(void **state)
{
    (void)state;
    REQUIRE_ETCD();
    struct store store;
    struct etcd_fixture open;
    char open_endpoint[ETCD_FIXTURE_TEXT_SIZE];
    assert_true(etcd_fixture_start(&open, 1));
    etcd_fixture_endpoints(&open, open_endpoint);
    store_open_options(&store, &(struct etcd_options){
                                   .endpoints = open_endpoint, .user = "alice", .password = "any"});
    assert_int_equal(store_put(&store, "/x", "1", 0).status, 0);
    store_close(&store);
    etcd_fixture_stop(&open);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_password),
        cmocka_unit_test(test_wrong_password),
        cmocka_unit_test(test_wrong_password_fails_all_that_wait),
        cmocka_unit_test(test_no_user),
        cmocka_unit_test(test_missing_right),
        cmocka_unit_test(test_forgotten_token_is_renewed),
        cmocka_unit_test(test_watch_renews_its_token),
        cmocka_unit_test(test_user_at_a_server_without_users),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
