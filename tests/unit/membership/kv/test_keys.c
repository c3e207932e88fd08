#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "membership/kv/keys.h"

#define NAME63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_names(void **state)
{
    char key[KV_KEY_MAX];
    (void)state;
    assert_string_equal(keys_cluster(key, "alps"), "/firn/v1/alps/");
    assert_string_equal(keys_node(key, "alps", "n1"), "/firn/v1/alps/nodes/n1");
    assert_string_equal(keys_leader(key, "alps"), "/firn/v1/alps/leader");
    assert_string_equal(keys_excused(key, "alps", "a"), "/firn/v1/alps/excused/a");
    assert_string_equal(keys_job(key, "alps", "j", "generation"),
                        "/firn/v1/alps/jobs/j/generation");
    assert_string_equal(keys_report(key, "alps", "j", UINT64_MAX, "n1"),
                        "/firn/v1/alps/said/j/reports/18446744073709551615/n1");
    assert_string_equal(keys_checkpoint(key, "alps", "j", 40),
                        "/firn/v1/alps/jobs/j/checkpoints/0000000040");
    keys_report(key, NAME63, NAME63, UINT64_MAX, NAME63); /* the longest fits */
}

static void test_match_job(void **state)
{
    char job[64], leaf[128];
    (void)state;
    assert_true(keys_match_said("/firn/v1/alps/said/j-1/reports/3/n1", "alps", job, leaf));
    assert_string_equal(job, "j-1");
    assert_string_equal(leaf, "reports/3/n1");
    assert_true(keys_match_job("/firn/v1/alps/jobs/" NAME63 "/spec", "alps", job, leaf));
    assert_string_equal(job, NAME63);
}

static void test_foreign_keys_do_not_match(void **state)
{
    static const char *const keys[] = {
        "",
        "/firn/v1/alps/",
        "/firn/v1/alps/jobs/",
        "/firn/v1/alps/jobs/j",
        "/firn/v1/alps/jobs/j/",
        "/firn/v1/alps/jobs//spec",
        "/firn/v1/alps2/jobs/j/spec",
        "/firn/v1/alp/jobs/j/spec",
        "/firn/v2/alps/jobs/j/spec",
        "/firn/v1/alps/jobs/../spec",
        "/firn/v1/alps/jobs/a" NAME63 "/spec",
        "/firn/v1/alps/jobs/j/" NAME63 NAME63 "12",
    };
    char job[64] = "untouched", leaf[128] = "untouched";
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        assert_false(keys_match_job(keys[i], "alps", job, leaf));
    assert_string_equal(leaf, "untouched");
}

static void test_match_node(void **state)
{
    char node[64];
    (void)state;
    assert_true(keys_match_node("/firn/v1/alps/nodes/n1", "alps", node));
    assert_string_equal(node, "n1");
    assert_false(keys_match_node("/firn/v1/alps/nodes/", "alps", node));
    assert_false(keys_match_node("/firn/v1/alps/nodes/n1/x", "alps", node));
    assert_false(keys_match_node("/firn/v1/alps/nodes/a" NAME63, "alps", node));
    assert_false(keys_match_node("/firn/v1/alps/leader", "alps", node));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_match_job),
        cmocka_unit_test(test_foreign_keys_do_not_match),
        cmocka_unit_test(test_match_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
