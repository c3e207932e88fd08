/*
 * Tests that a rank with a failing disk skips the next checkpoints if another rank can write its
 * share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "elastic/copies/checkpoint_writers.h"

/* Two replicas of two stages: ranks 0 and 1 are on a; rank 2 on b; rank 3 on c. */
static struct plan_worker workers[] = {{.node = "a"}, {.node = "a"}, {.node = "b"}, {.node = "c"}};
static struct plan plan;
static struct checkpoint_writers writers;
static uint64_t step;

static int set_up(void **state)
{
    (void)state;
    plan = (struct plan){.layout.worker_count = 4,
                         .layout.stage_count = 2,
                         .layout.replica_count = 2,
                         .layout.workers = workers};
    memset(&writers, 0, sizeof(writers));
    snprintf(workers[2].node, NAME_SIZE, "b");
    step = 0;
    return 0;
}

/* Begin the next checkpoint; return a digit for each rank that skips it. */
static const char *begin(void)
{
    static char text[8];
    char *end = text;
    step += 10;
    checkpoint_writers_begin(&writers, &plan, step);
    for (unsigned rank = 0; rank < plan.layout.worker_count; rank++)
        if (writers.left_out[rank])
            *end++ = (char)('0' + rank);
    *end = '\0';
    return text;
}

static void fails(unsigned rank)
{
    const struct checkpoint_writers_unable unable = {.count = 1, .ranks = {rank}};
    checkpoint_writers_hear(&writers, step, &unable, step - 10);
    checkpoint_writers_hear(&writers, step, &unable, step - 10); /* every commit repeats it */
}

static void succeeds(void)
{
    const struct checkpoint_writers_unable before = {.count = 1, .ranks = {3}};
    checkpoint_writers_hear(&writers, step - 10, &before,
                            step); /* one checkpoint failed, not this one */
}

static void test_nobody_sits_out_at_first(void **state)
{
    (void)state;
    assert_string_equal(begin(), "");
    succeeds();
    assert_string_equal(begin(), "");
}

static void test_who_fails_sits_out_for_ever_longer(void **state)
{
    (void)state;
    begin();
    fails(3);
    for (unsigned pause = 1; pause <= CHECKPOINT_WRITERS_REST_MAX; pause *= 2) {
        for (unsigned i = 0; i < pause; i++) {
            assert_string_equal(begin(), "3");
            succeeds();
        }
        assert_string_equal(begin(), ""); /* tried again */
        fails(3);
    }
    for (unsigned i = 0; i < CHECKPOINT_WRITERS_REST_MAX; i++)
        assert_string_equal(begin(), "3");
    assert_string_equal(begin(), "");
}

static void test_who_has_recovered_is_as_new(void **state)
{
    (void)state;
    begin();
    fails(3);
    assert_string_equal(begin(), "3");
    succeeds();
    assert_int_equal(writers.count, 1);
    assert_string_equal(begin(), "");
    succeeds();
    assert_int_equal(writers.count, 1); /* the node's copies may still fail */
    begin();
    assert_int_equal(writers.count, 0);
    fails(3);
    assert_string_equal(begin(), "3");
    assert_string_equal(begin(), "");
}

/* With copies the shares are durable first; the marks of the other ranks may fail afterwards. */
static void test_who_fails_after_all_have_written(void **state)
{
    const struct checkpoint_writers_unable unable = {.count = 1, .ranks = {3}};
    (void)state;
    begin();
    for (unsigned pause = 1; pause <= CHECKPOINT_WRITERS_REST_MAX; pause *= 2) {
        succeeds();
        checkpoint_writers_hear(&writers, step, &unable, step);
        for (unsigned i = 0; i < pause; i++)
            assert_string_equal(begin(), "3");
        assert_string_equal(begin(), "");
    }
}

/* Each rank is retried while the other skips: the result of one says nothing about the other. */
static void test_two_of_different_stages(void **state)
{
    (void)state;
    begin();
    fails(2);
    assert_string_equal(begin(), "2");
    fails(3);
    assert_string_equal(begin(), "3"); /* rank 2 is retried, and fails */
    fails(2);
    assert_string_equal(begin(), "2");
    fails(3);
    assert_string_equal(begin(), "23");
}

static void test_a_stage_keeps_a_writer(void **state)
{
    (void)state;
    begin();
    fails(1);
    fails(3);
    assert_string_equal(begin(), "");
    fails(1);
    fails(3);
    assert_string_equal(begin(), "");
    succeeds();
    begin();
    assert_int_equal(writers.count, 0);
}

static void test_the_root_writes(void **state)
{
    (void)state;
    begin();
    fails(0);
    assert_string_equal(begin(), "");
}

/* All ranks of the node write to its disk, and the node keeps its copies there. */
static void test_with_copies_the_node_sits_out(void **state)
{
    (void)state;
    plan.checkpoints.copies = 2;
    snprintf(workers[2].node, NAME_SIZE, "c");
    begin();
    fails(3);
    assert_string_equal(begin(), "23");
    begin();
    fails(1); /* the root's node */
    assert_string_equal(begin(), "");
}

/*
 * The same boundary is written again, as at the end of a job: each attempt counts, each report
 * counts once.
 */
static void test_a_step_that_is_written_again(void **state)
{
    (void)state;
    begin();
    fails(3);
    step -= 10;
    assert_string_equal(begin(), "3");
    fails(2);
    step -= 10;
    assert_string_equal(begin(), "2");
    fails(3);
    step -= 10;
    assert_string_equal(begin(), "3");
    fails(2);
    step -= 10;
    assert_string_equal(begin(), "23");
}

static void test_too_many_are_no_matter_of_their_disks(void **state)
{
    struct checkpoint_writers_unable sum = {0};
    const struct checkpoint_writers_unable some = {.count = 5, .ranks = {1, 1, 1, 1, 3}};
    (void)state;
    begin();
    checkpoint_writers_merge(&sum, &some);
    assert_int_equal(sum.count, 5);
    assert_int_equal(sum.ranks[4], 3);
    checkpoint_writers_merge(&sum, &some);
    assert_int_equal(sum.count, 10);
    checkpoint_writers_hear(&writers, step, &sum, 0);
    assert_string_equal(begin(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nobody_sits_out_at_first, set_up),
        cmocka_unit_test_setup(test_who_fails_sits_out_for_ever_longer, set_up),
        cmocka_unit_test_setup(test_who_has_recovered_is_as_new, set_up),
        cmocka_unit_test_setup(test_who_fails_after_all_have_written, set_up),
        cmocka_unit_test_setup(test_two_of_different_stages, set_up),
        cmocka_unit_test_setup(test_a_stage_keeps_a_writer, set_up),
        cmocka_unit_test_setup(test_the_root_writes, set_up),
        cmocka_unit_test_setup(test_with_copies_the_node_sits_out, set_up),
        cmocka_unit_test_setup(test_a_step_that_is_written_again, set_up),
        cmocka_unit_test_setup(test_too_many_are_no_matter_of_their_disks, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
