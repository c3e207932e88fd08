/*
 * Tests of a planned change that a node cannot receive, from hand-made reports. Generation 5 runs
 * as three replicas on nodes a, b and c; generation 6 is in force and has not begun; b's firnd is
 * gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "elastic/job/job_spec.h"
#include "lib/elastic/three_nodes.h"

static unsigned unit_count(void)
{
    return job_model_unit_count(&three_spec.model);
}

/* Report that the worker of @node has @count units from @first on. */
static void say_units(unsigned node, enum worker_phase phase, uint64_t generation, unsigned first,
                      unsigned count)
{
    struct worker_report *report = &three_reports[node].workers[0];
    *report = (struct worker_report){.instance = 10 + node,
                                     .phase = phase,
                                     .generation = generation,
                                     .applied_step = count > 0 ? 9 : 0,
                                     .held_first_unit = first,
                                     .held_unit_count = count};
}

/* Lose b's firnd: b reports nothing, and its lease has expired. */
static void lose_b(void)
{
    three_nodes[1] = three_nodes[2];
    three_reports[1] = three_reports[2];
    three_view.node_count = three_view.report_count = 2;
}

/* Put the last decision in force; a and c have received it. */
static void follow(void)
{
    struct plan *next = plan_copy(three_decision.plan);
    assert_non_null(next);
    plan_free(three_plan);
    three_view.plan = three_plan = next;
    three_reports[0].generation = three_reports[1].generation = three_plan->generation;
}

/* Generation 6 is a pause, for which workers of 5 write the last checkpoint. */
static void plan_a_pause(void)
{
    three_view.wish.desired = JOB_DESIRED_PAUSED;
    three_plan->layout.worker_count = three_plan->layout.stage_count =
        three_plan->layout.replica_count = 0;
    three_plan->layout.donor_count = NODES;
}

static int setup_change(void **state)
{
    if (three_setup(state))
        return -1;
    three_plan->follows = 5;
    three_plan->change.planned = true;
    three_view.progress.step = 12;
    for (unsigned i = 0; i < NODES; i++)
        say_units(i, WORKER_RUNNING, 5, 0, unit_count());
    three_reports[0].workers[0].root = true;
    return 0;
}

/* A change waits for the end of a step, which may take half an hour. */
static void test_a_pause_does_not_wait_for_a_change(void **state)
{
    (void)state;
    three_view.wish.desired = JOB_DESIRED_PAUSED;
    three_decide(); /* it may begin right now */
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.wake_at_ns, three_view.now_ns + 2 * TIMEOUT_NS);
    assert_non_null(strstr(three_decision.text, "generation 6 must begin first"));
    three_view.now_ns += 2 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->layout.worker_count, 0);
    assert_int_equal(three_decision.plan->change.reason, PLAN_REASON_PAUSE);
    assert_int_equal(three_decision.plan->follows, 5);
    say_units(2, WORKER_PREPARED, 6, 0, unit_count()); /* c has reached the boundary */
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

/* The change that waits leaves c, and takes state from there. */
static void test_what_a_change_takes_from_a_node_that_goes_is_saved(void **state)
{
    static struct plan_move moves[1] = {{.unit = 1, .from_rank = 2, .to_rank = 0}};
    (void)state;
    three_plan->layout.worker_count = three_plan->layout.replica_count = 2;
    three_plan->layout.donor_count = 1;
    three_plan->start.moves = moves;
    three_plan->start.move_count = 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_nodes[2].draining = true;
    three_nodes[2].drain_deadline_ns = three_view.now_ns + 2 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->layout.worker_count, 0);
    assert_int_equal(three_decision.plan->follows, 5);
    assert_non_null(strstr(three_decision.text, "a node goes before generation 6 can begin"));
    three_plan->start.moves = NULL;
    three_plan->start.move_count = 0;
}

/* Decide now, and again when the state has lasted. */
static void decide_twice(void)
{
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns += 2 * TIMEOUT_NS;
    three_decide();
}

static void expect_superseded(uint64_t follows)
{
    struct error error;
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    memset(three_decision.plan->links.key, '0', PLAN_KEY_HEX_SIZE - 1); /* the caller makes a key */
    assert_int_equal(plan_check(three_decision.plan, &error), 0);
    assert_true(three_decision.plan->change.planned);
    assert_true(three_decision.plan->generation > three_plan->generation);
    assert_int_equal(three_decision.plan->follows, follows);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_MEMORY);
    assert_int_equal(three_decision.plan->start.resume_step, 12);
    assert_true(three_view.node_count == NODES ||
                plan_layout_find(&three_decision.plan->layout, "b", 0) < 0);
}

