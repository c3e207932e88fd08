/* Tests of one rank's progress with a checkpoint: the work that it starts, when it is busy, and the
 * files that it removes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "protocol/checkpoint_progress.h"

#define STEP       40
#define GENERATION 3

static struct checkpoint_progress begun(unsigned rank, bool sits_out, bool has_copies)
{
    const struct checkpoint_begin begin = {.step = STEP,
                                           .generation = GENERATION,
                                           .rank = rank,
                                           .sits_out = sits_out,
                                           .has_copies = has_copies,
                                           .is_keeper = has_copies};
    struct checkpoint_progress progress = {0};

    checkpoint_progress_begin(&progress, &begin);
    return progress;
}

static void test_work_when_all_shares_are_durable(void **state)
{
    static const struct {
        unsigned rank;
        bool sits_out, has_copies;
        enum checkpoint_work work;
    } cases[] = {
        {0, false, false, CHECKPOINT_WORK_COMMIT}, {0, false, true, CHECKPOINT_WORK_COMMIT},
        {1, false, false, CHECKPOINT_WORK_NONE},   {1, false, true, CHECKPOINT_WORK_KEEP},
        {1, true, false, CHECKPOINT_WORK_NONE},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct checkpoint_progress progress =
            begun(cases[i].rank, cases[i].sits_out, cases[i].has_copies);
        assert_int_equal(progress.writes, !cases[i].sits_out);
        if (progress.writes)
            assert_false(checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_DONE));
        assert_int_equal(progress.durable, STEP);
        assert_int_equal(checkpoint_progress_start(&progress, 0), CHECKPOINT_WORK_NONE);
        assert_int_equal(checkpoint_progress_start(&progress, STEP - 1), CHECKPOINT_WORK_NONE);
        assert_int_equal(checkpoint_progress_start(&progress, STEP), cases[i].work);
        /* A vote and a commit may both tell it. */
        assert_int_equal(checkpoint_progress_start(&progress, STEP), CHECKPOINT_WORK_NONE);
        assert_int_equal(checkpoint_progress_is_settled(&progress),
                         cases[i].work == CHECKPOINT_WORK_NONE);
    }
}

static void test_a_commit_happens_once_in_each_generation(void **state)
{
    struct checkpoint_progress progress = begun(0, false, false);
    struct checkpoint_begin again = progress.begun;

    (void)state;
    checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_DONE);
    assert_int_equal(checkpoint_progress_start(&progress, STEP), CHECKPOINT_WORK_COMMIT);
    checkpoint_progress_commit_ended(&progress, STEP, GENERATION, true);
    assert_int_equal(checkpoint_progress_start(&progress, STEP), CHECKPOINT_WORK_NONE);
    checkpoint_progress_forget(&progress);
    again.generation++;
    checkpoint_progress_begin(&progress, &again);
    checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_DONE);
    assert_int_equal(checkpoint_progress_start(&progress, STEP), CHECKPOINT_WORK_COMMIT);
    checkpoint_progress_commit_ended(&progress, STEP, GENERATION + 1, false);
    assert_int_equal(progress.failed, STEP);
    assert_int_equal(checkpoint_progress_start(&progress, STEP), CHECKPOINT_WORK_NONE);
}

/* With copies the outcome of a step is known before the next one begins, without them its share. */
static void test_busy_until_the_outcome_is_known(void **state)
{
    (void)state;
    for (unsigned copies = 0; copies < 2; copies++)
        for (unsigned rank = 0; rank < 2; rank++) {
            struct checkpoint_progress progress = begun(rank, false, copies);
            assert_true(checkpoint_progress_is_busy(&progress));
            checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_DONE);
            assert_int_equal(checkpoint_progress_is_busy(&progress), copies && rank == 0);
            checkpoint_progress_start(&progress, STEP);
            assert_int_equal(checkpoint_progress_is_busy(&progress), copies);
            assert_int_equal(checkpoint_progress_may_begin(&progress), !copies);
            if (rank == 0)
                checkpoint_progress_commit_ended(&progress, STEP, GENERATION, true);
            else if (copies)
                checkpoint_progress_copies_ended(&progress, CHECKPOINT_OUTCOME_DONE);
            assert_false(checkpoint_progress_is_busy(&progress));
            assert_true(checkpoint_progress_is_settled(&progress));
        }
}

