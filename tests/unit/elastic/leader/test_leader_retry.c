/*
 * Tests of generations that fail before they begin: the backoff, and when the leader gives up a
 * checkpoint.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lib/elastic/three_nodes.h"

/* Publish the next generation, with reports of its workers, in vain. */
static void publish_in_vain(void)
{
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    three_plan->generation++;
    for (unsigned i = 0; i < NODES; i++) {
        three_reports[i].generation = three_plan->generation;
        three_reports[i].workers[0].generation = three_plan->generation;
    }
}

/* The plan in force begins from the checkpoint of step 4, and nobody could read it. */
static void read_in_vain(void)
{
    three_plan->start.source = PLAN_SOURCE_CHECKPOINT;
    three_view.progress.step = three_plan->start.resume_step = 4;
    for (unsigned i = 0; i < NODES; i++) {
        three_say(i, WORKER_STUCK, 6, 0);
        three_reports[i].workers[0].held_unit_count = 0;
    }
}

static void test_a_checkpoint_out_of_reach_is_tried_less_and_less(void **state)
{
    (void)state;
    read_in_vain();
    for (unsigned i = 0; i < NODES; i++)
        snprintf(three_reports[i].workers[0].text, REPORT_TEXT_SIZE, "node b does not answer");
    publish_in_vain(); /* the first retry is immediate */
    uint64_t pause = TIMEOUT_NS / 4;
    for (unsigned attempt = 0; attempt < 8; attempt++) {
        three_decide();
        assert_int_equal(three_decision.action, LEADER_NOTHING);
        assert_non_null(strstr(three_decision.text, "out of reach (a/0: node b does not answer)"));
        assert_int_equal(three_decision.wake_at_ns, three_view.now_ns + pause);
        three_view.now_ns += pause;
        publish_in_vain();
        pause = MIN(2 * pause, 4 * TIMEOUT_NS);
    }
    three_view.progress.step = 5; /* it did begin */
    publish_in_vain();
}

/* An attempt waits for links to a silent host before it fails; a missing file of the host may fail
 * it at once. */
static void test_only_a_wait_for_links_takes_the_place_of_a_pause(void **state)
{
    (void)state;
    read_in_vain();
    for (unsigned i = 0; i < NODES; i++) {
        three_reports[i].workers[0].unreached_count = 1;
        three_reports[i].workers[0].unreached[0] = 9; /* of no rank: no netsplit */
    }
    publish_in_vain();
    publish_in_vain();
    for (unsigned i = 0; i < NODES; i++)
        three_reports[i].workers[0].cause = CAUSE_CHECKPOINT_AWAY;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.wake_at_ns, three_view.now_ns + TIMEOUT_NS / 2);
}

static void test_a_beginning_that_comes_to_nothing_is_tried_less_and_less(void **state)
{
    (void)state;
    three_plan->start.source = PLAN_SOURCE_FRESH;
    three_view.checkpoint.step = three_view.progress.step = three_plan->start.resume_step = 0;
    for (unsigned i = 0; i < NODES; i++) {
        three_say(i, WORKER_STUCK, 6, 0);
        three_reports[i].workers[0].held_unit_count = 0;
        snprintf(three_reports[i].workers[0].text, REPORT_TEXT_SIZE, "no memory for unit 3");
    }
    publish_in_vain(); /* the first retry is immediate */
    uint64_t pause = TIMEOUT_NS / 4;
    for (unsigned attempt = 0; attempt < 8; attempt++) {
        char words[96];
        three_decide();
        assert_int_equal(three_decision.action, LEADER_NOTHING);
        snprintf(words, sizeof(words),
                 "cannot begin (a/0: no memory for unit 3): tried again in %.1f s "
                 "(attempt %u)",
                 (double)pause / 1e9, attempt + 3);
        assert_non_null(strstr(three_decision.text, words));
        assert_int_equal(three_decision.wake_at_ns, three_view.now_ns + pause);
        three_view.now_ns += pause;
        publish_in_vain();
        pause = MIN(2 * pause, 4 * TIMEOUT_NS);
    }
    three_view.progress.step = 1; /* it did begin */
    publish_in_vain();
}

