/* Tests of messages of words: words come out in the order of writing, and no reader passes the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/words.h"

static struct words_reader reader_of(const struct bytes *bytes)
{
    return (struct words_reader){.at = bytes->data, .count = bytes->size_bytes / 8};
}

static void test_words_come_back_in_order(void **state)
{
    (void)state;
    CLEANUP(bytes_done) struct bytes bytes = {0};
    struct words_writer writer = {.bytes = &bytes};
    words_put(&writer, 7);
    words_put(&writer, UINT64_MAX);
    words_put(&writer, 0);
    assert_int_equal(writer.status, 0);
    assert_int_equal(bytes.size_bytes, 24);
    assert_int_equal(bytes.data[0], 7); /* little-endian */
    struct words_reader reader = reader_of(&bytes);
    assert_int_equal(words_take_below(&reader, 8), 7);
    assert_true(words_take(&reader) == UINT64_MAX);
    assert_int_equal(words_take(&reader), 0);
    assert_int_equal(reader.status, 0);
    assert_int_equal(reader.count, 0);
}

static void test_a_missing_word_is_an_error_from_then_on(void **state)
{
    (void)state;
    CLEANUP(bytes_done) struct bytes bytes = {0};
    struct words_writer writer = {.bytes = &bytes};
    words_put(&writer, 5);
    struct words_reader reader = reader_of(&bytes);
    assert_int_equal(words_take(&reader), 5);
    assert_int_equal(words_take(&reader), 0);
    assert_int_equal(reader.status, -EBADMSG);
    assert_int_equal(words_take(&reader), 0);
}

static void test_a_word_out_of_range_is_an_error(void **state)
{
    (void)state;
    CLEANUP(bytes_done) struct bytes bytes = {0};
    struct words_writer writer = {.bytes = &bytes};
    words_put(&writer, 5);
    words_put(&writer, 1);
    struct words_reader reader = reader_of(&bytes);
    assert_int_equal(words_take_below(&reader, 5), 0);
    assert_int_equal(reader.status, -EBADMSG);
    assert_int_equal(words_take(&reader), 0); /* and nothing after it counts */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_come_back_in_order),
        cmocka_unit_test(test_a_missing_word_is_an_error_from_then_on),
        cmocka_unit_test(test_a_word_out_of_range_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
