/* Requests to etcd and its possible answers, byte by byte; no etcd is needed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "membership/etcd/etcd_codec.h"
#include "membership/etcd/protobuf.h"

/* A message written out: its length is that of the literal. */
#define WIRE(text) ((const uint8_t *)(text)), sizeof(text) - 1

#define HEADER "\x0a\x04\x08\x20\x18\x0c" /* cluster 32, revision 12 */

static void assert_body(struct bytes *body, const uint8_t *want, size_t want_bytes)
{
    assert_int_equal(body->size_bytes, want_bytes);
    if (want_bytes > 0)
        assert_memory_equal(body->data, want, want_bytes);
    bytes_done(body);
}

static void test_encode(void **state)
{
    (void)state;
    struct bytes body = {0};
    assert_int_equal(etcd_encode_range_below(&body, &(struct etcd_range){.prefix = "/a/"}), 0);
    assert_body(&body, WIRE("\x0a\x03/a/\x12\x03/a0"));
    const struct etcd_range probe = {
        .prefix = "/a/", .before = "/a/n", .limit = 1, .keys_only = true};
    assert_int_equal(etcd_encode_range_below(&body, &probe), 0);
    assert_body(&body, WIRE("\x0a\x03/a/\x12\x04/a/n\x18\x01\x40\x01"));
    const struct etcd_range page = {.prefix = "/a/", .after = "/a/b", .limit = 2, .revision = 7};
    assert_int_equal(etcd_encode_range_below(&body, &page), 0);
    assert_body(&body, WIRE("\x0a\x05/a/b\x00\x12\x03/a0\x18\x02\x20\x07"));
    assert_int_equal(etcd_encode_range(&body, "/a/b"), 0);
    assert_body(&body, WIRE("\x0a\x04/a/b"));
    assert_int_equal(etcd_encode_watch(&body, "/a/", NULL, 13), 0);
    assert_body(&body, WIRE("\x0a\x0e\x0a\x03/a/\x12\x03/a0\x18\x0d\x20\x01"));
    assert_int_equal(etcd_encode_progress(&body), 0);
    assert_body(&body, WIRE("\x1a\x00"));
    assert_int_equal(etcd_encode_lease_grant(&body, 10), 0);
    assert_body(&body, WIRE("\x08\x0a"));
    assert_int_equal(etcd_encode_lease(&body, INT64_MIN), 0);
    assert_body(&body, WIRE("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"));
    assert_int_equal(etcd_encode_authenticate(&body, "a\"b", "\n"), 0);
    assert_body(&body, WIRE("\x0a\x03"
                            "a\"b\x12\x01\n"));
}

static void test_encode_txn(void **state)
{
    (void)state;
    struct bytes body = {0};
    const struct kv_compare compares[] = {
        {.key = "a", .target = KV_CREATE_REVISION, .value = 0},
        {.key = "b", .target = KV_MOD_REVISION, .value = 300},
        {.key = "c", .target = KV_VERSION, .value = 3},
        {.key = "a", .target = KV_NOT_AFTER, .value = 7, .before = "c"}};
    const struct kv_operation operations[] = {
        {.type = KV_PUT, .key = "a", .value = "x", .lease = 5},
        {.type = KV_DELETE, .key = "b"},
        {.type = KV_DELETE_PREFIX, .key = "c/"}};
    assert_int_equal(etcd_encode_txn(&body, compares, 4, operations, 3), 0);
    assert_body(&body, WIRE("\x0a\x05\x10\x01\x1a\x01"
                            "a"
                            "\x0a\x08\x10\x02\x1a\x01"
                            "b\x30\xac\x02"
                            "\x0a\x05\x1a\x01"
                            "c\x20\x03"
                            "\x0a\x0d\x08\x02\x10\x02\x1a\x01"
                            "a\x30\x08\x82\x04\x01"
                            "c"
                            "\x12\x0a\x12\x08\x0a\x01"
                            "a\x12\x01x\x18\x05"
                            "\x12\x05\x1a\x03\x0a\x01"
                            "b"
                            "\x12\x0a\x1a\x08\x0a\x02"
                            "c/\x12\x02"
                            "c0"));
    assert_int_equal(etcd_encode_txn(&body, NULL, 0, NULL, 0), 0);
    assert_body(&body, NULL, 0);
}

