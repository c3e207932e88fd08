/* Tests of the rounds in which a checkpoint at the end of a stay is written and recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "protocol/final_checkpoint.h"

#define STEP 41

/* Take the answer of a round in which all ranks together report @durable and @failed. */
static void hear(struct final_checkpoint *final, uint64_t durable, uint64_t failed)
{
    struct step_commit_down *down = calloc(1, sizeof(*down));

    assert_non_null(down);
    assert_int_equal(final->action, FINAL_CHECKPOINT_ROUND);
    down->checkpoint_durable = durable;
    down->checkpoint_failed = failed;
    final_checkpoint_hear(final, down);
    free(down);
}

static void to_write(struct final_checkpoint *final, bool commits)
{
    final_checkpoint_begin(final, STEP, commits);
    assert_int_equal(final->action, FINAL_CHECKPOINT_SETTLE);
    final_checkpoint_settled(final, false);
    assert_int_equal(final_checkpoint_report(final, 0, 0), commits ? 0 : STEP);
    hear(final, 0, 0);
    assert_int_equal(final->action, FINAL_CHECKPOINT_WRITE);
}

static void to_record(struct final_checkpoint *final, bool commits)
{
    to_write(final, commits);
    final_checkpoint_written(final);
    assert_int_equal(final_checkpoint_report(final, STEP - 1, 0), STEP - 1);
    assert_int_equal(final_checkpoint_report(final, STEP, 0), STEP);
    hear(final, STEP, 0);
    assert_int_equal(final->action, FINAL_CHECKPOINT_COMMIT);
}

/* A generation that ends within its first step has nothing new to write. */
static void test_what_was_read_is_not_written_again(void **state)
{
    struct plan plan = {.start = {.source = PLAN_SOURCE_CHECKPOINT, .resume_step = STEP}};

    (void)state;
    assert_false(final_checkpoint_is_needed(&plan, STEP));
    assert_true(final_checkpoint_is_needed(&plan, STEP + 1));
    plan.start.source = PLAN_SOURCE_MEMORY;
    assert_true(final_checkpoint_is_needed(&plan, STEP));
    plan.start = (struct plan_start){.source = PLAN_SOURCE_FRESH};
    assert_false(final_checkpoint_is_needed(&plan, 0));
    assert_true(final_checkpoint_is_needed(&plan, 1));
}

/* A stay ends within a step, after a checkpoint at its boundary: all ranks continue to the record.
 */
static void test_a_committed_boundary_is_not_written_again(void **state)
{
    struct final_checkpoint root, other;

    (void)state;
    final_checkpoint_begin(&root, STEP, true);
    final_checkpoint_begin(&other, STEP, false);
    final_checkpoint_settled(&root, true);
    final_checkpoint_settled(&other, false); /* it does not know */
    assert_int_equal(final_checkpoint_report(&root, 0, 0), STEP);
    assert_int_equal(final_checkpoint_report(&other, 0, 0), STEP);
    hear(&root, STEP, 0);
    hear(&other, STEP, 0);
    assert_int_equal(root.action, FINAL_CHECKPOINT_COMMIT);
    assert_int_equal(other.action, FINAL_CHECKPOINT_COMMIT);
}

/* Rounds continue until rank 0 reports that firnd has the record. */
static void test_a_recorded_checkpoint_ends_it(void **state)
{
    struct final_checkpoint root, other;

    (void)state;
    to_record(&root, true);
    to_record(&other, false);
    for (unsigned i = 0; i < 3; i++) {
        final_checkpoint_looked(&root);
        final_checkpoint_looked(&other);
        assert_int_equal(final_checkpoint_report(&root, STEP, STEP - 1), 0);
        assert_int_equal(final_checkpoint_report(&other, STEP, 0), STEP);
        hear(&root, 0, 0);
        hear(&other, 0, 0);
        assert_int_equal(root.action, FINAL_CHECKPOINT_COMMIT);
        assert_int_equal(other.action, FINAL_CHECKPOINT_COMMIT);
    }
    final_checkpoint_looked(&root);
    assert_int_equal(final_checkpoint_report(&root, STEP, STEP), STEP);
    hear(&root, STEP, 0);
    assert_int_equal(root.action, FINAL_CHECKPOINT_DONE);
}

/* No rank writes again before all ranks have removed their files. */
static void check_retry(struct final_checkpoint *final)
{
    assert_int_equal(final->action, FINAL_CHECKPOINT_GIVE_UP);
    final_checkpoint_given_up(final);
    assert_int_equal(final_checkpoint_report(final, STEP, STEP), 0);
    hear(final, 0, STEP);
    assert_int_equal(final->action, FINAL_CHECKPOINT_RETRY);
}

static void test_a_failed_share_is_given_up_by_all_and_tried_again(void **state)
{
    static const struct {
        uint64_t durable, failed;
    } cases[] = {{STEP, STEP}, {STEP - 1, 0}, {0, STEP}};

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct final_checkpoint final;
        to_write(&final, i == 0);
        final_checkpoint_written(&final);
        hear(&final, cases[i].durable, cases[i].failed);
        check_retry(&final);
    }
}

static void test_a_failed_commit_is_given_up_by_all_and_tried_again(void **state)
{
    struct final_checkpoint final;

    (void)state;
    to_record(&final, true);
    final_checkpoint_looked(&final);
    hear(&final, STEP, STEP); /* recorded, and a keeper has failed: it counts as failed */
    check_retry(&final);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_read_is_not_written_again),
        cmocka_unit_test(test_a_committed_boundary_is_not_written_again),
        cmocka_unit_test(test_a_recorded_checkpoint_ends_it),
        cmocka_unit_test(test_a_failed_share_is_given_up_by_all_and_tried_again),
        cmocka_unit_test(test_a_failed_commit_is_given_up_by_all_and_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
