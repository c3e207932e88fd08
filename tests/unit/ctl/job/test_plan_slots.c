/* The slots of a dry run: their syntax, and the source of its times. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ctl/job/plan_slots.h"

static void test_slots_are_parsed(void **state)
{
    unsigned count = 0;
    uint64_t memory_bytes = 1;

    (void)state;
    assert_int_equal(plan_slots_parse("8", &count, &memory_bytes), 0);
    assert_int_equal(count, 8);
    assert_int_equal(memory_bytes, 0);
    assert_int_equal(plan_slots_parse("2@16GiB", &count, &memory_bytes), 0);
    assert_int_equal(memory_bytes, (uint64_t)16 << 30);
    assert_int_equal(plan_slots_parse("-1", &count, &memory_bytes), -EINVAL);
    assert_int_equal(plan_slots_parse("2@", &count, &memory_bytes), -EINVAL);
}

static void test_times_of_slots_that_nobody_measured_are_called_so(void **state)
{
    struct planner_slot slots[2] = {{.node = "a"}, {.node = "a", .slot = 1}};
    char words[PLAN_SLOTS_WORDS_SIZE];

    (void)state;
    assert_false(plan_slots_measured(slots, 2));
    assert_non_null(strstr(plan_slots_time_words(slots, 2, JOB_PRECISION_BF16, words),
                           "No slot was measured: times assume CPU slots of 20 GFLOP/s"));
    slots[0].gpu = slots[1].gpu = true;
    assert_non_null(strstr(plan_slots_time_words(slots, 2, JOB_PRECISION_BF16, words),
                           "times assume GPUs of 500000 GFLOP/s"));
    /* The best of all is the rate of each. */
    slots[1].measured.flops_per_second[JOB_PRECISION_F32] = 1e11;
    assert_true(plan_slots_measured(slots, 2));
    assert_null(strstr(plan_slots_time_words(slots, 2, JOB_PRECISION_BF16, words), "assume"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_are_parsed),
        cmocka_unit_test(test_times_of_slots_that_nobody_measured_are_called_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