static void test_decode_range(void **state)
{
    (void)state;
    struct etcd_reply reply;
    struct error error;
    assert_int_equal(etcd_decode_reply(ETCD_RANGE,
                                       WIRE(HEADER "\x12\x1b\x0a\x02/a\x10\x02"
                                                   "\x18\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
                                                   "\x20\x03\x2a\x02\0b"
                                                   "\x30\x04\x7a\x01z"
                                                   "\x12\x04\x0a\x02/b\x20\x02"),
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
    assert_int_equal(entry->lease, 4);
    assert_string_equal(entry[1].key, "/b");
    assert_string_equal(entry[1].value, "");
    etcd_reply_done(&reply);
    assert_int_equal(etcd_decode_reply(ETCD_RANGE, WIRE(HEADER), &reply, &error), 0);
    assert_int_equal(reply.result.entry_count, 0);
    etcd_reply_done(&reply);
}

static void test_decode_others(void **state)
{
    (void)state;
    struct etcd_reply reply;
    struct error error;
    assert_int_equal(etcd_decode_reply(ETCD_TXN, WIRE(HEADER "\x10\x01"), &reply, &error), 0);
    assert_true(reply.result.succeeded);
    assert_int_equal(etcd_decode_reply(ETCD_TXN, WIRE(HEADER), &reply, &error), 0);
    assert_false(reply.result.succeeded);
    assert_int_equal(
        etcd_decode_reply(ETCD_LEASE_GRANT, WIRE(HEADER "\x10\x07\x18\x0a"), &reply, &error), 0);
    assert_int_equal(reply.result.lease, 7);
    assert_int_equal(reply.result.ttl_seconds, 10);
    assert_int_equal(
        etcd_decode_reply(ETCD_LEASE_KEEP_ALIVE, WIRE(HEADER "\x10\x07"), &reply, &error), 0);
    assert_int_equal(reply.result.ttl_seconds, 0);
    assert_int_equal(etcd_decode_reply(ETCD_LEASE_REVOKE, WIRE(HEADER), &reply, &error), 0);
    assert_int_equal(
        etcd_decode_reply(ETCD_AUTHENTICATE, WIRE(HEADER "\x12\x03x.1"), &reply, &error), 0);
    assert_string_equal(reply.token, "x.1");
    etcd_reply_done(&reply);
}

#define MINUS_ONE "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"

static void test_decode_refuses(void **state)
{
    static const struct {
        enum etcd_operation operation;
        const uint8_t *message;
        size_t message_bytes;
        const char *words;
    } cases[] = {
        {ETCD_RANGE, WIRE(""), "header"},
        {ETCD_RANGE, WIRE("\x08\x01"), "header"},
        {ETCD_RANGE, WIRE("\x0a\x02\x18"), "protocol"},
        {ETCD_RANGE, WIRE("\x0a\x02\x1a\x00"), "revision"},
        {ETCD_RANGE, WIRE("\x0a\x01\x18"), "header"},
        {ETCD_RANGE, WIRE("\x0a\x0b\x18" MINUS_ONE), "negative"},
        {ETCD_RANGE, WIRE(HEADER "\x10\x01"), "kvs"},
        {ETCD_RANGE, WIRE(HEADER "\x12\x01\x0a"), "protocol"},
        {ETCD_RANGE, WIRE(HEADER "\x12\x00"), "empty"},
        {ETCD_RANGE, WIRE(HEADER "\x12\x02\x08\x05"), "key"},
        {ETCD_RANGE, WIRE(HEADER "\x12\x04\x0a\x02\0b"), "zero byte"},
        {ETCD_RANGE, WIRE(HEADER "\x12\x06\x0a\x02/a\x28\x01"), "key /a"},
        {ETCD_RANGE, WIRE(HEADER "\x12\x0f\x0a\x02/a\x20" MINUS_ONE), "negative"},
        {ETCD_TXN, WIRE(HEADER "\x12\x01x"), "succeeded"},
        {ETCD_LEASE_GRANT, WIRE(HEADER), "lease"},
        {ETCD_LEASE_GRANT, WIRE(HEADER "\x10\x07"), "lease"},
        {ETCD_LEASE_GRANT, WIRE(HEADER "\x10\x07\x18" MINUS_ONE), "negative"},
        {ETCD_AUTHENTICATE, WIRE(HEADER), "token"},
        {ETCD_AUTHENTICATE, WIRE(HEADER "\x12\x00"), "token"},
        {ETCD_AUTHENTICATE, WIRE(HEADER "\x12\x04x\r\ny"), "token"},
        {ETCD_AUTHENTICATE, WIRE(HEADER "\x12\x01x\x12\x01y"), "token"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct etcd_reply reply;
        struct error error = {0};
        if (etcd_decode_reply(cases[i].operation, cases[i].message, cases[i].message_bytes, &reply,
                              &error) != -EPROTO ||
            !strstr(error.text, cases[i].words))
            fail_msg("case %zu: %s", i, error.text);
    }
}

/* An answer with one key of @key_bytes and a value of @value_bytes. */
static int decode_sizes(size_t key_bytes, size_t value_bytes, struct error *error)
{
    struct bytes message = {0};
    struct etcd_reply reply = {0};
    size_t mark;
    char *text = malloc(MAX(key_bytes, value_bytes));
    assert_non_null(text);
    memset(text, 'a', MAX(key_bytes, value_bytes));
    assert_int_equal(bytes_append(&message, HEADER, sizeof(HEADER) - 1), 0);
    assert_int_equal(protobuf_begin(&message, 2, &mark), 0);
    assert_int_equal(protobuf_put_bytes(&message, 1, text, key_bytes), 0);
    assert_int_equal(protobuf_put_bytes(&message, 5, text, value_bytes), 0);
    assert_int_equal(protobuf_end(&message, mark), 0);
    int status = etcd_decode_reply(ETCD_RANGE, message.data, message.size_bytes, &reply, error);
    etcd_reply_done(&reply);
    bytes_done(&message);
    free(text);
    return status;
}

static void test_too_long_keys_and_values(void **state)
{
    (void)state;
    struct error error;
    assert_int_equal(decode_sizes(KV_KEY_MAX - 1, KV_VALUE_MAX, &error), 0);
    assert_int_equal(decode_sizes(KV_KEY_MAX, 1, &error), -EPROTO);
    assert_int_equal(decode_sizes(1, KV_VALUE_MAX + 1, &error), -EPROTO);
    assert_non_null(strstr(error.text, "key a"));
}

static void test_decode_watch(void **state)
{
    (void)state;
    struct etcd_watch_message message;
    struct error error;
    assert_int_equal(etcd_decode_watch(WIRE(HEADER "\x18\x01"), &message, &error), 0);
    assert_true(message.created && message.answers_us && !message.canceled);
    assert_int_equal(etcd_decode_watch(WIRE(HEADER "\x10" MINUS_ONE), &message, &error), 0);
    assert_false(message.answers_us);
    assert_int_equal(
        etcd_decode_watch(WIRE(HEADER "\x20\x01\x28\x09\x32\x03why"), &message, &error), 0);
    assert_true(message.canceled);
    assert_int_equal(message.compact_revision, 9);
    assert_string_equal(message.cancel_reason, "why");
    assert_int_equal(etcd_decode_watch(WIRE(HEADER "\x5a\x0b\x12\x09\x0a\x02/a\x18\x0b\x2a\x01"
                                                   "1"
                                                   "\x5a\x08\x08\x01\x12\x04\x0a\x02/b"),
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
    static const struct {
        const uint8_t *message;
        size_t message_bytes;
    } cases[] = {
        {WIRE("")},
        {WIRE("x")},
        {WIRE(HEADER "\x12\x01x")},                          /* the watch's number */
        {WIRE(HEADER "\x28" MINUS_ONE)},                     /* compacted at */
        {WIRE(HEADER "\x58\x05")},                           /* events */
        {WIRE(HEADER "\x5a\x01\x05")},                       /* an event */
        {WIRE(HEADER "\x5a\x00")},                           /* without a key */
        {WIRE(HEADER "\x5a\x08\x08\x02\x12\x04\x0a\x02/a")}, /* of a third kind */
        {WIRE(HEADER "\x5a\x06\x12\x04\x0a\x02/a\x5a\x06\x12\x04\x0a\x02\0a")},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct etcd_watch_message message;
        struct error error = {0};
        if (etcd_decode_watch(cases[i].message, cases[i].message_bytes, &message, &error) !=
                -EPROTO ||
            error.text[0] == '\0')
            fail_msg("case %zu", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode),         cmocka_unit_test(test_encode_txn),
        cmocka_unit_test(test_decode_range),   cmocka_unit_test(test_decode_others),
        cmocka_unit_test(test_decode_refuses), cmocka_unit_test(test_too_long_keys_and_values),
        cmocka_unit_test(test_decode_watch),   cmocka_unit_test(test_decode_watch_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
