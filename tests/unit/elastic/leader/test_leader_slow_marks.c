/*
 * Tests of the marks of slow slots in plans, rule by rule; tests/sim/scene/test_slow_slot.c tests
 * their effect on a cluster. One stage and three replicas on nodes a, b and c; the plan in force
 * has a mark on c/0, found slow once, a quarter as fast as its peers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/timeouts.h"
#include "lib/elastic/three_nodes.h"

#include "elastic/leader/leader_internal.h"
#include "elastic/leader/leader_slow.h"

#define TERM_NS (TIMEOUTS_SLOW_SLOT_MIN * TIMEOUT_NS)

static struct leader_context context;
static struct plan *made; /* the next plan: uses all three */
static uint64_t seen_ns;  /* when the leader first saw the mark */

/* Let the leader see the changes of the test. */
static void look(void)
{
    roster_done(&context.roster);
    three_decision = (struct leader_decision){.wake_at_ns = UINT64_MAX};
    context = (struct leader_context){
        .view = &three_view, .memory = &three_memory, .decision = &three_decision};
    assert_int_equal(roster_init(&context.roster, &three_view), 0);
    leader_slow_refresh(&three_view, &three_memory.slow);
}

static int begin(void **state)
{
    three_setup(state);
    three_plan->slow_count = 1;
    three_plan->slow[0] = (struct plan_slow){.node = "c", .speed = 0.25, .times = 1};
    made = plan_copy(three_plan);
    assert_non_null(made);
    seen_ns = three_view.now_ns;
    look();
    return 0;
}

static int end(void **state)
{
    roster_done(&context.roster);
    plan_free(made);
    return three_teardown(state);
}

/* Make c a donor of the plan in force, or leave it out. */
static void leave_out_c(bool donor)
{
    three_plan->layout.worker_count = three_plan->layout.replica_count = 2;
    three_plan->layout.donor_count = donor;
    look();
}

static void judge(unsigned rank, double speed)
{
    three_view.stragglers.count = 1;
    three_view.stragglers.judgements[0] =
        (struct straggler_judgement){.rank = rank, .speed = speed};
}

static void at(uint64_t now_ns)
{
    three_view.now_ns = now_ns;
    look();
}

static double speed_of(unsigned node)
{
    return leader_slow_speed(&context, &three_nodes[node], 0);
}

static void expect_mark(double speed, unsigned times)
{
    leader_slow_carry(&context, made);
    assert_int_equal(made->slow_count, 1);
    assert_string_equal(made->slow[0].node, "c");
    assert_int_equal(made->slow[0].times, times);
    assert_true(made->slow[0].speed == speed);
}

static void expect_no_mark(void)
{
    leader_slow_carry(&context, made);
    assert_int_equal(made->slow_count, 0);
}

/* ---- the planner's input ---- */

static void test_a_slot_in_use_is_as_slow_as_its_mark_says(void **state)
{
    (void)state;
    assert_true(speed_of(2) == 0.25);
    assert_true(speed_of(0) == 1);
    at(seen_ns + TERM_NS); /* only a judgement can clear it */
    assert_true(speed_of(2) == 0.25);
    three_nodes[2].incarnation++;
    assert_true(speed_of(2) == 1);
}

static void test_a_mark_is_of_one_slot(void **state)
{
    (void)state;
    three_nodes[2].slot_count = 2;
    three_nodes[2].slots[1] = (struct member_slot){.index = 1, .speed = 1};
    assert_true(leader_slow_speed(&context, &three_nodes[2], 1) == 1);
}

static void test_one_that_is_left_out_is_tried_again_when_its_term_is_over(void **state)
{
    (void)state;
    for (unsigned donor = 0; donor < 2; donor++) {
        three_view.now_ns = seen_ns;
        three_memory.slow.count = 0;
        leave_out_c(donor);
        at(seen_ns + TERM_NS - 1);
        assert_true(speed_of(2) == 0.25);
        assert_int_equal(three_decision.wake_at_ns, seen_ns + TERM_NS);
        at(seen_ns + TERM_NS);
        assert_true(speed_of(2) == 1);
    }
}

