#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "membership/base64.h"

/* The test vectors of RFC 4648, section 10. */
static const char *const vectors[][2] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(vectors); i++) {
        const char *plain = vectors[i][0], *coded = vectors[i][1];
        struct bytes text = {0};
        char data[64];
        size_t size_bytes;
        assert_int_equal(base64_append(&text, plain, strlen(plain)), 0);
        assert_int_equal(text.size_bytes, strlen(coded));
        assert_true(text.size_bytes == 0 || memcmp(text.data, coded, text.size_bytes) == 0);
        assert_true(base64_decode(coded, strlen(coded), data, &size_bytes));
        assert_int_equal(size_bytes, strlen(plain));
        assert_memory_equal(data, plain, size_bytes);
        bytes_done(&text);
    }
}

static void test_every_byte_at_every_place(void **state)
{
    (void)state;
    for (unsigned value = 0; value < 256; value++) {
        for (size_t length = 1; length <= 4; length++) {
            unsigned char plain[4] = {(unsigned char)value, (unsigned char)(value * 7),
                                      (unsigned char)~value, (unsigned char)value};
            unsigned char back[6];
            struct bytes text = {0};
            size_t size_bytes;
            assert_int_equal(base64_append(&text, plain, length), 0);
            assert_true(base64_decode((char *)text.data, text.size_bytes, back, &size_bytes));
            assert_int_equal(size_bytes, length);
            assert_memory_equal(back, plain, length);
            bytes_done(&text);
        }
    }
}

static void test_malformed_texts(void **state)
{
    static const char *const texts[] = {"Z",     "Zg",   "Zg=",         "Zg===",    "Z===", "====",
                                        "Zm9v=", "Zh==", "Zm9=",        "Zg==Zg==", "Zm 9", "Zm\n9",
                                        "Zm9-",  "Z=9v", "Zm9vZ\xc3==", "=m9v"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        char data[64];
        size_t size_bytes = 99;
        assert_false(base64_decode(texts[i], strlen(texts[i]), data, &size_bytes));
        assert_int_equal(size_bytes, 99);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_every_byte_at_every_place),
        cmocka_unit_test(test_malformed_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
