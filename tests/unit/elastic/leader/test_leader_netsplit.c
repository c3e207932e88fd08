/*
 * Tests of netsplits between pairs of nodes, from hand-made reports: one stage and three replicas
 * on nodes a, b and c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/timeouts.h"
#include "elastic/job/job_spec.h"
#include "lib/elastic/three_nodes.h"

#include "elastic/copies/copies.h"
#include "elastic/leader/leader_netsplit.h"

#define TERM_NS (TIMEOUTS_NETSPLIT_MIN * TIMEOUT_NS)

/*
 * Break the ranks of the plan in force while they make their links; node @missed was not reached.
 */
static void break_links(unsigned node, unsigned missed)
{
    for (unsigned i = 0; i < NODES; i++) {
        three_say(i, WORKER_STUCK, three_plan->generation, 9);
        three_reports[i].workers[0].unreached_count = 0;
    }
    three_reports[node].workers[0].unreached_count = 1;
    three_reports[node].workers[0].unreached[0] =
        (unsigned)plan_layout_find(&three_plan->layout, three_nodes[missed].name, 0);
}

/* Put the last decision in force, with a report from every worker under it. */
static void follow(void)
{
    struct plan *next = plan_copy(three_decision.plan);
    assert_non_null(next);
    plan_free(three_plan);
    three_plan = next;
    three_view.plan = three_plan;
    three_view.now_ns += 4 * TIMEOUT_NS;
    for (unsigned i = 0; i < NODES; i++)
        three_reports[i].generation = three_plan->generation;
}

static bool uses(const char *node)
{
    return plan_layout_find(&three_decision.plan->layout, node, 0) >= 0;
}

/* Break the links twice in a row, which is needed to find a netsplit. */
static void break_links_again(unsigned node, unsigned missed)
{
    break_links(node, missed);
    three_decide();
    assert_int_equal(three_decision.plan->layout.worker_count, NODES);
    follow();
    break_links(node, missed);
}

static void test_once_the_same_nodes_are_tried_again(void **state)
{
    (void)state;
    break_links(2, 0);
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->layout.worker_count, 3);
    three_decide(); /* the same reports do not count as a second time */
    assert_int_equal(three_decision.plan->layout.worker_count, 3);
}

static void test_missed_twice_one_end_is_left_out(void **state)
{
    (void)state;
    break_links_again(2, 0);
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    assert_true(uses("a") && uses("b"));
    assert_non_null(strstr(three_decision.plan->change.text,
                           "a and c do not reach each other: without c: 3 slots -> 2"));
}

static void test_a_host_that_says_nothing_itself_is_no_cut(void **state)
{
    (void)state;
    break_links_again(2, 0);
    three_reports[0].worker_count = 0;
    three_decide(); /* the leader waits for it, then the job continues without it, for it may be
                       dead */
    three_view.now_ns += TIMEOUT_NS + NS_PER_SECOND; /* and not in the middle of a micro-batch */
    three_decide();
    assert_true(uses("c"));
}

static void test_whoever_alone_has_state_stays(void **state)
{
    (void)state;
    break_links_again(2, 0);
    three_reports[0].workers[0].held_unit_count = 0;
    three_reports[1].workers[0].held_unit_count = 0;
    three_decide();
    three_expect_published(9, 0);
    assert_true(uses("c") && !uses("a"));
}

/* Give the first unit to node a alone, and the other units to node c alone. */
static void share_units(void)
{
    three_reports[1].workers[0].held_unit_count = 0;
    three_reports[0].workers[0].held_unit_count = 1;
    three_reports[2].workers[0].held_first_unit = 1;
    three_reports[2].workers[0].held_unit_count = job_model_unit_count(&three_spec.model) - 1;
}

