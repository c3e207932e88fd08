/*
 * Tests of the leader's roster: the meaning of each report under the plan in force. One stage and
 * three replicas on nodes a, b and c; generation 6, an unplanned one, is in force.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "lib/elastic/three_nodes.h"

#include "elastic/leader/leader_roster.h"

static struct roster roster;

static const struct roster_member *look(const char *node)
{
    roster_done(&roster);
    assert_int_equal(roster_init(&roster, &three_view), 0);
    return roster_find(&roster, node, 0);
}

static int forget(void **state)
{
    roster_done(&roster);
    return three_teardown(state);
}

static void expect_seat(enum worker_phase phase, uint64_t generation, enum seat seat)
{
    three_say(2, phase, generation, 9);
    const struct roster_member *member = look("c");
    if (member->seat != seat)
        fail_msg("phase %d in generation %d: seat %d, not %d", (int)phase, (int)generation,
                 (int)member->seat, (int)seat);
    bool gone = seat == SEAT_LOST || seat == SEAT_LEFT;
    assert_int_equal(roster_alive(member), !gone);
}

static void test_a_worker_of_an_unplanned_plan(void **state)
{
    (void)state;
    expect_seat(WORKER_STARTING, 6, SEAT_JOINING);
    expect_seat(WORKER_PREPARED, 6, SEAT_JOINING);
    expect_seat(WORKER_RUNNING, 6, SEAT_RUNNING);
    expect_seat(WORKER_RUNNING, 5, SEAT_JOINING);
    expect_seat(WORKER_FINISHED, 6, SEAT_RUNNING);
    expect_seat(WORKER_STUCK, 6, SEAT_BROKEN);
    expect_seat(WORKER_STUCK, 5, SEAT_JOINING); /* the plan is the answer to that failure */
    expect_seat(WORKER_LEFT, 6, SEAT_LOST);     /* it has a rank, so it must not leave */
    expect_seat(WORKER_DEAD, 6, SEAT_LOST);
    expect_seat(WORKER_REFUSED, 6, SEAT_LOST);
    expect_seat(WORKER_BAD, 6, SEAT_LOST);
}

static void test_a_worker_of_a_planned_plan(void **state)
{
    (void)state;
    three_plan->change.planned = true;
    three_plan->follows = 5;
    expect_seat(WORKER_STUCK, 6, SEAT_BROKEN);
    expect_seat(WORKER_STUCK, 5, SEAT_BROKEN);  /* the boundary for its switch is lost */
    expect_seat(WORKER_STUCK, 4, SEAT_JOINING); /* it was left behind before that */
    expect_seat(WORKER_RUNNING, 5, SEAT_JOINING);
}

/* A plan without workers waits for the living workers. The report of c reached etcd late: c was
 * gone, and its new firnd finds no process. */
static void test_a_process_of_a_firnd_that_is_gone_is_none(void **state)
{
    (void)state;
    three_plan->layout.worker_count = three_plan->layout.replica_count = 2;
    three_nodes[2].incarnation = 9;
    three_say(2, WORKER_STARTING, 0, 0);
    assert_true(roster_alive(look("c"))); /* an older program's report says not whose it is */
    three_reports[2].incarnation = 9;
    assert_true(roster_alive(look("c")));
    three_reports[2].incarnation = 8;
    assert_null(look("c"));
    three_say(2, WORKER_RUNNING, 5, 9); /* the new firnd will report its state */
    assert_true(roster_alive(look("c")));
}

static void test_a_donor_may_leave(void **state)
{
    (void)state;
    three_plan->layout.worker_count = three_plan->layout.replica_count = 2;
    three_plan->layout.donor_count = 1;
    expect_seat(WORKER_LEFT, 6, SEAT_LEFT);
    assert_false(roster_is_worker(&roster, look("c")));
    assert_true(roster_is_worker(&roster, look("b")));
}

/*
 * The slot has another process than the plan's: on the slot of a donor it is being prepared for the
 * next plan.
 */
static void test_another_process(void **state)
{
    (void)state;
    three_reports[2].workers[0].instance = 99;
    expect_seat(WORKER_RUNNING, 6, SEAT_LOST);
    expect_seat(WORKER_STARTING, 6, SEAT_LOST);
    three_plan->layout.worker_count = three_plan->layout.replica_count = 2;
    three_plan->layout.donor_count = 1;
    expect_seat(WORKER_STARTING, 6, SEAT_SPARE);
    expect_seat(WORKER_PREPARED, 6, SEAT_LOST); /* with state: an old process */
    three_reports[2].workers[0].held_unit_count = 0;
    assert_int_equal(look("c")->seat, SEAT_SPARE);
    three_plan->layout.worker_count = three_plan->layout.replica_count = 3;
    three_plan->layout.donor_count = 0;
    three_plan->layout.workers[2].instance = 0; /* any process on the slot */
    expect_seat(WORKER_RUNNING, 6, SEAT_RUNNING);
}

