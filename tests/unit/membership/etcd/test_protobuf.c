/* Tests of the wire format, byte by byte, and of invalid bytes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "membership/etcd/protobuf.h"

static void assert_bytes(struct bytes *bytes, const char *want, size_t want_bytes)
{
    assert_int_equal(bytes->size_bytes, want_bytes);
    assert_memory_equal(bytes->data, want, want_bytes);
    bytes_done(bytes);
}

#define ASSERT_BYTES(bytes, want) assert_bytes(bytes, want, sizeof(want) - 1)

static void test_integers(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    assert_int_equal(protobuf_put_int(&bytes, 1, 0), 0);
    assert_int_equal(bytes.size_bytes, 0); /* left out */
    assert_int_equal(protobuf_put_int(&bytes, 1, 150), 0);
    ASSERT_BYTES(&bytes, "\x08\x96\x01"); /* the specification's own example */
    assert_int_equal(protobuf_put_int(&bytes, 64, -1), 0);
    ASSERT_BYTES(&bytes, "\x80\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    assert_int_equal(protobuf_put_int(&bytes, 2, INT64_MAX), 0);
    ASSERT_BYTES(&bytes, "\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
}

static void test_bytes(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    assert_int_equal(protobuf_put_text(&bytes, 2, "testing"), 0);
    ASSERT_BYTES(&bytes, "\x12\x07testing");
    assert_int_equal(protobuf_put_bytes(&bytes, 2, NULL, 0), 0);
    assert_int_equal(bytes.size_bytes, 0);
}

/* A message's length takes one byte up to 127 and more above: it is put in front afterwards. */
static void test_messages(void **state)
{
    (void)state;
    for (size_t size_bytes = 0; size_bytes < 20000; size_bytes = size_bytes * 2 + 1) {
        struct bytes bytes = {0};
        size_t outer, inner;
        char *text = malloc(size_bytes + 1);
        assert_non_null(text);
        memset(text, 'x', size_bytes);
        assert_int_equal(protobuf_begin(&bytes, 3, &outer), 0);
        assert_int_equal(protobuf_begin(&bytes, 4, &inner), 0);
        assert_int_equal(protobuf_put_bytes(&bytes, 5, text, size_bytes), 0);
        assert_int_equal(protobuf_end(&bytes, inner), 0);
        assert_int_equal(protobuf_put_int(&bytes, 6, 7), 0);
        assert_int_equal(protobuf_end(&bytes, outer), 0);
        struct protobuf_reader reader = {bytes.data, bytes.size_bytes};
        struct protobuf_field field;
        assert_int_equal(protobuf_next(&reader, &field), 1);
        assert_int_equal(protobuf_next(&reader, &field), 0);
        assert_int_equal(field.number, 3);
        reader = protobuf_reader_of(&field);
        assert_int_equal(protobuf_next(&reader, &field), 1);
        assert_int_equal(field.number, 4);
        struct protobuf_reader within = protobuf_reader_of(&field);
        assert_int_equal(protobuf_next(&reader, &field), 1);
        assert_int_equal(field.number, 6);
        assert_int_equal(field.value, 7);
        assert_int_equal(protobuf_next(&within, &field), size_bytes > 0);
        assert_true(size_bytes == 0 || field.size_bytes == size_bytes);
        free(text);
        bytes_done(&bytes);
    }
}

static void test_unknown_types_are_told(void **state)
{
    (void)state;
    static const uint8_t message[] = {0x0d, 1, 2, 3, 4, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x18, 9};
    struct protobuf_reader reader = {message, sizeof(message)};
    struct protobuf_field field;
    assert_int_equal(protobuf_next(&reader, &field), 1);
    assert_true(field.type == PROTOBUF_FIXED && field.size_bytes == 4);
    assert_int_equal(protobuf_next(&reader, &field), 1);
    assert_true(field.type == PROTOBUF_FIXED && field.size_bytes == 8);
    assert_int_equal(protobuf_next(&reader, &field), 1);
    assert_true(field.type == PROTOBUF_INT && field.number == 3 && field.value == 9);
    assert_int_equal(protobuf_next(&reader, &field), 0);
}

static void test_what_is_no_message(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size_bytes;
    } cases[] = {
        {"\x08", 1},                                              /* no value */
        {"\x08\x80", 2},                                          /* cut */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11},     /* 65 bits */
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12}, /* too long */
        {"\x12\x05test", 6},                                      /* bytes cut */
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},     /* 2^64 - 1 bytes */
        {"\x0d\x01\x02", 3},                                      /* four bytes cut */
        {"\x0b\x0c", 2},                                          /* a group */
        {"\x02\x00", 2},                                          /* field 0 */
        {"\x82\x80\x80\x80\x10\x00", 6},                          /* field 2^29 */
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct protobuf_reader reader = {(const uint8_t *)cases[i].bytes, cases[i].size_bytes};
        struct protobuf_field field;
        if (protobuf_next(&reader, &field) != -EPROTO)
            fail_msg("case %zu is taken", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),           cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_messages),           cmocka_unit_test(test_unknown_types_are_told),
        cmocka_unit_test(test_what_is_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