static void test_what_b_cannot_hear_of_is_planned_without_it(void **state)
{
    (void)state;
    lose_b();
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.wake_at_ns, three_view.now_ns + 2 * TIMEOUT_NS);
    three_view.now_ns += 2 * TIMEOUT_NS;
    three_decide();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    assert_int_equal(three_decision.plan->layout.workers[0].instance, 10);
    assert_int_equal(three_decision.plan->layout.workers[1].instance, 12);
}

static void test_one_that_is_back_in_time_hears_of_it_itself(void **state)
{
    (void)state;
    three_view.node_count = 1; /* b and c are gone, */
    three_decide();
    three_view.node_count = NODES; /* and both are back */
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.wake_at_ns, UINT64_MAX);
    lose_b();
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING); /* the wait begins anew */
}

static void test_a_change_that_begins_is_let_alone(void **state)
{
    (void)state;
    say_units(2, WORKER_PREPARED, 6, 0, unit_count()); /* c has reached the boundary */
    lose_b();
    decide_twice();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.wake_at_ns, UINT64_MAX);
    say_units(1, WORKER_LEFT, 6, 0, unit_count());
    decide_twice();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

static void test_what_b_alone_has_is_waited_for(void **state)
{
    (void)state;
    say_units(0, WORKER_RUNNING, 5, 0, 2);
    say_units(2, WORKER_RUNNING, 5, 0, 2);
    lose_b();
    decide_twice();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_non_null(
        strstr(three_decision.text, "waits for node b, which alone has some of the state"));
}

/*
 * c's worker has the other units as the shadow of b's stage; units from earlier generations are
 * dropped by now.
 */
static void test_a_copy_is_as_good(void **state)
{
    (void)state;
    say_units(0, WORKER_RUNNING, 5, 0, 2);
    say_units(2, WORKER_RUNNING, 5, 0, 2);
    three_reports[2].workers[0].extra_count = 1;
    three_reports[2].workers[0].extras[0] =
        (struct report_extra){.first = 2, .count = unit_count() - 2};
    lose_b();
    decide_twice();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_reports[1].workers[0].extras[0].shadows = true;
    three_decide();
    expect_superseded(5);
}

static void test_without_enough_slots_it_waits(void **state)
{
    (void)state;
    three_spec.elastic.devices_min = 3;
    lose_b();
    decide_twice();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_non_null(
        strstr(three_decision.text, "waits for node b, without which there are not enough"));
}

/* c's process was started for generation 6: it can take part only when it is prepared. */
static void test_only_processes_that_are_ready_take_part(void **state)
{
    (void)state;
    three_plan->layout.workers[2].instance = 0;
    say_units(2, WORKER_STARTING, 0, 0, 0);
    lose_b();
    decide_twice();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 1);
    say_units(1, WORKER_PREPARED, 6, 0, 0);
    memcpy(three_reports[1].node, "c", 2);
    three_reports[1].workers[0].instance = 12;
    three_decide();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
}

static void test_a_node_that_drains_hands_over(void **state)
{
    (void)state;
    three_nodes[2].draining = true;
    say_units(0, WORKER_RUNNING, 5, 0, 2);
    lose_b();
    decide_twice();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 1);
    assert_int_equal(three_decision.plan->layout.donor_count, 1);
    assert_string_equal(three_decision.plan->layout.workers[1].node, "c");
}

/*
 * Without b the workers cannot save the last checkpoint together: the job leaves b first, and then
 * pauses.
 */
static void test_a_pause_that_cannot_begin_is_put_off(void **state)
{
    (void)state;
    plan_a_pause();
    lose_b();
    decide_twice();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
}

/*
 * Generation 6 began on c alone, and a and b have left. Then c's worker and firnd died together:
 * the next firnd starts a process for the same plan.
 */
static void test_a_change_that_nobody_remembers_is_given_up(void **state)
{
    (void)state;
    struct plan_layout *layout = &three_plan->layout;
    struct plan_worker c = layout->workers[2];
    layout->workers[2] = layout->workers[0];
    layout->workers[0] = c;
    layout->workers[0].instance = 0;
    layout->worker_count = layout->replica_count = 1;
    layout->replica_first_lane[1] = LANES;
    layout->donor_count = 2;
    for (unsigned i = 0; i < NODES; i++)
        say_units(i, i == 2 ? WORKER_PREPARED : WORKER_LEFT, 6, 0, 0);
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    for (unsigned turns = 0; turns < 3 && three_decision.action == LEADER_NOTHING; turns++) {
        assert_true(three_decision.wake_at_ns != UINT64_MAX); /* nothing else would look again */
        three_view.now_ns = three_decision.wake_at_ns;
        three_decide();
    }
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
}