static void test_a_step_in_memory_that_does_not_go_on_is_tried_less_and_less(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++) {
        three_say(i, WORKER_STUCK, 6, 9);
        snprintf(three_reports[i].workers[0].text, REPORT_TEXT_SIZE, "the link was refused");
    }
    publish_in_vain(); /* the first retry is immediate */
    uint64_t pause = TIMEOUT_NS / 4;
    for (unsigned attempt = 0; attempt < 8; attempt++) {
        three_decide();
        assert_int_equal(three_decision.action, LEADER_NOTHING);
        assert_non_null(
            strstr(three_decision.text, "step 9 does not go on (a/0: the link was refused)"));
        assert_int_equal(three_decision.wake_at_ns, three_view.now_ns + pause);
        three_view.now_ns += pause;
        publish_in_vain();
        pause = MIN(2 * pause, 4 * TIMEOUT_NS);
    }
    for (unsigned i = 0; i < NODES; i++) /* it did continue */
        three_reports[i].workers[0].applied_step = 10;
    publish_in_vain();
}

/* Retry until the leader gives the checkpoint up; return the time since the first attempt. */
static uint64_t try_until_given_up(void)
{
    uint64_t since_ns = three_view.now_ns;
    three_plan->start.source = PLAN_SOURCE_CHECKPOINT;
    three_view.progress.step = three_plan->start.resume_step = three_view.checkpoint.step;
    for (unsigned i = 0; i < NODES; i++) {
        three_say(i, WORKER_STUCK, 6, 0);
        three_reports[i].workers[0].held_unit_count = 0;
        three_reports[i].workers[0].cause = i == 0 ? CAUSE_CHECKPOINT_AWAY : CAUSE_NONE;
    }
    for (;;) {
        three_decide();
        if (three_decision.gives_up_checkpoint || three_view.now_ns > since_ns + 100 * TIMEOUT_NS)
            return three_view.now_ns - since_ns;
        if (three_decision.action == LEADER_PUBLISH)
            publish_in_vain();
        three_view.now_ns = MIN(three_decision.wake_at_ns, three_view.now_ns + TIMEOUT_NS / 4);
    }
}

static void test_one_that_nobody_can_read_is_given_up(void **state)
{
    (void)state;
    uint64_t tried_ns = try_until_given_up();
    assert_true(three_decision.gives_up_checkpoint);
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(tried_ns, 8 * TIMEOUT_NS);
    three_view.checkpoint.step = 2; /* the caller refused it: the job begins from the one before */
    three_decide();
    assert_false(three_decision.gives_up_checkpoint);
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.resume_step, 2);
}

/* Ten steps of two seconds each would be computed again. */
static void test_not_sooner_than_what_follows_would_be_computed_again(void **state)
{
    (void)state;
    three_view.checkpoint.step = 14;
    three_view.checkpoint.before_step = 4;
    three_view.progress.last_step_seconds = 2;
    assert_int_equal(try_until_given_up(), 20 * NS_PER_SECOND);
    assert_true(three_decision.gives_up_checkpoint);
}

static void test_nor_where_there_is_nothing_else_but_what_is_away(void **state)
{
    (void)state;
    three_view.checkpoint.before_is_away = true;
    try_until_given_up();
    assert_false(three_decision.gives_up_checkpoint);
}

/* Without it the job would wait for the operator, and then begin at step 0. */
static void test_nor_where_all_others_are_damaged(void **state)
{
    (void)state;
    three_view.checkpoint.damaged_count = 1;
    try_until_given_up();
    assert_false(three_decision.gives_up_checkpoint);
}

static void test_unless_another_that_was_given_up_has_its_turn_again(void **state)
{
    (void)state;
    three_view.checkpoint.damaged_count = three_view.checkpoint.given_up_count = 1;
    try_until_given_up();
    assert_true(three_decision.gives_up_checkpoint);
}

/* The leader decides only when etcd is back. */
static void test_nor_for_what_was_found_out_long_ago(void **state)
{
    (void)state;
    three_view.progress.last_step_seconds = 100; /* not yet */
    try_until_given_up();
    assert_false(three_decision.gives_up_checkpoint);
    three_view.progress.last_step_seconds = 0;
    three_view.now_ns += 300 * TIMEOUT_NS;
    three_decide();
    assert_false(three_decision.gives_up_checkpoint);
    publish_in_vain();
    three_decide();
    assert_true(three_decision.gives_up_checkpoint);
}