static void test_a_process_without_a_rank(void **state)
{
    (void)state;
    three_plan->layout.worker_count = three_plan->layout.replica_count = 2;
    expect_seat(WORKER_STARTING, 6, SEAT_SPARE);
    assert_int_equal(look("c")->rank, -1);
    assert_false(roster_is_worker(&roster, look("c")));
    expect_seat(WORKER_PREPARED, 6, SEAT_JOINING);
    three_reports[2].workers[0].held_unit_count = 0;
    assert_int_equal(look("c")->seat, SEAT_SPARE);
    expect_seat(WORKER_STUCK, 5, SEAT_JOINING);
    expect_seat(WORKER_LEFT, 5, SEAT_LEFT);
}

static void test_who_has_said_nothing_of_this_generation_is_silent(void **state)
{
    (void)state;
    three_say(2, WORKER_RUNNING, 6, 9);
    three_reports[2].generation = 5;
    assert_int_equal(look("c")->seat, SEAT_SILENT);
    assert_null(look("c")->report);
    assert_true(roster_alive(look("c")));
}

/* Until a planned switch the previous generation trains, with or without a part in the next one. */
static void test_the_last_word_of_the_generation_before_counts_until_a_switch(void **state)
{
    (void)state;
    three_train_on_two(false);
    three_plan->follows = 5;
    three_say(2, WORKER_RUNNING, 5, 9);
    three_reports[2].generation = 5;
    assert_int_equal(look("c")->seat, SEAT_JOINING);
    assert_int_equal(look("c")->rank, -1);
    three_say(2, WORKER_STUCK, 5, 9);
    assert_int_equal(look("c")->seat, SEAT_BROKEN);
    three_view.progress.generation = 6; /* the switch is over */
    assert_null(look("c"));
    three_view.progress.generation = 5;
    three_plan->change.planned = false; /* an answer to a failure follows at once */
    assert_null(look("c"));
    three_plan->change.planned = true;
    struct node_report newer = three_reports[2];
    newer.generation = 6;
    newer.worker_count = 0; /* they have left */
    const struct node_report *all[] = {&three_reports[0], &three_reports[1], &three_reports[2],
                                       &newer};
    three_view.reports = all;
    three_view.report_count = 4;
    assert_null(look("c"));
}

static void test_whoever_has_no_node_is_not_alive(void **state)
{
    (void)state;
    three_say(2, WORKER_RUNNING, 6, 9);
    three_view.node_count = 2;
    assert_int_equal(look("c")->seat, SEAT_RUNNING);
    assert_null(look("c")->node);
    assert_false(roster_alive(look("c")));
}

static void test_nodes_are_found_whatever_their_order(void **state)
{
    (void)state;
    struct member first = three_nodes[0];
    three_nodes[0] = three_nodes[2];
    three_nodes[2] = first;
    for (unsigned i = 0; i < NODES; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        const struct roster_member *member = look(name);
        assert_non_null(member);
        assert_int_equal(member->rank, i);
        assert_ptr_equal(member->node, &three_nodes[NODES - 1 - i]);
    }
    assert_null(roster_node(&roster, "d"));
}

static void say_all(enum worker_phase phase)
{
    for (unsigned i = 0; i < NODES; i++)
        three_say(i, phase, 6, 9);
}

static void test_all_run_when_every_worker_does(void **state)
{
    (void)state;
    say_all(WORKER_RUNNING);
    look("a");
    assert_true(roster.all_running && roster.any_running);
    three_say(1, WORKER_STARTING, 6, 9);
    look("a");
    assert_true(!roster.all_running && roster.any_running);
    say_all(WORKER_STARTING);
    look("a");
    assert_true(!roster.all_running && !roster.any_running);
    three_plan->layout.worker_count = three_plan->layout.replica_count = 0;
    three_plan->layout.donor_count = NODES;
    look("a");
    assert_false(roster.all_running);
}

/* c is dead, and was last in @generation as process @instance; the plan names process @planned. */
static bool never_started(uint64_t generation, uint64_t instance, uint64_t planned)
{
    three_say(2, WORKER_DEAD, generation, 0);
    three_reports[2].workers[0].instance = instance;
    three_plan->layout.workers[2].instance = planned;
    look("c");
    return roster.never_started;
}

