/* Tests of the workers of a plan as one text: round trip, size, and refused texts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/plan/plan_workers.h"

#define MANY 1000u

static struct plan_worker worker(const char *node, unsigned slot, const char *address,
                                 uint64_t instance)
{
    struct plan_worker worker = {.slot = slot, .instance = instance};
    snprintf(worker.node, sizeof(worker.node), "%s", node);
    snprintf(worker.address, sizeof(worker.address), "%s", address);
    return worker;
}

static void assert_comes_back(const struct plan_worker *workers, unsigned count, size_t bytes_max)
{
    struct bytes text CLEANUP(bytes_done) = {0};
    struct plan_worker *back = NULL;
    struct error error = {0};
    unsigned back_count = 0;
    assert_int_equal(plan_workers_pack(workers, count, &text), 0);
    assert_in_range(text.size_bytes, 0, bytes_max);
    assert_int_equal(
        plan_workers_unpack((const char *)text.data, text.size_bytes, &back, &back_count, &error),
        0);
    assert_int_equal(back_count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_string_equal(back[i].node, workers[i].node);
        assert_string_equal(back[i].address, workers[i].address);
        assert_int_equal(back[i].slot, workers[i].slot);
        assert_int_equal(back[i].instance, workers[i].instance);
    }
    free(back);
}

static void test_every_kind_comes_back(void **state)
{
    (void)state;
    const char *longest = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk";
    const struct plan_worker workers[] = {
        worker("a", 0, "127.0.0.1:7600", 0),
        worker("a", 63, "127.0.0.1:7663", UINT64_MAX), /* the same node again */
        worker("aa", 1, "127.0.0.1:7663", 1),          /* one name begins with the other */
        worker("a", 9, "127.0.0.1:7", 0xfedcba9876543210),
        worker("aaa", 1, "127.0.0.1:7", 1), /* may share a prefix and a suffix */
        worker("aa", 1, "127.0.0.0.1:7", 1),
        worker("zz", 10, "[fd00:1234:5678:9abc:def0::1]:7600", 16), /* nothing shared */
        worker("zz", 11, "[fd00:1234:5678:9abc:def0::2]:7600", 16), /* more than a letter can say */
        worker(longest, 0, longest, 5),
        worker(longest, 1, longest, 5),
    };
    assert_int_equal(strlen(longest), NAME_SIZE - 1);
    assert_comes_back(workers, ARRAY_COUNT(workers), 600);
    assert_comes_back(workers, 0, 0);
}

/* The size counts a thousand times with a thousand nodes. */
static void test_thousand_are_small(void **state)
{
    (void)state;
    struct plan_worker *workers = calloc(MANY, sizeof(*workers));
    for (unsigned i = 0; i < MANY; i++) {
        char node[NAME_SIZE], address[ADDRESS_SIZE];
        snprintf(node, sizeof(node), "n%04u", i);
        snprintf(address, sizeof(address), "10.%u.%u.1:7600", i / 250, i % 250);
        workers[i] = worker(node, 0, address, 0x9e3779b97f4a7c15 * (i + 1));
    }
    assert_comes_back(workers, MANY, 30 * MANY);
    free(workers);
}

static void test_address_that_cannot_be_packed(void **state)
{
    (void)state;
    const struct plan_worker bad[] = {worker("a", 0, "host :1", 0), worker("a", 0, "host,b:1", 0)};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct bytes text CLEANUP(bytes_done) = {0};
        assert_int_equal(plan_workers_pack(&bad[i], 1, &text), -EINVAL);
    }
}

static int unpack(const char *text, size_t length, struct error *error)
{
    struct plan_worker *workers = NULL;
    unsigned count = 0;
    int status = plan_workers_unpack(text, length, &workers, &count, error);
    free(workers);
    return status;
}

static void test_damage_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned worker;
    } cases[] = {
        {"ba0 0 aah:1 0", 0}, /* no worker before it to share with */
        {"ab0 0 aah:1 0", 0},
        {"Aan0 0 aah:1 0", 0}, /* no such letter */
        {"aAn0 0 aah:1 0", 0},
        {"a 0 aah:1 0", 0},  /* one letter alone */
        {"aan0 0 aah:1", 0}, /* missing fields */
        {"aan0", 0},
        {"aan0 0 aah:1 ", 0}, /* an empty field */
        {"aan0  aah:1 0", 0},
        {"aan0 64 aah:1 0", 0}, /* more slots than a node has */
        {"aan0 -1 aah:1 0", 0},
        {"aan0 007 aah:1 0", 0},
        {"aan0 0 aah:1 10000000000000000", 0}, /* 65 bits */
        {"aan0 0 aah:1 F", 0},
        {"aan0 0 aah:1 0 0", 0}, /* one field too many */
        {"aan0 0 aah:1 0,", 1},  /* no worker behind the comma */
        {",aan0 0 aah:1 0", 0},
        {"aan0 0 aah:1 0,da 1 ba 0", 1}, /* shares more than the text has */
        {"aan0 0 aah:1 0,ad 1 ba 0", 1},
        {"aan0 0 aah:1 0,bcx 1 ba 0", 1},
        {"aan0 0 aah:1 0,,ca 1 ba 0", 1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct error error = {0};
        char named[32];
        snprintf(named, sizeof(named), "at worker %u:", cases[i].worker);
        if (unpack(cases[i].text, strlen(cases[i].text), &error) != -EINVAL ||
            !strstr(error.text, named))
            fail_msg("\"%s\": \"%s\"", cases[i].text, error.text);
    }
    struct error error = {0};
    assert_int_equal(unpack("aan\0 0 aah:1 0", 14, &error), -EINVAL);
    assert_int_equal(unpack("aan0 0 aah:1 0,bb 1 da 0", 24, &error), 0);
    assert_int_equal(unpack(NULL, 0, &error), 0);
}

/* A text whose fields grow past their limit by sharing prefixes is refused. */
static void test_growing_words_are_refused(void **state)
{
    (void)state;
    struct bytes text CLEANUP(bytes_done) = {0};
    struct error error = {0};
    assert_int_equal(bytes_append_format(&text, "aa%063d 0 aah:1 0,zz%014d 0 aah:1 0", 1, 1), 0);
    assert_int_equal(unpack((const char *)text.data, text.size_bytes, &error), -EINVAL);
    assert_non_null(strstr(error.text, "at worker 1:"));
}

static void test_too_many_are_refused(void **state)
{
    (void)state;
    struct error error = {0};
    AUTO_FREE char *commas = malloc(PLAN_RANKS_MAX);
    memset(commas, ',', PLAN_RANKS_MAX);
    assert_int_equal(unpack(commas, PLAN_RANKS_MAX, &error), -EINVAL);
    assert_non_null(strstr(error.text, "more than"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_comes_back),
        cmocka_unit_test(test_thousand_are_small),
        cmocka_unit_test(test_address_that_cannot_be_packed),
        cmocka_unit_test(test_damage_is_refused),
        cmocka_unit_test(test_growing_words_are_refused),
        cmocka_unit_test(test_too_many_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