static void test_with_one_replica_nobody_would_tell_so_it_is_not(void **state)
{
    (void)state;
    three_plan->layout.worker_count = three_plan->layout.replica_count = 1;
    look();
    at(seen_ns + TERM_NS);
    assert_true(speed_of(2) == 0.25);
}

static void test_times_are_about_the_mark_as_it_is(void **state)
{
    (void)state;
    leave_out_c(false); /* from now on */
    at(seen_ns + 5);
    assert_int_equal(three_memory.slow.seen[0].since_ns, seen_ns);
    three_plan->slow[0].times = 2;
    at(seen_ns + 10);
    assert_int_equal(three_memory.slow.seen[0].since_ns, seen_ns + 10);
    three_plan->layout.worker_count = three_plan->layout.replica_count = 3;
    at(seen_ns + 20);
    assert_int_equal(three_memory.slow.seen[0].since_ns, seen_ns + 20);
    three_plan->slow[0].slot = 1; /* another slot of the node */
    at(seen_ns + 30);
    assert_int_equal(three_memory.slow.seen[0].since_ns, seen_ns + 30);
    memcpy(three_plan->slow[0].node, "b", 2);
    at(seen_ns + 40);
    assert_int_equal(three_memory.slow.seen[0].since_ns, seen_ns + 40);
}

/* ---- judgements ---- */

static void test_that_it_is_worse_counts_at_once_that_it_is_better_after_its_term(void **state)
{
    (void)state;
    assert_false(leader_slow_found(&context));
    judge(2, 0.125);
    assert_true(leader_slow_found(&context));
    assert_true(speed_of(2) == 0.125);
    judge(2, 0.25);
    assert_true(leader_slow_found(&context));
    judge(2, 0.5);
    at(seen_ns + TERM_NS - 1);
    assert_false(leader_slow_found(&context));
    assert_true(speed_of(2) == 0.25);
    assert_int_equal(three_decision.wake_at_ns, seen_ns + TERM_NS);
    at(seen_ns + TERM_NS);
    assert_true(leader_slow_found(&context));
    assert_true(speed_of(2) == 0.5);
    assert_true(speed_of(1) == 1);
}

static void test_a_judgement_is_of_a_rank_that_computes(void **state)
{
    (void)state;
    judge(3, 0.5);
    assert_false(leader_slow_found(&context));
    leave_out_c(true);
    judge(2, 0.125);
    assert_false(leader_slow_found(&context));
    assert_true(speed_of(2) == 0.25);
    expect_mark(0.25, 1);
    three_view.plan = NULL;
    look();
    assert_true(speed_of(1) == 1);
    expect_no_mark();
}

/* ---- the marks of the next plan ---- */

static void test_a_worse_judgement_counts_as_found_again(void **state)
{
    (void)state;
    judge(2, 0.25);
    expect_mark(0.25, 1);
    judge(2, 0.125);
    expect_mark(0.125, 2);
    judge(2, 0.5);
    at(seen_ns + TERM_NS);
    expect_mark(0.5, 1);
}

static void test_a_new_judgement_makes_a_mark(void **state)
{
    (void)state;
    three_plan->slow_count = 0;
    judge(2, 0.5);
    three_nodes[2].incarnation = 7;
    look();
    expect_mark(0.5, 1);
    assert_int_equal(made->slow[0].incarnation, 7);
    judge(2, 1);
    expect_no_mark();
    judge(3, 0.5);
    expect_no_mark();
    judge(2, 0.5);
    three_view.node_count = 2; /* c is gone */
    look();
    expect_no_mark();
}

static void test_a_mark_stays_while_its_node_is_away_and_goes_with_its_firnd(void **state)
{
    (void)state;
    three_view.node_count = 2;
    look();
    expect_mark(0.25, 1);
    three_view.node_count = 3;
    three_nodes[2].incarnation++;
    look();
    expect_no_mark();
}

static void test_one_that_comes_back_is_on_probation(void **state)
{
    (void)state;
    leave_out_c(false);
    at(seen_ns + TERM_NS - 1);
    expect_mark(0.25, 1); /* c is needed sooner */
    at(seen_ns + TERM_NS);
    expect_mark(1, 1);
    made->layout.worker_count = made->layout.replica_count = 2; /* c does not return */
    expect_mark(0.25, 1);
}