/* The workers may be in the middle of a long step, or evaluate the finished model. */
static void test_a_pause_hears_of_nodes_that_must_go(void **state)
{
    (void)state;
    plan_a_pause();
    three_plan->change.is_limited = true;
    three_plan->change.limit_ns = 20 * TIMEOUT_NS;
    three_plan->change.spare_ns = PLAN_SPARE_ENDLESS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_nodes[2].draining = true; /* by hand: no time is set */
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_nodes[2].drain_deadline_ns = three_view.now_ns + 10 * TIMEOUT_NS;
    three_decide();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 0);
    assert_int_equal(three_decision.plan->layout.donor_count, NODES);
    assert_true(three_decision.plan->change.spare_ns < 10 * TIMEOUT_NS);
    assert_true(three_decision.plan->change.limit_ns <= three_decision.plan->change.spare_ns);
    follow();
    three_reports[2].generation = three_plan->generation;
    three_decide(); /* once */
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

/* Generation 6 runs; to leave b for good, b's worker would have to hand over. */
static void test_no_change_begins_that_needs_a_node_that_is_gone(void **state)
{
    (void)state;
    unsigned *first_unit = calloc(4, sizeof(unsigned));
    assert_non_null(first_unit);
    for (unsigned stage = 0; stage <= NODES; stage++)
        first_unit[stage] = stage == NODES ? unit_count() : 2 * stage;
    free(three_plan->layout.stage_first_unit);
    three_plan->layout.stage_first_unit = first_unit;
    three_plan->layout.stage_count = NODES;
    three_plan->layout.replica_count = 1;
    three_plan->layout.replica_first_lane[1] = LANES;
    for (unsigned i = 0; i < NODES; i++)
        say_units(i, WORKER_RUNNING, 6, first_unit[i], first_unit[i + 1] - first_unit[i]);
    struct worker_report b = three_reports[1].workers[0];
    lose_b();
    three_reports[2] = (struct node_report){
        .node = "b", .generation = 6, .worker_count = 1, .workers = {b}}; /* before it failed */
    three_view.report_count = NODES;
    three_decide();
    three_view.now_ns += 2 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_non_null(
        strstr(three_decision.text, "waits for node b, which alone has some of the state"));
}

/* Generation 5 began after all, just when 6 was written to supersede it. */
static void test_a_plan_that_follows_what_is_over_is_superseded(void **state)
{
    (void)state;
    three_plan->follows = 4;
    decide_twice();
    expect_superseded(5);
}

static void test_while_some_have_gone_on_nothing_is_known(void **state)
{
    (void)state;
    say_units(2, WORKER_RUNNING, 4, 0, unit_count());
    lose_b();
    decide_twice();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_change, three_teardown)

/*
 * Generation 5 has not reached the boundary yet, and c, which is new in 6, finds that a host does
 * not answer.
 */
static void test_a_new_worker_that_gives_up_ends_the_change_alone(void **state)
{
    (void)state;
    say_units(2, WORKER_STUCK, 6, 0, 0);
    decide_twice();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    assert_int_equal(plan_layout_find(&three_decision.plan->layout, "c", 0), -1);
    assert_non_null(
        strstr(three_decision.plan->change.text, "a new worker of generation 6 is gone"));
    assert_true(plan_revokes(three_decision.plan, 6) && !plan_revokes(three_decision.plan, 5));
    say_units(1, WORKER_STUCK, 6, 0, unit_count()); /* 6 has begun after all: the change is over */
    three_decide();
    assert_int_equal(three_decision.state, JOB_RECOVERING);
}

/* Generation 6 leaves b, which only hands over: nobody can make links to it. */
static void test_a_change_with_a_lost_donor_is_revoked(void **state)
{
    struct plan_layout *layout = &three_plan->layout;
    struct plan_worker b = layout->workers[1];

    (void)state;
    layout->workers[1] = layout->workers[2];
    layout->workers[2] = b;
    layout->worker_count = layout->replica_count = 2;
    layout->donor_count = 1;
    lose_b();
    decide_twice();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    assert_true(plan_revokes(three_decision.plan, 6));
}

