/* Error texts: returned code, context in front, and cutting instead of overrunning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"

static void test_set_returns_the_code_and_keeps_the_text(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(error_set(&error, -EINVAL, "line %d", 7), -EINVAL);
    assert_int_equal(error.code, -EINVAL);
    assert_string_equal(error.text, "line 7");
    assert_int_equal(error_set(NULL, -EIO, "nobody reads this"), -EIO);
    error_clear(&error);
    assert_int_equal(error.code, 0);
    assert_string_equal(error.text, "");
    error_clear(NULL);
}

static void test_set_may_quote_the_text_it_replaces(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(error_set(&error, -EIO, "disk"), -EIO);
    assert_int_equal(error_set(&error, -EINVAL, "because: %s", error.text), -EINVAL);
    assert_string_equal(error.text, "because: disk");
}

static void test_prefix_goes_in_front_of_a_set_error_only(void **state)
{
    (void)state;
    struct error error = {0};
    error_prefix(&error, "reading %s: ", "a");
    assert_string_equal(error.text, "");
    assert_int_equal(error_set(&error, -EIO, "disk"), -EIO);
    error_prefix(&error, "reading %s: ", "a");
    error_prefix(NULL, "nowhere");
    assert_string_equal(error.text, "reading a: disk");
    assert_int_equal(error.code, -EIO);
}

static void test_long_texts_are_cut(void **state)
{
    (void)state;
    char longer[3 * ERROR_TEXT_SIZE];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    struct error error = {0};
    assert_int_equal(error_set(&error, -EINVAL, "%s", longer), -EINVAL);
    assert_int_equal(strlen(error.text), ERROR_TEXT_SIZE - 1);
    error_prefix(&error, "here: ");
    assert_int_equal(strlen(error.text), ERROR_TEXT_SIZE - 1);
    assert_memory_equal(error.text, "here: xxx", 9);
    error_prefix(&error, "%s", longer);
    assert_int_equal(strlen(error.text), ERROR_TEXT_SIZE - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_returns_the_code_and_keeps_the_text),
        cmocka_unit_test(test_set_may_quote_the_text_it_replaces),
        cmocka_unit_test(test_prefix_goes_in_front_of_a_set_error_only),
        cmocka_unit_test(test_long_texts_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
