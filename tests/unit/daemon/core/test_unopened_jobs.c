/* Tests of the jobs that could not be opened on a node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/clock.h"
#include "daemon/core/unopened_jobs.h"

#define NOW (100 * NS_PER_SECOND)

static void test_it_is_tried_again_after_a_while(void **state)
{
    struct unopened_jobs unopened = {0};

    (void)state;
    assert_false(unopened_jobs_rests(&unopened, "a", 7, NOW));
    assert_int_equal(unopened_jobs_next_ns(&unopened, NOW), UINT64_MAX);
    assert_true(unopened_jobs_note(&unopened, "a", 7, "no space", NOW));
    assert_true(unopened_jobs_rests(&unopened, "a", 7, NOW));
    assert_int_equal(unopened_jobs_next_ns(&unopened, NOW), NOW + UNOPENED_REST_NS);
    assert_false(unopened_jobs_rests(&unopened, "a", 7, NOW + UNOPENED_REST_NS));
    assert_int_equal(unopened_jobs_next_ns(&unopened, NOW + UNOPENED_REST_NS), UINT64_MAX);
    unopened_jobs_done(&unopened);
}

static void test_another_submission_is_tried_at_once(void **state)
{
    struct unopened_jobs unopened = {0};

    (void)state;
    assert_true(unopened_jobs_note(&unopened, "a", 7, "no space", NOW));
    assert_false(unopened_jobs_rests(&unopened, "a", 8, NOW));
    assert_true(unopened_jobs_note(&unopened, "a", 8, "no space", NOW));
    unopened_jobs_done(&unopened);
}

static void test_the_same_cause_is_said_once(void **state)
{
    struct unopened_jobs unopened = {0};

    (void)state;
    assert_true(unopened_jobs_note(&unopened, "a", 7, "no space", NOW));
    assert_false(unopened_jobs_note(&unopened, "a", 7, "no space", NOW));
    assert_true(unopened_jobs_note(&unopened, "a", 7, "no such key", NOW));
    unopened_jobs_forget(&unopened, "a");
    assert_true(unopened_jobs_note(&unopened, "a", 7, "no such key", NOW));
    unopened_jobs_done(&unopened);
}

/* All jobs of a node whose disk is full. */
static void test_hundreds_rest_side_by_side(void **state)
{
    struct unopened_jobs unopened = {0};
    char name[16];

    (void)state;
    for (int64_t i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "job-%d", (int)i);
        assert_true(unopened_jobs_note(&unopened, name, i, "no space", NOW + (uint64_t)i));
    }
    unopened_jobs_forget(&unopened, "job-0");
    assert_false(unopened_jobs_rests(&unopened, "job-0", 0, NOW));
    for (int64_t i = 1; i < 500; i++) {
        snprintf(name, sizeof(name), "job-%d", (int)i);
        assert_true(unopened_jobs_rests(&unopened, name, i, NOW));
    }
    assert_int_equal(unopened_jobs_next_ns(&unopened, NOW), NOW + 1 + UNOPENED_REST_NS);
    unopened_jobs_done(&unopened);
    assert_int_equal(unopened.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_tried_again_after_a_while),
        cmocka_unit_test(test_another_submission_is_tried_at_once),
        cmocka_unit_test(test_the_same_cause_is_said_once),
        cmocka_unit_test(test_hundreds_rest_side_by_side),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
