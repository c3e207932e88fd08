/* Published check values, and that pieces add up to the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"

static void fill(uint8_t *data, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++)
        data[i] = (uint8_t)(i * i + 3 * i);
}

/* RFC 3720, appendix B.4, and the check value of every CRC catalogue. */
static void test_crc32c_matches_the_standard(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], rising[32];
    for (unsigned i = 0; i < 32; i++) {
        ones[i] = 0xff;
        rising[i] = (uint8_t)i;
    }
    assert_true(hash_crc32c(0, "123456789", 9) == 0xE3069283);
    assert_true(hash_crc32c(0, zeros, 32) == 0x8A9136AA);
    assert_true(hash_crc32c(0, ones, 32) == 0x62A8AB43);
    assert_true(hash_crc32c(0, rising, 32) == 0x46DD794E);
    assert_true(hash_crc32c(0, NULL, 0) == 0);
}

static void test_crc32c_continues(void **state)
{
    (void)state;
    uint8_t data[300];
    fill(data, sizeof(data));
    uint32_t whole = hash_crc32c(0, data, sizeof(data));
    for (size_t cut = 0; cut <= sizeof(data); cut++) {
        uint32_t first = hash_crc32c(0, data, cut);
        assert_true(hash_crc32c(first, data + cut, sizeof(data) - cut) == whole);
    }
}

/* The empty input's digest as xxHash's own tests give it. */
static void test_xxh3_matches_its_reference(void **state)
{
    (void)state;
    char text[HASH128_TEXT_SIZE];
    hash128_text(hash_xxh3("", 0), text);
    assert_string_equal(text, "99aa06d3014798d86001c324468d497f");
}

static void test_xxh3_streams_to_the_same_digest(void **state)
{
    (void)state;
    uint8_t data[3000];
    fill(data, sizeof(data));
    struct hash128 whole = hash_xxh3(data, sizeof(data));
    for (size_t piece = 1; piece <= sizeof(data); piece = piece * 3 + 1) {
        struct hash_stream *stream = hash_stream_new();
        assert_non_null(stream);
        hash_stream_add(stream, NULL, 0);
        for (size_t at = 0; at < sizeof(data); at += piece)
            hash_stream_add(stream, data + at, MIN(piece, sizeof(data) - at));
        assert_true(hash128_equal(hash_stream_result(stream), whole));
        assert_true(hash128_equal(hash_stream_result(stream), whole));
        hash_stream_free(stream);
    }
    hash_stream_free(NULL);
}

static void test_texts_round_trip_and_others_are_refused(void **state)
{
    (void)state;
    struct hash128 hash = {0x0123456789abcdef, 0xfedcba9876543210}, back;
    char text[HASH128_TEXT_SIZE];
    hash128_text(hash, text);
    assert_string_equal(text, "0123456789abcdeffedcba9876543210");
    assert_true(hash128_parse(text, &back));
    assert_true(hash128_equal(hash, back));
    assert_false(hash128_equal(hash, (struct hash128){hash.high, hash.low + 1}));
    assert_false(hash128_equal(hash, (struct hash128){hash.high + 1, hash.low}));
    assert_false(hash128_parse("0123456789abcdeffedcba987654321", &back));
    assert_false(hash128_parse("0123456789abcdeffedcba98765432100", &back));
    assert_false(hash128_parse("0123456789ABCDEFfedcba9876543210", &back));
    assert_false(hash128_parse("", &back));
}

static void test_crc32c_join(void **state)
{
    (void)state;
    static uint8_t data[70000];
    static const size_t cuts[] = {0, 1, 8, 4096, 65535, sizeof(data)};
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 2654435761u >> 24);
    uint32_t whole = hash_crc32c(0, data, sizeof(data));
    for (size_t i = 0; i < ARRAY_COUNT(cuts); i++) {
        size_t rest = sizeof(data) - cuts[i];
        assert_int_equal(hash_crc32c_join(hash_crc32c(0, data, cuts[i]),
                                          hash_crc32c(0, data + cuts[i], rest), rest),
                         whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_join),
        cmocka_unit_test(test_crc32c_matches_the_standard),
        cmocka_unit_test(test_crc32c_continues),
        cmocka_unit_test(test_xxh3_matches_its_reference),
        cmocka_unit_test(test_xxh3_streams_to_the_same_digest),
        cmocka_unit_test(test_texts_round_trip_and_others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