static void test_a_plan_whose_worker_died_before_it_joined_has_not_begun(void **state)
{
    (void)state;
    assert_true(never_started(5, 12, 12));
    assert_false(never_started(6, 12, 12));
    assert_false(never_started(5, 11, 12)); /* an earlier process of that slot */
    assert_true(never_started(5, 11, 0));
    assert_true(never_started(5, 12, 12));
    three_plan->layout.worker_count = three_plan->layout.replica_count =
        2; /* a donor does not matter */
    three_plan->layout.donor_count = 1;
    assert_false(never_started(5, 12, 12));
}

static void test_state_is_units_of_either_step(void **state)
{
    (void)state;
    three_say(2, WORKER_STUCK, 6, 9);
    struct worker_report *report = &three_reports[2].workers[0];
    report->held_unit_count = 1;
    assert_true(roster_has_state(look("c")));
    report->held_unit_count = 0;
    assert_false(roster_has_state(look("c")));
    report->old_unit_count = 1;
    assert_true(roster_has_state(look("c")));
    three_reports[2].generation = 5;
    assert_false(roster_has_state(look("c")));
}

static void test_a_refusal_is_its_nodes(void **state)
{
    (void)state;
    say_all(WORKER_RUNNING);
    three_say(1, WORKER_REFUSED, 6, 0);
    snprintf(three_reports[1].workers[0].text, sizeof(three_reports[1].workers[0].text), "no data");
    look("b");
    assert_null(roster_refused(&roster, "a"));
    assert_string_equal(roster_refused(&roster, "b"), "no data");
    assert_null(roster_refused(&roster, "c"));
    assert_null(roster_refused(&roster, "bb"));
}

static void test_an_accusation_is_of_a_whole_node(void **state)
{
    (void)state;
    say_all(WORKER_STUCK);
    struct worker_report *report = &three_reports[0].workers[0];
    report->lost_count = 1;
    snprintf(report->lost[0], sizeof(report->lost[0]), "c/3");
    assert_true(roster_accused(&roster, look("c")));
    assert_false(roster_accused(&roster, look("b")));
    snprintf(report->lost[0], sizeof(report->lost[0]), "cc/0"); /* another node */
    assert_false(roster_accused(&roster, look("c")));
    report->lost_count = 0;
    snprintf(report->lost[0], sizeof(report->lost[0]), "c/0");
    assert_false(roster_accused(&roster, look("c")));
}

/* Of the generation before, whose failure the plan in force is the answer to. */
static void test_an_accusation_ends_when_its_node_speaks_under_the_next_plan(void **state)
{
    (void)state;
    say_all(WORKER_RUNNING);
    three_say(0, WORKER_STUCK, 5, 9);
    struct worker_report *report = &three_reports[0].workers[0];
    report->lost_count = 1;
    snprintf(report->lost[0], sizeof(report->lost[0]), "c/0");
    assert_false(roster_accused(&roster, look("c")));
    three_view.report_count = 2; /* nothing has come from c since */
    assert_true(roster_accused(&roster, look("c")));
    three_view.report_count = NODES;
    three_plan->change.planned = true; /* the switch will never come */
    three_plan->follows = 5;
    assert_true(roster_accused(&roster, look("c")));
    three_plan->follows = 6;
    assert_false(roster_accused(&roster, look("c")));
}

static void test_without_a_plan_there_is_nobody(void **state)
{
    (void)state;
    three_view.plan = NULL;
    assert_null(look("a"));
    assert_int_equal(roster.count, 0);
    assert_non_null(roster_node(&roster, "a"));
    three_view.plan = three_plan;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, three_setup, forget)
    const struct CMUnitTest tests[] = {
        TEST(test_a_worker_of_an_unplanned_plan),
        TEST(test_a_worker_of_a_planned_plan),
        TEST(test_a_process_of_a_firnd_that_is_gone_is_none),
        TEST(test_a_donor_may_leave),
        TEST(test_another_process),
        TEST(test_a_process_without_a_rank),
        TEST(test_who_has_said_nothing_of_this_generation_is_silent),
        TEST(test_the_last_word_of_the_generation_before_counts_until_a_switch),
        TEST(test_whoever_has_no_node_is_not_alive),
        TEST(test_nodes_are_found_whatever_their_order),
        TEST(test_all_run_when_every_worker_does),
        TEST(test_a_plan_whose_worker_died_before_it_joined_has_not_begun),
        TEST(test_state_is_units_of_either_step),
        TEST(test_a_refusal_is_its_nodes),
        TEST(test_an_accusation_is_of_a_whole_node),
        TEST(test_an_accusation_ends_when_its_node_speaks_under_the_next_plan),
        TEST(test_without_a_plan_there_is_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
