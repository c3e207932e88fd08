/* Tests of the hint that a job's policy never freezes a layer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/job/job_freezing.h"

static struct job_spec spec; /* too large for the stack of a test */
static char words[JOB_FREEZING_WORDS_SIZE];

static bool never(unsigned policy, uint64_t after, uint64_t every)
{
    spec.elastic.freeze.policy = policy;
    spec.elastic.freeze.after = after;
    spec.elastic.freeze.every = every;
    spec.elastic.freeze.patience = 3;
    return job_freezing_hint(&spec, words);
}

static void test_a_first_decision_behind_the_end_is_told(void **state)
{
    (void)state;
    spec.train.steps = 100;
    assert_false(never(JOB_FREEZE_NONE, 0, 1000));
    assert_false(never(JOB_FREEZE_SCHEDULE, 0, 100));
    assert_false(never(JOB_FREEZE_GRADIENT, 60, 40));
    assert_true(never(JOB_FREEZE_GRADIENT, 60, 41));
    assert_non_null(strstr(words, "100 of train.steps (elastic.freeze.after + 1 x"));
    assert_true(never(JOB_FREEZE_BUDGET, UINT64_MAX, 2));
}

static void test_plasticity_needs_its_measurements(void **state)
{
    (void)state;
    spec.train.steps = 100;
    assert_false(never(JOB_FREEZE_PLASTICITY, 30, 10));
    assert_true(never(JOB_FREEZE_PLASTICITY, 31, 10));
    assert_non_null(strstr(words, "after + 7 x elastic.freeze.every; 2 x patience + 1"));
}

static void set_defaults(unsigned policy)
{
    const struct job_freezing usual = {.policy = policy,
                                       .alpha = 0.33,
                                       .every = 100,
                                       .keep_active = 1,
                                       .tolerance = 0.3,
                                       .patience = 3,
                                       .budget = 0.5};
    spec.elastic.freeze = usual;
}

static void test_keys_that_the_policy_does_not_read_are_told(void **state)
{
    (void)state;
    set_defaults(JOB_FREEZE_SCHEDULE);
    assert_false(job_freezing_unused(&spec, words));
    spec.elastic.freeze.alpha = 0.5;
    spec.elastic.freeze.from_start = 2;
    assert_false(job_freezing_unused(&spec, words));
    spec.elastic.freeze.patience = 4;
    assert_true(job_freezing_unused(&spec, words));
    assert_string_equal(words, "patience of elastic.freeze has no effect with policy schedule");
    spec.elastic.freeze.policy = JOB_FREEZE_PLASTICITY;
    assert_true(job_freezing_unused(&spec, words));
    assert_string_equal(words, "alpha of elastic.freeze has no effect with policy plasticity");
    spec.elastic.freeze.policy = JOB_FREEZE_NONE;
    assert_true(job_freezing_unused(&spec, words));
    assert_string_equal(words, "alpha, patience of elastic.freeze have no effect with policy none");
    set_defaults(JOB_FREEZE_NONE);
    spec.elastic.freeze.keep_active = 0;
    assert_true(job_freezing_unused(&spec, words));
    spec.elastic.freeze.from_start = 12; /* all layers but the head */
    assert_false(job_freezing_unused(&spec, words));
}

/* All of them, so that no text is cut. */
static void test_a_long_list_has_room(void **state)
{
    (void)state;
    spec.elastic.freeze = (struct job_freezing){.policy = JOB_FREEZE_NONE, .guard = 1, .thaw = 1};
    assert_true(job_freezing_unused(&spec, words));
    assert_non_null(strstr(words, "alpha, every, keep_active, "));
    assert_non_null(strstr(words, "guard, thaw of elastic.freeze have no effect with policy none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_first_decision_behind_the_end_is_told),
        cmocka_unit_test(test_plasticity_needs_its_measurements),
        cmocka_unit_test(test_keys_that_the_policy_does_not_read_are_told),
        cmocka_unit_test(test_a_long_list_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
