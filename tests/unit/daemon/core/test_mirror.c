/* Tests of the mirror against a plain list with the same updates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "daemon/core/mirror.h"

#define KEYS 40

static int apply(struct mirror *mirror, bool deleted, const char *key, const char *value,
                 int64_t revision)
{
    const struct kv_event event = {
        .deleted = deleted,
        .entry = {.key = key,
                  .value = value,
                  .value_bytes = value ? strlen(value) : 0,
                  .create_revision = 1,
                  .mod_revision = revision},
    };
    return mirror_apply(mirror, &event, revision);
}

static void test_empty(void **state)
{
    struct mirror mirror = {0};
    const struct mirror_entry *first;

    (void)state;
    assert_null(mirror_find(&mirror, "a"));
    assert_int_equal(mirror_range(&mirror, "", &first), 0);
    assert_int_equal(apply(&mirror, true, "a", NULL, 3), 0);
    assert_int_equal(mirror.revision, 3);
    mirror_done(&mirror);
}

static void test_snapshot_forgets_the_rest(void **state)
{
    static const struct kv_entry before[] = {{.key = "b", .value = "1", .value_bytes = 1},
                                             {.key = "a", .value = "2", .value_bytes = 1}};
    static const struct kv_entry after[] = {
        {.key = "c", .value = "345", .value_bytes = 3, .create_revision = 7, .mod_revision = 9}};
    struct mirror mirror = {0};

    (void)state;
    assert_int_equal(mirror_snapshot(&mirror, before, 2, 5), 0);
    assert_string_equal(mirror_find(&mirror, "a")->value, "2");
    assert_string_equal(mirror.entries[0].key, "a");
    assert_int_equal(mirror_snapshot(&mirror, after, 1, 9), 0);
    assert_null(mirror_find(&mirror, "a"));
    assert_null(mirror_find(&mirror, "b"));
    const struct mirror_entry *entry = mirror_find(&mirror, "c");
    assert_string_equal(entry->value, "345");
    assert_int_equal(entry->create_revision, 7);
    assert_int_equal(entry->mod_revision, 9);
    assert_int_equal(mirror.revision, 9);
    assert_int_equal(mirror_snapshot(&mirror, NULL, 0, 11), 0);
    assert_null(mirror_find(&mirror, "c"));
    assert_int_equal(mirror.revision, 11);
    mirror_done(&mirror);
}

/* A value has the length that the store gives, not the length of the borrowed text. */
static void test_value_is_copied_to_its_length(void **state)
{
    const struct kv_entry entry = {.key = "a", .value = "12345", .value_bytes = 2};
    struct mirror mirror = {0};

    (void)state;
    assert_int_equal(mirror_snapshot(&mirror, &entry, 1, 1), 0);
    assert_string_equal(mirror_find(&mirror, "a")->value, "12");
    mirror_done(&mirror);
}

static void test_range(void **state)
{
    static const char *const keys[] = {"jobs/a/spec", "jobs/ab", "jobs/a/next", "jobs/a",
                                       "nodes/a",     "jobs/a0", "jobs/a/"};
    struct mirror mirror = {0};
    const struct mirror_entry *first;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        assert_int_equal(apply(&mirror, false, keys[i], "v", 1), 0);
    assert_int_equal(mirror_range(&mirror, "jobs/a/", &first), 3);
    assert_string_equal(first[0].key, "jobs/a/");
    assert_string_equal(first[1].key, "jobs/a/next");
    assert_string_equal(first[2].key, "jobs/a/spec");
    assert_int_equal(mirror_range(&mirror, "jobs/", &first), 6);
    assert_int_equal(mirror_range(&mirror, "", &first), 7);
    assert_int_equal(mirror_range(&mirror, "jobs/b", &first), 0);
    assert_int_equal(mirror_range(&mirror, "z", &first), 0);
    mirror_done(&mirror);
}

static void test_random_history(void **state)
{
    struct mirror mirror = {0};
    int64_t expected[KEYS] = {0}; /* mod revision; 0: absent */
    struct philox_key random = philox_key_make(11, 0);

    (void)state;
    for (int64_t revision = 1; revision <= 4000; revision++) {
        uint32_t words[4];
        char key[16], value[24];
        philox_block(random, (uint64_t)revision, 0, words);
        unsigned index = words[0] % KEYS;
        bool deleted = words[1] % 3 == 0;
        snprintf(key, sizeof(key), "key%u", index);
        snprintf(value, sizeof(value), "v%lld", (long long)revision);
        assert_int_equal(apply(&mirror, deleted, key, deleted ? NULL : value, revision), 0);
        expected[index] = deleted ? 0 : revision;

        size_t present = 0;
        for (unsigned i = 0; i < KEYS; i++) {
            snprintf(key, sizeof(key), "key%u", i);
            snprintf(value, sizeof(value), "v%lld", (long long)expected[i]);
            const struct mirror_entry *entry = mirror_find(&mirror, key);
            assert_int_equal(entry != NULL, expected[i] != 0);
            if (entry)
                assert_string_equal(entry->value, value);
            present += entry != NULL;
        }
        assert_int_equal(mirror.count, present);
        for (size_t i = 1; i < mirror.count; i++)
            assert_true(strcmp(mirror.entries[i - 1].key, mirror.entries[i].key) < 0);
    }
    mirror_done(&mirror);
}

static void *new_meaning(char meaning)
{
    char *memory = malloc(1);

    assert_non_null(memory);
    *memory = meaning;
    return memory;
}

/* The decoded form of a value is freed with the value. */
static void test_meaning_goes_with_its_value(void **state)
{
    (void)state;
    struct mirror mirror = {0};

    assert_int_equal(apply(&mirror, false, "a", "1", 1), 0);
    assert_int_equal(apply(&mirror, false, "b", "1", 2), 0);
    mirror_keep(&mirror, mirror_find(&mirror, "a"), new_meaning('A'), free);
    mirror_keep(&mirror, mirror_find(&mirror, "b"), new_meaning('?'), free);
    mirror_keep(&mirror, mirror_find(&mirror, "b"), new_meaning('B'), free);
    assert_int_equal(apply(&mirror, false, "aa", "1", 3), 0); /* a key between them */
    assert_int_equal(*(char *)mirror_find(&mirror, "a")->meaning, 'A');
    assert_null(mirror_find(&mirror, "aa")->meaning);
    assert_int_equal(*(char *)mirror_find(&mirror, "b")->meaning, 'B');
    assert_int_equal(apply(&mirror, false, "a", "2", 4), 0);
    assert_null(mirror_find(&mirror, "a")->meaning);
    assert_int_equal(apply(&mirror, true, "b", NULL, 5), 0);
    assert_int_equal(apply(&mirror, false, "b", "1", 6), 0);
    assert_null(mirror_find(&mirror, "b")->meaning);
    mirror_done(&mirror);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_snapshot_forgets_the_rest),
        cmocka_unit_test(test_value_is_copied_to_its_length),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_random_history),
        cmocka_unit_test(test_meaning_goes_with_its_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
