/* Tests that the byte buffer returns its content, and of the little-endian words at their extremes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"

static void test_appended_bytes_come_out_in_order(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    for (unsigned i = 0; i < 5000; i++) {
        uint8_t byte = (uint8_t)(i * 7);
        assert_int_equal(bytes_append(&bytes, &byte, 1), 0);
    }
    assert_int_equal(bytes.size_bytes, 5000);
    for (unsigned i = 0; i < 5000; i++)
        assert_int_equal(bytes.data[i], (uint8_t)(i * 7));
    bytes_done(&bytes);
    assert_null(bytes.data);
    bytes_done(&bytes);
}

static void test_nothing_appended_is_nothing_allocated(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    assert_int_equal(bytes_append(&bytes, NULL, 0), 0);
    assert_null(bytes.data);
}

static void test_a_size_that_overflows_changes_nothing(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    assert_int_equal(bytes_append(&bytes, "ab", 2), 0);
    assert_int_equal(bytes_append(&bytes, "", SIZE_MAX), -ENOMEM);
    assert_int_equal(bytes.size_bytes, 2);
    assert_memory_equal(bytes.data, "ab", 2);
    bytes_done(&bytes);
}

static void test_format_appends_without_its_zero(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    assert_int_equal(bytes_append_format(&bytes, "%s=%d;", "x", 5), 0);
    assert_int_equal(bytes_append_format(&bytes, "%0300d", 1), 0);
    assert_int_equal(bytes_append(&bytes, "!", 1), 0);
    assert_int_equal(bytes.size_bytes, 305);
    assert_memory_equal(bytes.data, "x=5;0", 5);
    assert_memory_equal(bytes.data + 302, "01!", 3);
    bytes_done(&bytes);
}

/* The closing zero must have room too: the sanitizer sees it when it has not. */
static void test_format_fits_at_every_length(void **state)
{
    (void)state;
    for (int length = 1; length < 600; length++) {
        struct bytes bytes = {0};
        assert_int_equal(bytes_append_format(&bytes, "%0*d", length, 7), 0);
        assert_int_equal(bytes.size_bytes, length);
        assert_true(bytes.size_bytes < bytes.capacity_bytes);
        assert_int_equal(bytes.data[length - 1], '7');
        bytes_done(&bytes);
    }
}

static void test_consume_drops_from_the_front(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    bytes_consume(&bytes, 3);
    assert_int_equal(bytes_append(&bytes, "abcdef", 6), 0);
    bytes_consume(&bytes, 0);
    bytes_consume(&bytes, 2);
    assert_int_equal(bytes.size_bytes, 4);
    assert_memory_equal(bytes.data, "cdef", 4);
    bytes_consume(&bytes, 100);
    assert_int_equal(bytes.size_bytes, 0);
    assert_int_equal(bytes_append(&bytes, "g", 1), 0);
    assert_memory_equal(bytes.data, "g", 1);
    bytes_done(&bytes);
}

static void test_words_are_little_endian_anywhere(void **state)
{
    (void)state;
    uint8_t at[9] = {0};
    bytes_put_u16(at + 1, 0xf1e2);
    assert_memory_equal(at + 1, "\xe2\xf1", 2);
    assert_int_equal(bytes_get_u16(at + 1), 0xf1e2);
    bytes_put_u32(at + 1, 0xf1e2d3c4);
    assert_memory_equal(at + 1, "\xc4\xd3\xe2\xf1", 4);
    assert_true(bytes_get_u32(at + 1) == 0xf1e2d3c4);
    bytes_put_u64(at + 1, 0xf1e2d3c4b5a69788);
    assert_memory_equal(at + 1, "\x88\x97\xa6\xb5\xc4\xd3\xe2\xf1", 8);
    assert_true(bytes_get_u64(at + 1) == 0xf1e2d3c4b5a69788);
    assert_int_equal(at[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appended_bytes_come_out_in_order),
        cmocka_unit_test(test_nothing_appended_is_nothing_allocated),
        cmocka_unit_test(test_a_size_that_overflows_changes_nothing),
        cmocka_unit_test(test_format_appends_without_its_zero),
        cmocka_unit_test(test_format_fits_at_every_length),
        cmocka_unit_test(test_consume_drops_from_the_front),
        cmocka_unit_test(test_words_are_little_endian_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