/* Put a patient plan in force for a and c, which are both needed. */
static void wait_for_both(double step_seconds)
{
    break_links_again(2, 0);
    share_units();
    three_decide();
    three_expect_published(9, 0);
    assert_true(uses("a") && uses("c"));
    three_decision.plan->layout.predicted_step_seconds = step_seconds;
    follow();
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

static void test_where_both_ends_are_needed_they_are_waited_for(void **state)
{
    (void)state;
    break_links_again(2, 0);
    share_units();
    three_decide();
    three_expect_published(9, 0);
    assert_true(uses("a") && uses("c") && three_decision.plan->links.patient);
    assert_non_null(strstr(three_decision.plan->change.text,
                           "a and c do not reach each other, and neither can be done without"));
    follow();
    three_decide();
    assert_non_null(strstr(three_decision.text,
                           "the network between them is waited for: after 40 s, or "
                           "when one of them is drained, the job goes back to step "
                           "4"));
    assert_true(three_decision.wake_at_ns <= three_view.now_ns + TERM_NS);
}

/* The checkpoint is five steps of one second back: less than the minimal wait. */
static void test_after_a_while_the_job_goes_back_without_one(void **state)
{
    (void)state;
    wait_for_both(1.0);
    three_view.now_ns += TERM_NS - 5 * TIMEOUT_NS;
    break_links(2, 0);
    share_units();
    three_decide();
    three_expect_published(9, 0);
    follow();
    assert_true(three_plan->links.patient);
    break_links(2, 0);
    share_units();
    three_view.now_ns += 5 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(three_decision.plan->start.resume_step, 4);
    assert_true(uses("b") && uses("a") != uses("c") && !three_decision.plan->links.patient);
    assert_non_null(strstr(three_decision.plan->change.text, "a and c do not reach each other"));
}

static void test_no_sooner_than_its_steps_would_be_made_again(void **state)
{
    (void)state;
    three_memory.netsplits[0].generation = 0;
    break_links_again(2, 0);
    share_units();
    three_view.checkpoint.step = 0;
    three_view.progress.last_step_seconds = 20;
    three_decide();
    follow();
    assert_int_equal(three_memory.pair_loss.until_ns - three_memory.pair_loss.seen.ns,
                     9 * 20 * NS_PER_SECOND);
    three_memory.pair_loss.until_ns += TERM_NS;
    three_view.now_ns += TERM_NS;
    break_links(2, 0);
    share_units();
    three_decide();
    three_expect_published(9, 0);
}

static void test_a_drain_of_one_end_gives_it_up(void **state)
{
    (void)state;
    wait_for_both(1.0);
    three_nodes[2].draining = true;
    three_decide(); /* the patient plan's workers get time to report */
    three_view.now_ns += 2 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_false(uses("c"));
}

static void test_without_slots_enough_they_are_waited_for(void **state)
{
    (void)state;
    three_spec.elastic.devices_min = 3;
    break_links_again(2, 0);
    for (unsigned turn = 0; turn < 4; turn++) { /* and no checkpoint is made meanwhile */
        three_decide();
        three_expect_published(9, 0);
        assert_int_equal(three_decision.plan->layout.worker_count, 3);
        assert_true(three_decision.plan->links.patient);
        assert_null(strstr(three_decision.plan->change.text, ": without"));
        follow();
        three_view.now_ns += TERM_NS;
        break_links(2, 0);
    }
}

/*
 * The job would fall back if b and one of a and c had enough slots (the minimum is 3); the leader
 * does not consider it again before TERM_NS is over.
 */
static void test_where_going_back_takes_both_they_are_waited_for_again(void **state)
{
    (void)state;
    three_spec.elastic.devices_min = 3;
    wait_for_both(1.0);
    three_view.now_ns += TERM_NS;
    break_links(2, 0);
    share_units();
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->layout.worker_count, 3);
    assert_true(three_decision.plan->links.patient);
    assert_int_equal(three_memory.pair_loss.refused_ns, three_view.now_ns + TERM_NS);
    uint64_t refused_ns = three_memory.pair_loss.refused_ns;
    follow();
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    break_links(2, 0);
    share_units();
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_memory.pair_loss.refused_ns, refused_ns);
}

/* No worker has state, and the job begins again on all slots: two slots are not enough. */
static void test_a_fall_back_that_takes_both_has_both(void **state)
{
    (void)state;
    break_links_again(2, 0);
    three_spec.elastic.devices_min = 3;
    for (unsigned i = 0; i < NODES; i++)
        three_reports[i].workers[0].held_unit_count = 0;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(three_decision.plan->layout.worker_count, 3);
    three_spec.elastic.devices_min = 2;
    three_decide();
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    assert_true(uses("a") != uses("c"));
}

static void test_those_who_only_leave_are_not_waited_for(void **state)
{
    (void)state;
    break_links_again(2, 0);
    for (unsigned i = 0; i < NODES; i++)
        three_reports[i].workers[0].held_unit_count = 0;
    three_view.wish.desired = JOB_DESIRED_PAUSED;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->layout.worker_count, 0);
    assert_int_equal(three_decision.plan->layout.donor_count, 3);
    assert_false(three_decision.plan->links.patient);
    assert_false(three_memory.pair_loss.seen.is_set);
}

static void test_a_new_leader_takes_the_word_of_a_patient_plan(void **state)
{
    (void)state;
    wait_for_both(1.0);
    memset(&three_memory, 0, sizeof(three_memory));
    three_view.now_ns += 20 * TIMEOUT_NS;
    break_links(2, 0);
    share_units();
    three_decide();
    three_expect_published(9, 0);
    assert_true(three_decision.plan->links.patient);
}