/* Somebody asks for two slots while the change to three waits for a long step. */
static void test_a_change_that_is_not_wanted_any_more_is_superseded(void **state)
{
    (void)state;
    three_view.wish.devices = 2;
    decide_twice();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    assert_int_equal(three_decision.plan->change.reason, PLAN_REASON_SCALE);
    assert_non_null(
        strstr(three_decision.plan->change.text, "something else is asked for than generation 6"));
    assert_false(plan_revokes(three_decision.plan, 6));
}

/* Generation 6 leaves b and c, because one slot was asked for: @devices are now. */
static void shrink_then_ask_for(unsigned devices)
{
    three_plan->layout.worker_count = three_plan->layout.replica_count = 1;
    three_plan->layout.donor_count = 2;
    three_plan->change.asked_devices = 1;
    three_view.wish.devices = devices;
}

static void test_slots_that_are_allowed_again_are_not_left(void **state)
{
    (void)state;
    shrink_then_ask_for(2);
    decide_twice();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    assert_int_equal(three_decision.plan->layout.workers[1].instance, 11);
}

static void test_a_change_that_is_still_wanted_waits(void **state)
{
    (void)state;
    shrink_then_ask_for(1);
    decide_twice();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

/* Workers may already have left their step for generation 6: an empty plan would release them. */
static void test_a_pause_comes_after_the_plan_that_revokes_a_change(void **state)
{
    (void)state;
    three_view.wish.desired = JOB_DESIRED_PAUSED;
    say_units(2, WORKER_STUCK, 6, 0, 0);
    decide_twice();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    assert_true(plan_revokes(three_decision.plan, 6));
}

static void test_nodes_that_drain_stay_for_the_plan_that_revokes_a_change(void **state)
{
    (void)state;
    three_spec.elastic.devices_min = 2;
    for (unsigned i = 1; i < NODES; i++) {
        three_nodes[i].draining = true;
        three_nodes[i].drain_deadline_ns = three_view.now_ns + 3 * TIMEOUT_NS;
    }
    say_units(2, WORKER_STUCK, 6, 0, 0);
    decide_twice();
    expect_superseded(5);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    assert_string_equal(three_decision.plan->layout.workers[1].node, "b");
    assert_true(plan_revokes(three_decision.plan, 6));
}

/* Workers enter generation 7 one after another, and c, which gave up generation 6, is still there.
 */
static void test_one_that_gave_up_the_change_before_is_no_failure(void **state)
{
    (void)state;
    say_units(2, WORKER_STUCK, 6, 0, 0);
    decide_twice();
    expect_superseded(5);
    follow();
    three_reports[2].generation = three_plan->generation;
    say_units(0, WORKER_PREPARED, three_plan->generation, 0, unit_count());
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_not_equal(three_decision.state, JOB_RECOVERING);
    say_units(2, WORKER_STUCK, 5, 0, unit_count()); /* of the generation that the others leave */
    three_decide();
    assert_int_equal(three_decision.state, JOB_RECOVERING);
}

/* Generation 6 took the place of 4, of which a new worker was gone as well. */
static void test_all_changes_that_cannot_begin_are_revoked(void **state)
{
    (void)state;
    three_plan->change.revokes_first = three_plan->change.revokes_last = 4;
    say_units(2, WORKER_STUCK, 6, 0, 0);
    decide_twice();
    expect_superseded(5);
    assert_true(plan_revokes(three_decision.plan, 4) && plan_revokes(three_decision.plan, 6));
}

/* Generation 6 may begin yet, but 4, in whose place it came, never does. */
static void test_a_revoked_change_stays_revoked(void **state)
{
    (void)state;
    three_plan->change.revokes_first = three_plan->change.revokes_last = 4;
    lose_b();
    decide_twice();
    expect_superseded(5);
    assert_true(plan_revokes(three_decision.plan, 4) && !plan_revokes(three_decision.plan, 6));
}

/* b gives its state to a in 5, and is released at the end of the first step, which is long. */
static void test_a_donor_of_the_running_generation_is_no_failure(void **state)
{
    (void)state;
    say_units(1, WORKER_PREPARED, 5, 0, unit_count());
    say_units(2, WORKER_STUCK, 6, 0, 0);
    decide_twice();
    expect_superseded(5);
    assert_int_equal(plan_layout_find(&three_decision.plan->layout, "b", 0), -1);
    assert_int_equal(plan_layout_find(&three_decision.plan->layout, "c", 0), -1);
}

static void test_a_new_worker_that_dies_ends_the_change_alone(void **state)
{
    (void)state;
    three_plan->layout.workers[2].instance = 0;
    say_units(2, WORKER_DEAD, 6, 0, 0);
    decide_twice();
    expect_superseded(5);
    assert_int_equal(plan_layout_find(&three_decision.plan->layout, "c", 0), -1);
    assert_non_null(
        strstr(three_decision.plan->change.text, "a new worker of generation 6 is gone"));
}

/*
 * c was left behind in 4, and its node lost power; its report is from before. All of 6 give up
 * without state, as after a dispute: there is no generation that trains on.
 */
static void test_one_that_was_left_behind_trains_no_more(void **state)
{
    (void)state;
    three_train_on_two(false);
    three_plan->follows = 5;
    three_view.progress.generation = 5;
    three_view.progress.step = 9;
    say_units(0, WORKER_STUCK, 6, 0, 0);
    say_units(1, WORKER_STUCK, 6, 0, 0);
    say_units(2, WORKER_RUNNING, 4, 0, unit_count());
    three_reports[2].generation = 5;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
}

static void test_what_rank_zero_cannot_hear_of_is_broken_off(void **state)
{
    (void)state;
    three_reports[0].workers[0].root = false;
    lose_b(); /* b has rank 0 */
    decide_twice();
    expect_superseded(5);
    assert_false(plan_revokes(three_decision.plan, 6)); /* it may begin after all */
    assert_true(three_decision.plan->change.breaks_off);
    assert_non_null(strstr(three_decision.plan->change.text, "broken off, for rank 0 is gone"));
    follow();
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_reports[0].workers[0].phase = three_reports[1].workers[0].phase = WORKER_STUCK;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_MEMORY);
    assert_int_equal(three_decision.plan->start.resume_step, 9);
    assert_false(three_decision.plan->change.planned || three_decision.plan->change.breaks_off);
}

