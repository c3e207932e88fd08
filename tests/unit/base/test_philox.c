/* The generator against Random123's vectors, the normals against libm, the permutation counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/philox.h"

struct vector {
    uint32_t counter[4], key[2], words[4];
};

/* The philox4x32 10 lines of Random123's kat_vectors. */
static const struct vector vectors[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void test_blocks_match_random123(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(vectors); i++) {
        const struct vector *v = &vectors[i];
        uint32_t words[4];
        philox_block((struct philox_key){{v->key[0], v->key[1]}},
                     v->counter[0] | (uint64_t)v->counter[1] << 32,
                     v->counter[2] | (uint64_t)v->counter[3] << 32, words);
        assert_memory_equal(words, v->words, sizeof(words));
    }
}

static void test_keys_differ_by_seed_and_stream(void **state)
{
    (void)state;
    struct philox_key keys[64];
    for (unsigned i = 0; i < 64; i++)
        keys[i] = philox_key_make((uint64_t)(i / 8) << (i % 16), i);
    for (unsigned i = 0; i < 64; i++)
        for (unsigned j = 0; j < i; j++)
            assert_memory_not_equal(&keys[i], &keys[j], sizeof(keys[i]));
}

/* The float next to @exact: half a unit in its last place, and a little for the reference itself.
 */
static void assert_nearest(float value, double exact)
{
    assert_true(fabs(value - exact) <= fabs(exact) * 0x1.0001p-24 + 1e-14);
}

/* Box and Muller again, with libm in place of the series. */
static void test_normals_match_libm(void **state)
{
    (void)state;
    enum { COUNT = 40000 };
    struct philox_key key = philox_key_make(42, 7);
    float *values = malloc(COUNT * sizeof(*values));
    assert_non_null(values);
    philox_fill_normal(key, 3, 0, 1, values, COUNT);
    for (unsigned i = 0; i < COUNT; i += 2) {
        uint32_t words[4];
        philox_block(key, i / 4, 3, words);
        double radius = sqrt(-2 * log((words[i % 4] + 0.5) / 4294967296.0));
        double angle = 2 * M_PI * (words[i % 4 + 1] / 4294967296.0);
        assert_nearest(values[i], radius * cos(angle));
        assert_nearest(values[i + 1], radius * sin(angle));
    }
    free(values);
}

static void test_normals_have_the_asked_moments(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    float *values = malloc(COUNT * sizeof(*values));
    assert_non_null(values);
    philox_fill_normal(philox_key_make(1, 1), 0, 3, 0.5f, values, COUNT);
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        sum += values[i];
        squares += (values[i] - 3.0) * (values[i] - 3.0);
    }
    assert_true(fabs(sum / COUNT - 3) < 0.01);
    assert_true(fabs(squares / COUNT - 0.25) < 0.005);
    free(values);
}

static void test_a_shorter_fill_is_the_start_of_a_longer_one(void **state)
{
    (void)state;
    struct philox_key key = philox_key_make(5, 6);
    float whole[64], part[64];
    philox_fill_normal(key, 9, 0, 0.02f, whole, 64);
    for (size_t count = 0; count <= 64; count++) {
        memset(part, 0, sizeof(part));
        philox_fill_normal(key, 9, 0, 0.02f, part, count);
        assert_memory_equal(part, whole, count * sizeof(part[0]));
        for (size_t i = count; i < 64; i++)
            assert_true(part[i] == 0);
    }
}

/* The exact bits, so that a compiler or a processor that computes otherwise is noticed. */
/* Any thread at any level of vector instructions makes the same values. */
static void test_normals_have_the_same_bits_at_every_level_and_in_parts(void **state)
{
    (void)state;
    static float whole[10007], parts[10007];
    struct philox_key key = philox_key_make(20, 25);
    philox_fill_normal_part(key, 11, 0.25f, 0.02f, 0, 0, whole, ARRAY_COUNT(whole));
    for (unsigned level = 0; level < philox_normal_levels(); level++)
        for (size_t step = 4; step <= ARRAY_COUNT(parts); step = step * 7 + 4) {
            memset(parts, 0, sizeof(parts));
            for (size_t first = 0; first < ARRAY_COUNT(parts); first += step)
                philox_fill_normal_part(key, 11, 0.25f, 0.02f, level, first, parts + first,
                                        MIN(step, ARRAY_COUNT(parts) - first));
            assert_memory_equal(parts, whole, sizeof(whole));
        }
}

static void test_normals_are_these_very_bits(void **state)
{
    (void)state;
    float values[8];
    philox_fill_normal(philox_key_make(20, 25), 11, 0, 0.02f, values, 8);
    static const uint32_t expected[8] = {0xbb849c5c, 0x3c8a2e0a, 0x3d07c559, 0xbc940c90,
                                         0xbb942553, 0xbbdca6de, 0x3c817494, 0x3ca5207a};
    assert_memory_equal(values, expected, sizeof(expected));
}

static void test_permutation_is_a_bijection(void **state)
{
    (void)state;
    static const uint64_t larger[] = {255, 256, 257, 1000, 1023, 1024, 1025, 4097, 65537};
    for (uint64_t i = 1; i <= 70 + ARRAY_COUNT(larger); i++) {
        uint64_t count = i <= 70 ? i : larger[i - 71];
        uint8_t *seen = calloc(count, 1);
        assert_non_null(seen);
        for (uint64_t index = 0; index < count; index++) {
            uint64_t image = philox_permute(philox_key_make(i, 2), index, count);
            assert_true(image < count);
            assert_int_equal(seen[image]++, 0);
        }
        free(seen);
    }
}

static void test_permutation_depends_on_its_key(void **state)
{
    (void)state;
    unsigned fixed = 0, equal = 0;
    for (uint64_t index = 0; index < 1000; index++) {
        uint64_t a = philox_permute(philox_key_make(1, 1), index, 1000);
        fixed += a == index;
        equal += a == philox_permute(philox_key_make(2, 1), index, 1000);
    }
    /* Of random permutations one agreement is expected; ten have a chance of one in ten million. */
    assert_true(fixed < 10);
    assert_true(equal < 10);
}

static void test_permutation_reaches_the_largest_ranges(void **state)
{
    (void)state;
    struct philox_key key = philox_key_make(3, 4);
    const uint64_t counts[] = {UINT64_MAX, (uint64_t)1 << 63, ((uint64_t)1 << 62) + 1};
    for (unsigned i = 0; i < ARRAY_COUNT(counts); i++) {
        uint64_t first = philox_permute(key, 0, counts[i]);
        uint64_t last = philox_permute(key, counts[i] - 1, counts[i]);
        assert_true(first < counts[i] && last < counts[i] && first != last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_match_random123),
        cmocka_unit_test(test_keys_differ_by_seed_and_stream),
        cmocka_unit_test(test_normals_match_libm),
        cmocka_unit_test(test_normals_have_the_same_bits_at_every_level_and_in_parts),
        cmocka_unit_test(test_normals_have_the_asked_moments),
        cmocka_unit_test(test_a_shorter_fill_is_the_start_of_a_longer_one),
        cmocka_unit_test(test_normals_are_these_very_bits),
        cmocka_unit_test(test_permutation_is_a_bijection),
        cmocka_unit_test(test_permutation_depends_on_its_key),
        cmocka_unit_test(test_permutation_reaches_the_largest_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