/*
 * No worker has state, and the workers on @readers could not read the checkpoint, because c did not
 * answer them; all ranks of the plan report it.
 */
static void read_in_vain(const char *readers)
{
    for (unsigned i = 0; i < NODES; i++) {
        struct worker_report *report = &three_reports[i].workers[0];
        three_say(i, WORKER_STUCK, three_plan->generation, 9);
        report->held_unit_count = 0;
        report->unreached_count = 0;
        report->cause =
            strchr(readers, three_nodes[i].name[0]) ? CAUSE_CHECKPOINT_AWAY : CAUSE_NONE;
        three_reports[i].worker_count =
            plan_layout_find(&three_plan->layout, three_nodes[i].name, 0) >= 0;
    }
    three_view.now_ns += 10 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
}

static void begin_with_copies(void)
{
    three_spec.checkpoint.copies = 2;
    three_view.checkpoint.shares = "a+b c+x"; /* x is not present */
    read_in_vain("");
    assert_int_equal(three_decision.plan->layout.worker_count, NODES);
    follow();
}

/* The workers that cannot read join once the others train, and get their state from them. */
static void test_whoever_cannot_read_a_checkpoint_is_left_out(void **state)
{
    (void)state;
    begin_with_copies();
    read_in_vain("a");
    assert_true(!uses("a") && uses("b") && uses("c"));
    /* The node stays a copy node: other nodes read its files. */
    assert_true(copies_find(&three_decision.plan->checkpoints, "a") >= 0);
}

/*
 * Nodes that cannot read the checkpoint are left out one after the other until the remaining nodes
 * can: a and c do not reach each other, but b reads from both.
 */
static void test_one_after_the_other_until_it_can_be_read(void **state)
{
    (void)state;
    begin_with_copies();
    read_in_vain("a");
    follow();
    read_in_vain("c");
    assert_true(!uses("a") && uses("b") && !uses("c"));
}

static void test_where_nobody_can_read_it_all_try_again(void **state)
{
    (void)state;
    begin_with_copies();
    read_in_vain("abc");
    assert_int_equal(three_decision.plan->layout.worker_count, NODES);
}

/* No worker trains, so nothing would show that a reads the checkpoint by now. */
static void test_a_job_that_starts_uses_the_left_out_where_it_needs_them(void **state)
{
    (void)state;
    begin_with_copies();
    read_in_vain("a");
    follow();
    three_plan->layout.worker_count = three_plan->layout.stage_count =
        three_plan->layout.replica_count = 0;
    for (unsigned i = 0; i < NODES; i++)
        three_reports[i].worker_count = 0;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->layout.worker_count, NODES - 1);
    three_spec.elastic.devices_min = NODES;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->layout.worker_count, NODES);
}

/* Report a netsplit of a and c twice, with no state left; finally a reports @cause. */
static void part_twice(const char *shares, enum worker_cause cause)
{
    three_spec.checkpoint.copies = 2;
    three_view.checkpoint.shares = shares;
    for (unsigned turn = 0; turn < 2; turn++) {
        break_links(0, 2);
        for (unsigned i = 0; i < NODES; i++)
            three_reports[i].workers[0].held_unit_count = 0;
        if (turn == 1)
            three_reports[0].workers[0].cause = cause;
        three_view.now_ns += 10 * TIMEOUT_NS;
        three_decide();
        assert_int_equal(three_decision.action, LEADER_PUBLISH);
        assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
        if (turn == 0)
            follow();
    }
}

static void test_whoever_has_no_part_of_a_checkpoint_goes(void **state)
{
    (void)state;
    part_twice("a+b b+a", CAUSE_NONE);
    assert_true(uses("a") && uses("b") && !uses("c"));
}

static void test_whoever_alone_has_a_part_of_it_stays(void **state)
{
    (void)state;
    part_twice("a+b c+x", CAUSE_NONE);
    assert_true(uses("b") && uses("c") && !uses("a"));
}

static void test_where_both_have_one_either_goes(void **state)
{
    (void)state;
    part_twice("a+x c+x", CAUSE_NONE);
    assert_true(uses("b") && uses("a") != uses("c"));
}

/* The node that cannot read is left out, and its end of the netsplit no longer matters. */
static void test_nobody_else_is_left_out_for_its_cut(void **state)
{
    (void)state;
    part_twice("a+b b+a", CAUSE_CHECKPOINT_AWAY);
    assert_true(!uses("a") && uses("b") && uses("c"));
}

/* a has the whole checkpoint, but reports that it cannot read, because c, which has nothing, does
 * not answer. Then c reports the same of a: this is no reason to put both ends into one plan again.
 */
