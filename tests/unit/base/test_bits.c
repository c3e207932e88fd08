/* Exact values as text: every pattern survives, and only the canonical text is read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/hex.h"

static void test_known_values_have_known_texts(void **state)
{
    (void)state;
    char text[BITS64_TEXT_SIZE];
    bits64_text(1.0, text);
    assert_string_equal(text, "3ff0000000000000");
    bits64_text(-0.0, text);
    assert_string_equal(text, "8000000000000000");
    bits64_text(-2.5, text);
    assert_string_equal(text, "c004000000000000");
}

static void test_every_kind_of_value_survives(void **state)
{
    (void)state;
    const double values[] = {0.0,     -0.0,     1.0 / 3,   DBL_MIN, DBL_TRUE_MIN,
                             DBL_MAX, INFINITY, -INFINITY, NAN,     -NAN};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char text[BITS64_TEXT_SIZE];
        double back;
        bits64_text(values[i], text);
        assert_true(bits64_parse(text, &back));
        assert_memory_equal(&back, &values[i], sizeof(back));
    }
}

static void test_other_texts_are_refused(void **state)
{
    (void)state;
    const char *texts[] = {"",
                           "3ff000000000000",
                           "3ff00000000000000",
                           "3FF0000000000000",
                           "0x3ff00000000000",
                           "3ff00000 0000000",
                           "-3ff000000000000"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        double value = 5;
        assert_false(bits64_parse(texts[i], &value));
        assert_true(value == 5);
    }
}

static void test_hex_keeps_its_width(void **state)
{
    (void)state;
    char text[17];
    uint64_t value;
    hex_text(0xab, 4, text);
    assert_string_equal(text, "00ab");
    assert_true(hex_parse("00abzz", 4, &value));
    assert_int_equal(value, 0xab);
    hex_text(UINT64_MAX, 16, text);
    assert_string_equal(text, "ffffffffffffffff");
    assert_true(hex_parse(text, 16, &value));
    assert_true(value == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values_have_known_texts),
        cmocka_unit_test(test_every_kind_of_value_survives),
        cmocka_unit_test(test_other_texts_are_refused),
        cmocka_unit_test(test_hex_keeps_its_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