static void test_nor_where_it_was_not_the_checkpoint_that_failed(void **state)
{
    (void)state;
    three_plan->start.source = PLAN_SOURCE_CHECKPOINT;
    three_view.progress.step = three_plan->start.resume_step = 4;
    for (unsigned i = 0; i < NODES; i++) {
        three_say(i, WORKER_STUCK, 6, 4);
        three_reports[i].workers[0].held_unit_count = 0;
    }
    for (unsigned i = 0; i < 20; i++) {
        three_decide();
        assert_false(three_decision.gives_up_checkpoint);
        if (three_decision.action == LEADER_PUBLISH)
            publish_in_vain();
        three_view.now_ns += TIMEOUT_NS;
    }
}

/*
 * Only step 0 is left: the job begins there only after the operator has removed the damaged
 * checkpoints.
 */
static void test_damaged_checkpoints_alone_ask_the_operator(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        three_reports[i].worker_count = 0;
    three_view.plan = NULL;
    three_view.checkpoint = (struct leader_checkpoint){.damaged_count = 2};
    snprintf(three_view.checkpoint.damaged, sizeof(three_view.checkpoint.damaged),
             "step 14: chunk 3 is bad");
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_null(three_decision.plan);
    assert_int_equal(three_decision.state, JOB_WAITING);
    assert_true(three_decision.misses_checkpoint);
    assert_non_null(strstr(three_decision.text, "2 damaged; step 14: chunk 3 is bad"));
    assert_non_null(strstr(three_decision.text, "firnctl checkpoint remove job --damaged"));

    three_view.checkpoint = (struct leader_checkpoint){0}; /* the operator removed them */
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_FRESH);
}

/*
 * The job does not begin at step 0: the nodes may come back, or their files are in an object store.
 */
static void test_a_job_whose_checkpoints_are_away_waits_for_their_nodes(void **state)
{
    (void)state;
    three_view.plan = NULL;
    three_view.report_count = 0;
    three_view.checkpoint = (struct leader_checkpoint){0};
    snprintf(three_view.checkpoint.missing, sizeof(three_view.checkpoint.missing), "node x or y");
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_true(three_decision.misses_checkpoint);
    assert_string_equal(three_decision.text, "waits for node x or y");
    three_view.checkpoint.missing[0] = '\0';
    three_decide();
    assert_false(three_decision.misses_checkpoint);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_FRESH);
}

static void test_what_was_given_up_is_taken_back_when_nothing_else_is_left(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        three_reports[i].worker_count = 0;
    three_view.plan = NULL;
    three_view.checkpoint = (struct leader_checkpoint){.damaged_count = 2, .given_up_count = 1};
    snprintf(three_view.checkpoint.damaged, sizeof(three_view.checkpoint.damaged),
             "step 14: chunk 3 is bad");
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_true(three_decision.takes_back_checkpoints);
    assert_false(three_decision.misses_checkpoint);
    assert_non_null(strstr(three_decision.text, "given up again (step 14: chunk 3 is bad)"));

    three_view.checkpoint = (struct leader_checkpoint){.given_up_count = 1};
    snprintf(three_view.checkpoint.missing, sizeof(three_view.checkpoint.missing),
             "node b: it has a part");
    three_decide();
    assert_true(three_decision.takes_back_checkpoints);
    assert_non_null(strstr(three_decision.text, "given up again (node b: it has a part)"));

    three_view.checkpoint = (struct leader_checkpoint){.given_up_count = 1}; /* for step 0 */
    three_decide();
    assert_false(three_decision.takes_back_checkpoints);
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_FRESH);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, three_setup, three_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_checkpoint_out_of_reach_is_tried_less_and_less),
        TEST(test_only_a_wait_for_links_takes_the_place_of_a_pause),
        TEST(test_a_beginning_that_comes_to_nothing_is_tried_less_and_less),
        TEST(test_a_step_in_memory_that_does_not_go_on_is_tried_less_and_less),
        TEST(test_one_that_nobody_can_read_is_given_up),
        TEST(test_not_sooner_than_what_follows_would_be_computed_again),
        TEST(test_nor_where_there_is_nothing_else_but_what_is_away),
        TEST(test_nor_where_all_others_are_damaged),
        TEST(test_unless_another_that_was_given_up_has_its_turn_again),
        TEST(test_nor_for_what_was_found_out_long_ago),
        TEST(test_nor_where_it_was_not_the_checkpoint_that_failed),
        TEST(test_damaged_checkpoints_alone_ask_the_operator),
        TEST(test_a_job_whose_checkpoints_are_away_waits_for_their_nodes),
        TEST(test_what_was_given_up_is_taken_back_when_nothing_else_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