static void test_ends_that_cannot_read_are_not_tried_together(void **state)
{
    (void)state;
    part_twice("a", CAUSE_NONE);
    assert_true(uses("a") && uses("b") && !uses("c"));
    follow();
    read_in_vain("ab");
    assert_true(!uses("a") && !uses("b") && uses("c"));
    follow();
    read_in_vain("c");
    assert_true(uses("a") && uses("b") && !uses("c"));
}

static void run(void)
{
    follow();
    for (unsigned i = 0; i < NODES; i++) {
        int rank = plan_layout_find(&three_plan->layout, three_nodes[i].name, 0);
        three_say(i, rank >= 0 ? WORKER_RUNNING : WORKER_LEFT, three_plan->generation, 9);
        three_reports[i].workers[0].unreached_count = 0;
        if (rank >= 0)
            three_reports[i].workers[0].instance = three_plan->layout.workers[rank].instance;
    }
}

/* Decide until the leader waits for nothing more. */
static void settle(void)
{
    three_decide();
    three_view.now_ns += 2 * TIMEOUT_NS;
    three_decide();
}

static void test_the_left_out_is_tried_again_after_a_while(void **state)
{
    (void)state;
    break_links_again(2, 0);
    three_decide();
    run();
    settle();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_non_null(strstr(three_decision.text, "a and c do not reach each other: without c"));
    assert_true(three_decision.wake_at_ns <= three_view.now_ns + TERM_NS);
    three_view.now_ns += TERM_NS;
    settle();
    assert_int_equal(three_decision.action, LEADER_PREPARE);
    assert_true(uses("c"));
}

static void test_a_firnd_that_is_started_anew_has_a_clean_slate(void **state)
{
    (void)state;
    break_links_again(2, 0);
    three_decide();
    run();
    three_nodes[2].incarnation++;
    settle();
    assert_int_equal(three_decision.action, LEADER_PREPARE);
    assert_true(uses("c"));
}

static void test_a_pair_that_runs_together_is_mended(void **state)
{
    (void)state;
    wait_for_both(1.0);
    for (unsigned i = 0; i < NODES; i++) {
        int rank = plan_layout_find(&three_plan->layout, three_nodes[i].name, 0);
        three_say(i, rank >= 0 ? WORKER_RUNNING : WORKER_LEFT, three_plan->generation, 9);
        three_reports[i].workers[0].held_first_unit = 0;
    }
    three_decide();
    assert_false(three_memory.pair_loss.seen.is_set);
    assert_true(three_memory.netsplits[0].until_ns <= three_view.now_ns);
}

/* Workers that compute long operations try again only after minutes. */
static void test_a_pair_is_missed_twice_however_long_the_operations(void **state)
{
    (void)state;
    break_links(2, 0);
    three_decide();
    follow();
    three_view.now_ns += 10 * TERM_NS;
    break_links(2, 0);
    three_decide();
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
}

static void test_a_pair_that_has_run_since_is_not_missed_twice(void **state)
{
    (void)state;
    break_links(2, 0);
    three_decide();
    run();
    settle();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    break_links(2, 0);
    three_decide();
    assert_int_equal(three_decision.plan->layout.worker_count, NODES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_once_the_same_nodes_are_tried_again, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_missed_twice_one_end_is_left_out, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_a_host_that_says_nothing_itself_is_no_cut, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_whoever_alone_has_state_stays, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_where_both_ends_are_needed_they_are_waited_for,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_after_a_while_the_job_goes_back_without_one,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_no_sooner_than_its_steps_would_be_made_again,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_a_drain_of_one_end_gives_it_up, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_a_new_leader_takes_the_word_of_a_patient_plan,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_a_pair_is_missed_twice_however_long_the_operations,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_a_pair_that_has_run_since_is_not_missed_twice,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_a_pair_that_runs_together_is_mended, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_without_slots_enough_they_are_waited_for, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_where_going_back_takes_both_they_are_waited_for_again,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_a_fall_back_that_takes_both_has_both, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_those_who_only_leave_are_not_waited_for, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_the_left_out_is_tried_again_after_a_while, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_whoever_cannot_read_a_checkpoint_is_left_out,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_one_after_the_other_until_it_can_be_read, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_where_nobody_can_read_it_all_try_again, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(
            test_a_job_that_starts_uses_the_left_out_where_it_needs_them, three_setup,
            three_teardown),
        cmocka_unit_test_setup_teardown(test_nobody_else_is_left_out_for_its_cut, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_ends_that_cannot_read_are_not_tried_together,
                                        three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_whoever_has_no_part_of_a_checkpoint_goes, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_whoever_alone_has_a_part_of_it_stays, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_where_both_have_one_either_goes, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_a_firnd_that_is_started_anew_has_a_clean_slate,
                                        three_setup, three_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
