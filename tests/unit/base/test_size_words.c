#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/size_words.h"

static void test_powers_of_1024(void **state)
{
    char text[SIZE_WORDS_SIZE];

    (void)state;
    assert_string_equal(size_words(0, text), "0 B");
    assert_string_equal(size_words(1023, text), "1023 B");
    assert_string_equal(size_words(1536, text), "1.5 KiB");
    assert_string_equal(size_words((1u << 20) - 1, text), "1.0 MiB");
    assert_string_equal(size_words(80ull << 30, text), "80.0 GiB");
    assert_string_equal(size_words(UINT64_MAX, text), "16.0 EiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_powers_of_1024),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