static void test_a_failure_is_news_once(void **state)
{
    struct checkpoint_progress progress = begun(1, false, true);

    (void)state;
    assert_true(checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_UNABLE));
    assert_true(checkpoint_progress_is_unable(&progress));
    assert_true(checkpoint_progress_abandon(&progress, STEP));
    assert_false(checkpoint_progress_abandon(&progress, STEP));
    progress = begun(1, false, true);
    assert_true(checkpoint_progress_abandon(&progress, STEP)); /* another rank's share has failed */
    assert_false(checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_UNABLE));
    assert_int_equal(progress.failed, STEP);
    assert_false(checkpoint_progress_is_unable(&progress));
    progress = begun(1, false, false);
    assert_false(checkpoint_progress_abandon(&progress, STEP - 1));
    assert_false(checkpoint_progress_abandon(&progress, STEP)); /* rank 0 removes them for all */
    assert_true(checkpoint_progress_is_abandoned(&progress));
}

/* The same boundary is written again, in this generation or the next, and nothing of the attempt
 * before counts. */
static void test_an_attempt_does_not_outlive_its_generation(void **state)
{
    struct checkpoint_progress progress = begun(0, false, true);
    const struct checkpoint_begin again = progress.begun;

    (void)state;
    checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_UNABLE);
    checkpoint_progress_abandon(&progress, STEP);
    checkpoint_progress_end_copies(&progress);
    checkpoint_progress_forget(&progress);
    assert_int_equal(progress.failed, 0);
    checkpoint_progress_begin(&progress, &again);
    assert_false(checkpoint_progress_is_abandoned(&progress));
    checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_DONE);
    assert_true(checkpoint_progress_is_busy(&progress));
    assert_int_equal(checkpoint_progress_start(&progress, STEP), CHECKPOINT_WORK_COMMIT);
}

/* The writer still has the share of the generation before: the next one has to wait for it. */
static void test_a_share_in_flight_outlives_its_generation(void **state)
{
    struct checkpoint_progress progress = begun(0, false, false);

    (void)state;
    checkpoint_progress_forget(&progress);
    assert_false(checkpoint_progress_may_begin(&progress));
    assert_false(checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_DONE));
    assert_int_equal(progress.durable, 0);
    assert_true(checkpoint_progress_may_begin(&progress));
}

static void test_work_that_cannot_be_started(void **state)
{
    struct checkpoint_progress progress = begun(0, false, false);

    (void)state;
    checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_DONE);
    assert_int_equal(checkpoint_progress_start(&progress, STEP), CHECKPOINT_WORK_COMMIT);
    checkpoint_progress_not_started(&progress, CHECKPOINT_WORK_COMMIT);
    assert_int_equal(checkpoint_progress_start(&progress, STEP), CHECKPOINT_WORK_COMMIT);
    progress = begun(1, false, true);
    checkpoint_progress_share_ended(&progress, CHECKPOINT_OUTCOME_DONE);
    assert_int_equal(checkpoint_progress_start(&progress, STEP), CHECKPOINT_WORK_KEEP);
    checkpoint_progress_not_started(&progress, CHECKPOINT_WORK_KEEP);
    assert_int_equal(progress.failed, STEP);
    assert_true(checkpoint_progress_is_settled(&progress));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_when_all_shares_are_durable),
        cmocka_unit_test(test_a_commit_happens_once_in_each_generation),
        cmocka_unit_test(test_busy_until_the_outcome_is_known),
        cmocka_unit_test(test_a_failure_is_news_once),
        cmocka_unit_test(test_an_attempt_does_not_outlive_its_generation),
        cmocka_unit_test(test_a_share_in_flight_outlives_its_generation),
        cmocka_unit_test(test_work_that_cannot_be_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
