/*
 * Tests of a node with a given time to leave: it hands over if the time suffices; otherwise the job
 * writes a checkpoint.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "elastic/recovery/preemption.h"

#define SECOND 1000000000ull

static const struct preemption usual = {.left_ns = 30 * SECOND,
                                        .alone_bytes = 10000000000,
                                        .start_ns = 3 * SECOND,
                                        .boundary_ns = SECOND,
                                        .bytes_per_second = 1e9};

static void test_handing_over_is_chosen_while_it_fits(void **state)
{
    struct preemption preemption = usual;
    (void)state;
    /* 3 s + 1 s + twice 10 s */
    assert_true(preemption_seconds(&preemption) == 24);
    assert_int_equal(preemption_decide(&preemption), PREEMPTION_HAND_OVER);
    preemption.left_ns = 24 * SECOND;
    assert_int_equal(preemption_decide(&preemption), PREEMPTION_HAND_OVER);
    preemption.left_ns--;
    assert_int_equal(preemption_decide(&preemption), PREEMPTION_CHECKPOINT);
    preemption.start_ns = 0; /* the successor already runs */
    assert_int_equal(preemption_decide(&preemption), PREEMPTION_HAND_OVER);
    preemption.bytes_per_second = 5e8;
    assert_int_equal(preemption_decide(&preemption), PREEMPTION_CHECKPOINT);
}

static void test_without_haste_nothing_is_saved_in_an_emergency(void **state)
{
    struct preemption preemption = usual;
    (void)state;
    preemption.left_ns = UINT64_MAX;
    preemption.bytes_per_second = 1;
    assert_int_equal(preemption_decide(&preemption), PREEMPTION_HAND_OVER);
}

static void test_the_time_that_is_not_needed_may_be_waited(void **state)
{
    struct preemption preemption = usual; /* takes 24 s of 30 */
    (void)state;
    assert_int_equal(preemption_spare_ns(&preemption), 6 * SECOND);
    preemption.links_ns = 2 * SECOND;
    assert_int_equal(preemption_spare_ns(&preemption), 4 * SECOND);
    preemption.links_ns = 7 * SECOND;
    assert_int_equal(preemption_decide(&preemption), PREEMPTION_HAND_OVER); /* at once */
    assert_int_equal(preemption_spare_ns(&preemption), 0);
    preemption.links_ns = 0;
    preemption.left_ns = 24 * SECOND;
    assert_int_equal(preemption_spare_ns(&preemption), 0);
    preemption.left_ns = SECOND;
    assert_int_equal(preemption_spare_ns(&preemption), 0);
    preemption.left_ns = UINT64_MAX;
    assert_int_equal(preemption_spare_ns(&preemption), UINT64_MAX);
}

static void test_a_checkpoint_waits_while_twice_its_last_duration_fits(void **state)
{
    struct preemption preemption = {
        .left_ns = 30 * SECOND, .boundary_ns = 2 * SECOND, .checkpoint_ns = 4 * SECOND};
    (void)state;
    assert_int_equal(preemption_checkpoint_spare_ns(&preemption), 20 * SECOND);
    preemption.checkpoint_ns = 0; /* none was written yet: half of the time is kept for it */
    assert_int_equal(preemption_checkpoint_spare_ns(&preemption), 13 * SECOND);
    preemption.checkpoint_ns = 20 * SECOND;
    assert_int_equal(preemption_checkpoint_spare_ns(&preemption), 0);
    preemption.left_ns = UINT64_MAX;
    assert_int_equal(preemption_checkpoint_spare_ns(&preemption), UINT64_MAX);
}

static void test_what_others_hold_too_may_go_at_any_time(void **state)
{
    struct preemption preemption = usual;
    (void)state;
    preemption.left_ns = 0;
    assert_int_equal(preemption_decide(&preemption), PREEMPTION_CHECKPOINT);
    preemption.alone_bytes = 0;
    assert_int_equal(preemption_decide(&preemption), PREEMPTION_HAND_OVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handing_over_is_chosen_while_it_fits),
        cmocka_unit_test(test_without_haste_nothing_is_saved_in_an_emergency),
        cmocka_unit_test(test_the_time_that_is_not_needed_may_be_waited),
        cmocka_unit_test(test_a_checkpoint_waits_while_twice_its_last_duration_fits),
        cmocka_unit_test(test_what_others_hold_too_may_go_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