static void test_probation_ends(void **state)
{
    (void)state;
    three_plan->slow[0].speed = 1;
    at(seen_ns + TERM_NS - 1);
    expect_mark(1, 1);
    at(seen_ns + TERM_NS);
    expect_no_mark();
    three_plan->slow[0].speed = 0.25; /* c is slow, and not on probation */
    look();
    expect_mark(0.25, 1);
    three_plan->slow[0].speed = 1;
    leave_out_c(false);
    made->layout.worker_count = made->layout.replica_count = 2;
    at(seen_ns + 2 * TERM_NS); /* no judgement about it */
    expect_mark(1, 1);
}

static void test_the_oldest_mark_is_forgotten_for_a_new_one(void **state)
{
    (void)state;
    three_plan->slow_count = PLAN_SLOW_MAX;
    for (unsigned i = 0; i < PLAN_SLOW_MAX; i++) {
        three_plan->slow[i] = (struct plan_slow){.slot = i, .speed = 0.5, .times = 1};
        snprintf(three_plan->slow[i].node, NAME_SIZE, "away");
    }
    judge(2, 0.25);
    look();
    leader_slow_carry(&context, made);
    assert_int_equal(made->slow_count, PLAN_SLOW_MAX);
    assert_int_equal(made->slow[0].slot, 1);
    assert_int_equal(made->slow[PLAN_SLOW_MAX - 2].slot, PLAN_SLOW_MAX - 1);
    assert_string_equal(made->slow[PLAN_SLOW_MAX - 1].node, "c");
}

/* ---- the plan's message ---- */

static const char *words(void)
{
    static char text[160];
    return leader_slow_words(&context, &made->layout, text, sizeof(text));
}

static void test_words_say_who_is_slow_or_no_more_or_is_tried_again(void **state)
{
    (void)state;
    assert_null(words());
    judge(2, 0.125);
    assert_string_equal(words(), "c/0 computes 8.0 times slower than its peers");
    judge(2, 1);
    assert_null(words()); /* its term is not over */
    three_view.stragglers.count = 2;
    three_view.stragglers.judgements[1] = (struct straggler_judgement){.rank = 1, .speed = 0.5};
    assert_string_equal(words(), "b/0 computes 2.0 times slower than its peers");
    three_view.stragglers.count = 1;
    at(seen_ns + TERM_NS);
    assert_string_equal(words(), "c/0 computes as fast as its peers again");
    three_view.stragglers.count = 0;
    leave_out_c(false);
    assert_string_equal(words(), "c/0, which was slow, is tried again");
    made->layout.worker_count = made->layout.replica_count = 2;
    assert_null(words());
}

static void test_the_jobs_text_names_the_slow_one_that_stays(void **state)
{
    (void)state;
    leader_slow_say(&context);
    judge(2, 1);
    leader_slow_say(&context);
    judge(3, 0.5);
    leader_slow_say(&context);
    assert_string_equal(three_decision.text, "");
    judge(2, 0.5);
    leader_slow_say(&context);
    assert_non_null(strstr(three_decision.text,
                           "; c/0 computes 2.0 times slower than its peers, and no "
                           "layout without it is faster"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_a_slot_in_use_is_as_slow_as_its_mark_says),
        TEST(test_a_mark_is_of_one_slot),
        TEST(test_one_that_is_left_out_is_tried_again_when_its_term_is_over),
        TEST(test_with_one_replica_nobody_would_tell_so_it_is_not),
        TEST(test_times_are_about_the_mark_as_it_is),
        TEST(test_that_it_is_worse_counts_at_once_that_it_is_better_after_its_term),
        TEST(test_a_judgement_is_of_a_rank_that_computes),
        TEST(test_a_worse_judgement_counts_as_found_again),
        TEST(test_a_new_judgement_makes_a_mark),
        TEST(test_a_mark_stays_while_its_node_is_away_and_goes_with_its_firnd),
        TEST(test_one_that_comes_back_is_on_probation),
        TEST(test_probation_ends),
        TEST(test_the_oldest_mark_is_forgotten_for_a_new_one),
        TEST(test_words_say_who_is_slow_or_no_more_or_is_tried_again),
        TEST(test_the_jobs_text_names_the_slow_one_that_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