/* The node failed when the second plan, which needs none of its workers, was already in force. */
static void test_rank_zero_that_goes_later_is_missed_too(void **state)
{
    (void)state;
    lose_b();
    decide_twice();
    expect_superseded(5);
    assert_false(three_decision.plan->change.breaks_off);
    follow();
    three_reports[0].workers[0].root = false;
    three_decide();
    three_view.now_ns += 7 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    expect_superseded(5);
    assert_true(three_decision.plan->change.breaks_off);
}

/* Rank 0 may still be computing a long step. */
static void test_while_rank_zero_speaks_there_is_time(void **state)
{
    (void)state;
    three_decide();
    three_view.now_ns += 100 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_pause_does_not_wait_for_a_change),
        TEST(test_what_a_change_takes_from_a_node_that_goes_is_saved),
        TEST(test_what_b_cannot_hear_of_is_planned_without_it),
        TEST(test_one_that_is_back_in_time_hears_of_it_itself),
        TEST(test_a_change_that_begins_is_let_alone),
        TEST(test_a_new_worker_that_gives_up_ends_the_change_alone),
        TEST(test_a_change_with_a_lost_donor_is_revoked),
        TEST(test_a_pause_comes_after_the_plan_that_revokes_a_change),
        TEST(test_nodes_that_drain_stay_for_the_plan_that_revokes_a_change),
        TEST(test_a_donor_of_the_running_generation_is_no_failure),
        TEST(test_a_new_worker_that_dies_ends_the_change_alone),
        TEST(test_one_that_gave_up_the_change_before_is_no_failure),
        TEST(test_all_changes_that_cannot_begin_are_revoked),
        TEST(test_a_revoked_change_stays_revoked),
        TEST(test_one_that_was_left_behind_trains_no_more),
        TEST(test_what_b_alone_has_is_waited_for),
        TEST(test_a_copy_is_as_good),
        TEST(test_without_enough_slots_it_waits),
        TEST(test_only_processes_that_are_ready_take_part),
        TEST(test_a_node_that_drains_hands_over),
        TEST(test_a_pause_that_cannot_begin_is_put_off),
        TEST(test_a_change_that_nobody_remembers_is_given_up),
        TEST(test_a_pause_hears_of_nodes_that_must_go),
        TEST(test_no_change_begins_that_needs_a_node_that_is_gone),
        TEST(test_a_plan_that_follows_what_is_over_is_superseded),
        TEST(test_a_change_that_is_not_wanted_any_more_is_superseded),
        TEST(test_slots_that_are_allowed_again_are_not_left),
        TEST(test_a_change_that_is_still_wanted_waits),
        TEST(test_while_some_have_gone_on_nothing_is_known),
        TEST(test_what_rank_zero_cannot_hear_of_is_broken_off),
        TEST(test_rank_zero_that_goes_later_is_missed_too),
        TEST(test_while_rank_zero_speaks_there_is_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
