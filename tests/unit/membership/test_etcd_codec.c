/* What is sent to etcd and what it may answer, byte by byte; no etcd is needed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "membership/etcd_codec.h"

#define HEADER "\"header\":{\"cluster_id\":\"32\",\"revision\":\"12\"}"

static void assert_body(struct bytes *body, const char *want)
{
    assert_int_equal(bytes_append(body, "", 1), 0);
    assert_string_equal((char *)body->data, want);
    bytes_done(body);
}

static void test_encode(void **state)
{
    (void)state;
    struct bytes body = {0};
    assert_int_equal(etcd_encode_range_below(&body, "/a/", NULL, 0), 0);
    assert_body(&body, "{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\"}");
    assert_int_equal(etcd_encode_range(&body, "/a/b"), 0);
    assert_body(&body, "{\"key\":\"L2EvYg==\"}");
    assert_int_equal(etcd_encode_watch(&body, "/a/", NULL, 13), 0);
    assert_body(&body, "{\"create_request\":{\"key\":\"L2Ev\",\"range_end\":\"L2Ew\","
                       "\"start_revision\":\"13\",\"progress_notify\":true}}\n");
    assert_int_equal(etcd_encode_lease_grant(&body, 10), 0);
    assert_body(&body, "{\"TTL\":\"10\"}");
    assert_int_equal(etcd_encode_lease(&body, INT64_MIN), 0);
    assert_body(&body, "{\"ID\":\"-9223372036854775808\"}");
    assert_int_equal(etcd_encode_authenticate(&body, "a\"b", "\n"), 0);
    assert_body(&body, "{\"name\":\"a\\\"b\",\"password\":\"\\n\"}");
}

static void test_encode_txn(void **state)
{
    (void)state;
    struct bytes body = {0};
    const struct kv_compare compares[] = {
        {.key = "a", .target = KV_CREATE_REVISION, .value = 0},
        {.key = "b", .target = KV_MOD_REVISION, .value = INT64_MAX},
        {.key = "c", .target = KV_VERSION, .value = 3},
        {.key = "a", .target = KV_NOT_AFTER, .value = 7, .before = "c"}};
    const struct kv_operation operations[] = {
        {.type = KV_PUT, .key = "a", .value = "x", .lease = 5}, {.type = KV_DELETE, .key = "b"}};
    assert_int_equal(etcd_encode_txn(&body, compares, 4, operations, 2), 0);
    assert_body(
        &body,
        "{\"compare\":["
        "{\"key\":\"YQ==\",\"result\":\"EQUAL\",\"target\":\"CREATE\",\"create_revision\":\"0\"},"
        "{\"key\":\"Yg==\",\"result\":\"EQUAL\",\"target\":\"MOD\","
        "\"mod_revision\":\"9223372036854775807\"},"
        "{\"key\":\"Yw==\",\"result\":\"EQUAL\",\"target\":\"VERSION\",\"version\":\"3\"},"
        "{\"key\":\"YQ==\",\"range_end\":\"Yw==\",\"result\":\"LESS\",\"target\":\"MOD\","
        "\"mod_revision\":\"8\"}],"
        "\"success\":[{\"request_put\":{\"key\":\"YQ==\",\"value\":\"eA==\",\"lease\":\"5\"}},"
        "{\"request_delete_range\":{\"key\":\"Yg==\"}}]}");
    assert_int_equal(etcd_encode_txn(&body, NULL, 0, NULL, 0), 0);
    assert_body(&body, "{\"compare\":[],\"success\":[]}");
}

static int decode(enum etcd_operation operation, const char *text, struct etcd_reply *ret_reply,
                  struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    assert_int_equal(json_parse(text, strlen(text), "test", &tree, error), 0);
    return etcd_decode_reply(operation, tree, ret_reply, error);
}

static void test_decode_range(void **state)
{
    (void)state;
    struct etcd_reply reply;
    struct error error;
    assert_int_equal(
        decode(ETCD_RANGE,
               "{" HEADER ",\"kvs\":[{\"key\":\"L2E=\",\"create_revision\":\"2\","
               "\"mod_revision\":\"9223372036854775807\",\"version\":3,\"value\":\"AGI=\","
               "\"lease\":\"-4\"},{\"key\":\"L2I=\"}],\"count\":\"2\"}",
               &reply, &error),
        0);
    assert_int_equal(reply.result.revision, 12);
    assert_int_equal(reply.result.entry_count, 2);
    const struct kv_entry *entry = reply.result.entries;
    assert_string_equal(entry->key, "/a");
    assert_int_equal(entry->value_bytes, 2);
    assert_memory_equal(entry->value, "\0b", 3);
    assert_true(entry->mod_revision == INT64_MAX);
    assert_int_equal(entry->create_revision, 2);
    assert_int_equal(entry->version, 3);
    assert_int_equal(entry->lease, -4);
    assert_string_equal(entry[1].key, "/b");
    assert_string_equal(entry[1].value, "");
    etcd_reply_done(&reply);
    assert_int_equal(decode(ETCD_RANGE, "{" HEADER "}", &reply, &error), 0);
    assert_int_equal(reply.result.entry_count, 0);
    etcd_reply_done(&reply);
}

static void test_decode_others(void **state)
{
    (void)state;
    struct etcd_reply reply;
    struct error error;
    assert_int_equal(decode(ETCD_TXN, "{" HEADER ",\"succeeded\":true}", &reply, &error), 0);
    assert_true(reply.result.succeeded);
    assert_int_equal(decode(ETCD_TXN, "{" HEADER "}", &reply, &error), 0);
    assert_false(reply.result.succeeded);
    assert_int_equal(
        decode(ETCD_LEASE_GRANT, "{" HEADER ",\"ID\":\"7\",\"TTL\":\"10\"}", &reply, &error), 0);
    assert_int_equal(reply.result.lease, 7);
    assert_int_equal(reply.result.ttl_seconds, 10);
    assert_int_equal(
        decode(ETCD_LEASE_KEEP_ALIVE, "{\"result\":{" HEADER ",\"ID\":\"7\"}}", &reply, &error), 0);
    assert_int_equal(reply.result.ttl_seconds, 0);
    assert_int_equal(decode(ETCD_LEASE_REVOKE, "{" HEADER "}", &reply, &error), 0);
    assert_int_equal(decode(ETCD_AUTHENTICATE, "{" HEADER ",\"token\":\"x.1\"}", &reply, &error),
                     0);
    assert_string_equal(reply.token, "x.1");
    etcd_reply_done(&reply);
}

static void test_decode_refuses(void **state)
{
    static const struct {
        enum etcd_operation operation;
        const char *text, *words;
    } cases[] = {
        {ETCD_RANGE, "[]", "header"},
        {ETCD_RANGE, "{}", "header"},
        {ETCD_RANGE, "{\"header\":1}", "header"},
        {ETCD_RANGE, "{\"result\":1}", "header"},
        {ETCD_RANGE, "{\"header\":{\"revision\":\"9223372036854775808\"}}", "revision"},
        {ETCD_RANGE, "{\"header\":{\"revision\":\"-1\"}}", "negative"},
        {ETCD_RANGE, "{\"header\":{\"revision\":\"\"}}", "revision"},
        {ETCD_RANGE, "{\"header\":{\"revision\":\"1x\"}}", "revision"},
        {ETCD_RANGE, "{\"header\":{\"revision\":1.5}}", "revision"},
        {ETCD_RANGE, "{\"header\":{\"revision\":[]}}", "revision"},
        {ETCD_RANGE, "{" HEADER ",\"kvs\":{}}", "kvs"},
        {ETCD_RANGE, "{" HEADER ",\"kvs\":[1]}", "object"},
        {ETCD_RANGE, "{" HEADER ",\"kvs\":[{}]}", "empty"},
        {ETCD_RANGE, "{" HEADER ",\"kvs\":[{\"key\":5}]}", "key"},
        {ETCD_RANGE, "{" HEADER ",\"kvs\":[{\"key\":\"L2E\"}]}", "base64"},
        {ETCD_RANGE, "{" HEADER ",\"kvs\":[{\"key\":\"AGI=\"}]}", "zero byte"},
        {ETCD_RANGE, "{" HEADER ",\"kvs\":[{\"key\":\"L2E=\",\"value\":\"!\"}]}", "key /a"},
        {ETCD_RANGE, "{" HEADER ",\"kvs\":[{\"key\":\"L2E=\",\"version\":\"-2\"}]}", "negative"},
        {ETCD_LEASE_GRANT, "{" HEADER "}", "lease"},
        {ETCD_LEASE_GRANT, "{" HEADER ",\"ID\":\"7\"}", "lease"},
        {ETCD_LEASE_GRANT, "{" HEADER ",\"ID\":\"7\",\"TTL\":\"-1\"}", "negative"},
        {ETCD_AUTHENTICATE, "{" HEADER "}", "token"},
        {ETCD_AUTHENTICATE, "{" HEADER ",\"token\":\"\"}", "token"},
        {ETCD_AUTHENTICATE, "{" HEADER ",\"token\":\"a\\r\\nHost: b\"}", "token"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct etcd_reply reply;
        struct error error = {0};
        if (decode(cases[i].operation, cases[i].text, &reply, &error) != -EPROTO ||
            strstr(error.text, cases[i].words) == NULL)
            fail_msg("%s: %s", cases[i].text, error.text);
    }
}

static void test_too_long_keys_and_values(void **state)
{
    (void)state;
    struct etcd_reply reply;
    struct error error;
    struct bytes text = {0};
    assert_int_equal(bytes_append_format(&text, "{" HEADER ",\"kvs\":[{\"key\":\""), 0);
    for (unsigned i = 0; i < KV_KEY_MAX / 3 + 1; i++)
        assert_int_equal(bytes_append(&text, "YWFh", 4), 0);
    assert_int_equal(bytes_append_format(&text, "\"}]}%c", 0), 0);
    assert_int_equal(decode(ETCD_RANGE, (char *)text.data, &reply, &error), -EPROTO);
    text.size_bytes = 0;
    assert_int_equal(
        bytes_append_format(&text, "{" HEADER ",\"kvs\":[{\"key\":\"L2E=\",\"value\":\""), 0);
    for (unsigned i = 0; i < KV_VALUE_MAX / 3 + 1; i++)
        assert_int_equal(bytes_append(&text, "YWFh", 4), 0);
    assert_int_equal(bytes_append_format(&text, "\"}]}%c", 0), 0);
    assert_int_equal(decode(ETCD_RANGE, (char *)text.data, &reply, &error), -EPROTO);
    assert_non_null(strstr(error.text, "key /a"));
    bytes_done(&text);
}

static int decode_watch(const char *text, struct etcd_watch_message *ret_message,
                        struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    assert_int_equal(json_parse(text, strlen(text), "test", &tree, error), 0);
    return etcd_decode_watch(tree, ret_message, error);
}

static void test_decode_watch(void **state)
{
    (void)state;
    struct etcd_watch_message message;
    struct error error;
    assert_int_equal(decode_watch("{" HEADER ",\"created\":true}", &message, &error), 0);
    assert_true(message.created && message.answers_us && !message.canceled);
    assert_int_equal(decode_watch("{" HEADER ",\"watch_id\":\"-1\"}", &message, &error), 0);
    assert_false(message.answers_us);
    assert_int_equal(
        decode_watch("{" HEADER ",\"canceled\":true,\"compact_revision\":\"9\"}", &message, &error),
        0);
    assert_true(message.canceled);
    assert_int_equal(message.compact_revision, 9);
    assert_int_equal(decode_watch("{" HEADER ",\"events\":[{\"kv\":{\"key\":\"L2E=\","
                                  "\"mod_revision\":\"11\",\"value\":\"MQ==\"}},"
                                  "{\"type\":\"DELETE\",\"kv\":{\"key\":\"L2I=\"}}]}",
                                  &message, &error),
                     0);
    assert_int_equal(message.event_count, 2);
    assert_false(message.events[0].deleted);
    assert_string_equal(message.events[0].entry.value, "1");
    assert_int_equal(message.events[0].entry.mod_revision, 11);
    assert_true(message.events[1].deleted);
    assert_string_equal(message.events[1].entry.key, "/b");
    etcd_watch_message_done(&message);
}

static void test_decode_watch_refuses(void **state)
{
    static const char *const texts[] = {
        "[1]",
        "{}",
        "{" HEADER ",\"watch_id\":\"x\"}",
        "{" HEADER ",\"compact_revision\":\"99999999999999999999\"}",
        "{" HEADER ",\"events\":5}",
        "{" HEADER ",\"events\":[5]}",
        "{" HEADER ",\"events\":[{}]}",
        "{" HEADER ",\"events\":[{\"type\":\"MOVE\",\"kv\":{\"key\":\"L2E=\"}}]}",
        "{" HEADER ",\"events\":[{\"type\":1,\"kv\":{\"key\":\"L2E=\"}}]}",
        "{" HEADER ",\"events\":[{\"kv\":{\"key\":\"L2E=\"}},{\"kv\":{\"key\":\"?\"}}]}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct etcd_watch_message message;
        struct error error = {0};
        if (decode_watch(texts[i], &message, &error) != -EPROTO || error.text[0] == '\0')
            fail_msg("%s", texts[i]);
    }
}

static void test_failures(void **state)
{
    static const struct {
        const char *text;
        long http_code;
        enum etcd_verdict verdict;
        int status;
    } cases[] = {
        {"{\"error\":\"etcdserver: no leader\",\"code\":14}", 503, ETCD_VERDICT_ELSEWHERE,
         -EHOSTUNREACH},
        {"{\"error\":{\"grpc_code\":14,\"message\":\"etcdserver: no leader\"}}", 200,
         ETCD_VERDICT_ELSEWHERE, -EHOSTUNREACH},
        {"{\"error\":\"etcdserver: request timed out\",\"code\":14}", 503, ETCD_VERDICT_UNKNOWN,
         -EHOSTUNREACH},
        {"{\"error\":\"context deadline exceeded\",\"code\":4}", 504, ETCD_VERDICT_UNKNOWN,
         -ETIMEDOUT},
        {"{\"error\":\"etcdserver: invalid auth token\",\"code\":16}", 401, ETCD_VERDICT_TOKEN,
         -EACCES},
        {"{\"error\":\"etcdserver: user name is empty\",\"code\":3}", 400, ETCD_VERDICT_TOKEN,
         -EACCES},
        {"{\"error\":\"etcdserver: authentication failed, invalid user ID or password\",\"code\":3}",
         400, ETCD_VERDICT_FINAL, -EACCES},
        {"{\"error\":\"etcdserver: requested lease not found\",\"code\":5}", 404,
         ETCD_VERDICT_FINAL, -ENOENT},
        {"{\"error\":\"etcdserver: mvcc: database space exceeded\",\"code\":8}", 429,
         ETCD_VERDICT_FINAL, -ENOSPC},
        {"{\"error\":\"a b\\u001b[31m\",\"code\":3}", 400, ETCD_VERDICT_FINAL, -EINVAL},
        {"{}", 404, ETCD_VERDICT_FINAL, -EPROTO},
        {"{}", 502, ETCD_VERDICT_UNKNOWN, -EHOSTUNREACH},
        {"{\"error\":7,\"code\":\"x\"}", 200, ETCD_VERDICT_FINAL, -EPROTO},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        AUTO_JSON json_t *tree = NULL;
        struct etcd_failure failure;
        assert_int_equal(json_parse(cases[i].text, strlen(cases[i].text), "test", &tree, NULL), 0);
        etcd_decode_failure(tree, cases[i].http_code, &failure);
        if (failure.verdict != cases[i].verdict || failure.status != cases[i].status)
            fail_msg("%s: verdict %d, status %d", cases[i].text, (int)failure.verdict,
                     failure.status);
        assert_null(strchr(failure.text, '\x1b'));
    }
    struct etcd_failure failure;
    etcd_decode_failure(NULL, 500, &failure);
    assert_int_equal(failure.verdict, ETCD_VERDICT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode),         cmocka_unit_test(test_encode_txn),
        cmocka_unit_test(test_decode_range),   cmocka_unit_test(test_decode_others),
        cmocka_unit_test(test_decode_refuses), cmocka_unit_test(test_too_long_keys_and_values),
        cmocka_unit_test(test_decode_watch),   cmocka_unit_test(test_decode_watch_refuses),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
