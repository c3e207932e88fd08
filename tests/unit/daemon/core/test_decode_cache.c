/* Tests that a value of the mirror is decoded once, as long as the value does not change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "daemon/core/decode_cache.h"
#include "lib/daemon/keys.h"
#include "lib/elastic/sample_plan.h"
#include "membership/kv/keys.h"

static void put_plan(struct mirror *mirror, const char *key, uint64_t generation)
{
    struct plan *plan = sample_plan();

    plan->generation = generation;
    keys_put_tree(mirror, key, plan_encode(plan));
    plan_free(plan);
}

static void put_report(struct mirror *mirror, const char *key, uint64_t instance)
{
    AUTO_FREE struct node_report *report = calloc(1, sizeof(*report));

    assert_non_null(report);
    snprintf(report->node, sizeof(report->node), "a");
    report->generation = 7;
    report->worker_count = 1;
    report->workers[0].instance = instance;
    keys_put_tree(mirror, key, node_report_encode(report));
}

static void test_plans(void **state)
{
    struct mirror mirror = {0};
    struct plan *first, *second, *newer;
    struct error error = {0};

    (void)state;
    put_plan(&mirror, "plan", 7);
    keys_put(&mirror, "broken", "{}");
    assert_int_equal(decode_cache_plan(&mirror, mirror_find(&mirror, "plan"), &first, &error), 0);
    assert_int_equal(decode_cache_plan(&mirror, mirror_find(&mirror, "plan"), &second, &error), 0);
    assert_ptr_equal(first, second);
    plan_free(second);
    put_plan(&mirror, "plan", 8);
    assert_int_equal(decode_cache_plan(&mirror, mirror_find(&mirror, "plan"), &newer, &error), 0);
    assert_int_equal(decode_cache_plan(&mirror, mirror_find(&mirror, "broken"), &second, &error),
                     -EINVAL);
    assert_non_null(strstr(error.text, "job"));
    mirror_done(&mirror);
    assert_int_equal(first->generation, 7); /* every holder keeps its reference */
    assert_int_equal(newer->generation, 8);
    plan_free(first);
    plan_free(newer);
}

static void test_reports(void **state)
{
    struct mirror mirror = {0};
    const struct node_report *first;

    (void)state;
    put_report(&mirror, "report", 11);
    keys_put(&mirror, "broken", "{}");
    first = decode_cache_report(&mirror, mirror_find(&mirror, "report"));
    assert_non_null(first);
    assert_int_equal(first->workers[0].instance, 11);
    assert_ptr_equal(decode_cache_report(&mirror, mirror_find(&mirror, "report")), first);
    put_report(&mirror, "report", 12);
    first = decode_cache_report(&mirror, mirror_find(&mirror, "report"));
    assert_non_null(first);
    assert_int_equal(first->workers[0].instance, 12);
    assert_null(decode_cache_report(&mirror, mirror_find(&mirror, "broken")));
    mirror_done(&mirror);
}

static void put_state(struct mirror *mirror, const char *key, const char *word)
{
    struct state_record record = {0};

    snprintf(record.state, sizeof(record.state), "%s", word);
    keys_put_tree(mirror, key, state_record_encode(&record));
}

static void test_states(void **state)
{
    struct mirror mirror = {0};

    (void)state;
    put_state(&mirror, "state", "running");
    keys_put(&mirror, "broken", "{");
    const struct state_record *first = decode_cache_state(&mirror, mirror_find(&mirror, "state"));
    assert_non_null(first);
    assert_string_equal(first->state, "running");
    assert_ptr_equal(decode_cache_state(&mirror, mirror_find(&mirror, "state")), first);
    assert_null(decode_cache_state(&mirror, mirror_find(&mirror, "broken")));
    put_state(&mirror, "state", "completed");
    first = decode_cache_state(&mirror, mirror_find(&mirror, "state"));
    assert_string_equal(first->state, "completed");
    mirror_done(&mirror);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
