/*
 * Tests of recovery from hand-made reports: the interleavings that random histories
 * (tests/sim) rarely produce. One stage and three replicas on nodes a, b and c, generation 6
 * in force.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "elastic/job/job_spec.h"
#include "elastic/planner/start_time.h"
#include "lib/elastic/three_nodes.h"

/*
 * a runs in 6. b waits for its link to c, the donor, which is dead. a detects the failure only when
 * b gives up.
 */
static void test_one_that_waits_for_links_gives_others_time_to_hear(void **state)
{
    (void)state;
    three_plan->follows = 5;
    three_say(0, WORKER_RUNNING, 6, 9);
    three_say(1, WORKER_STUCK, 5, 0); /* its last report from before the order to join */
    three_reports[1].workers[0].held_unit_count = 0;
    three_say(2, WORKER_DEAD, 6, 0);
    three_decide();
    three_view.now_ns += 12 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_say(0, WORKER_STUCK, 6, 9);
    three_say(1, WORKER_STUCK, 6, 0);
    three_reports[1].workers[0].held_unit_count = 0;
    three_decide();
    three_expect_published(9, 0);
}

/* No rank of generation 6 is missing, and none has failed. */
static void test_one_that_stands_aside_is_no_failure(void **state)
{
    (void)state;
    snprintf(three_plan->layout.workers[0].node, NAME_SIZE, "b");
    three_plan->layout.workers[0].slot = 1;
    three_plan->layout.workers[0].instance = 20;
    three_nodes[1].slot_count = 2;
    three_nodes[1].slots[1] = (struct member_slot){.index = 1, .speed = 1};
    three_reports[1].worker_count = 2;
    three_reports[1].workers[1] = (struct worker_report){
        .slot = 1, .instance = 20, .phase = WORKER_PREPARED, .generation = 6};
    three_say(0, WORKER_STUCK, 6, 9);
    three_reports[0].workers[0].cause = CAUSE_LEFT_OUT;
    three_say(1, WORKER_STUCK, 5, 9); /* on its way into 6, as c is */
    three_say(2, WORKER_STUCK, 5, 9);
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_false(three_memory.failure_seen.is_set);
}

/* The user asks for fewer devices just when c dies: b's state may be needed if a dies, too. */
static void test_whoever_has_state_is_not_scaled_away_in_a_recovery(void **state)
{
    (void)state;
    three_view.wish.devices = 1;
    three_say(0, WORKER_STUCK, 6, 9);
    three_say(1, WORKER_STUCK, 6, 9);
    three_say(2, WORKER_DEAD, 6, 0);
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    three_say(1, WORKER_STUCK, 5, 7); /* its state is useless */
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->layout.worker_count, 1);
}

static void test_a_donor_that_stayed_behind_contradicts_nobody(void **state)
{
    (void)state;
    three_train_on_two(true);
    three_say(0, WORKER_STUCK, 6, 10);
    three_say(1, WORKER_DEAD, 6, 0);
    three_say(2, WORKER_STUCK, 6, 9);
    three_decide();
    three_expect_published(10, 0);
}

/* c was a donor of 5 when 6 was planned; 6 has no rank for it. Then 5 broke. */
static void test_a_donor_of_the_generation_before_contradicts_nobody(void **state)
{
    (void)state;
    three_train_on_two(false);
    three_plan->follows = 5;
    three_say(0, WORKER_STUCK, 5, 10);
    three_say(1, WORKER_STUCK, 5, 10);
    three_say(2, WORKER_STUCK, 5, 8);
    three_decide();
    three_expect_published(10, 0);
    three_say(1, WORKER_STUCK, 5, 8); /* it has a rank, so it ran there: a contradiction */
    three_decide();
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
}

/* c died just before it began; its node is back, and still has c's last report. */
static void test_one_that_never_came_in_contradicts_nobody(void **state)
{
    (void)state;
    three_plan->change.planned = true;
    three_plan->follows = 5;
    three_say(0, WORKER_STUCK, 6, 12);
    three_say(1, WORKER_STUCK, 6, 12);
    three_say(2, WORKER_PREPARED, 6, 9);
    three_decide();
    three_view.now_ns += 30 * TIMEOUT_NS;
    three_decide();
    three_expect_published(12, 0);
}

static void test_one_that_runs_on_is_waited_for(void **state)
{
    (void)state;
    three_say(0, WORKER_STUCK, 6, 9);
    three_say(1, WORKER_RUNNING, 6, 9);
    three_say(2, WORKER_DEAD, 6, 0);
    uint64_t seen = three_view.now_ns;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_true(three_decision.wake_at_ns == seen + TIMEOUT_NS);
    three_view.now_ns = seen + TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns++;
    three_decide();
    three_expect_published(9, 0);
    /* No report of b came in time: b gets no rank and no move, though it may be alive. */
    assert_int_equal(plan_layout_find(&three_decision.plan->layout, "b", 0), -1);
}

static void test_one_that_is_accused_gets_a_short_grace(void **state)
{
    (void)state;
    three_say(0, WORKER_STUCK, 6, 9);
    three_reports[0].workers[0].lost_count = 1;
    snprintf(three_reports[0].workers[0].lost[0], sizeof(three_reports[0].workers[0].lost[0]),
             "b/0");
    three_view.report_count = 1; /* no report of b and c under this generation */
    three_view.node_count = 2;   /* and c has no lease */
    uint64_t seen = three_view.now_ns;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_true(three_decision.wake_at_ns == seen + TIMEOUT_NS / 8);
    three_view.now_ns = seen + TIMEOUT_NS / 8;
    three_decide();
    three_expect_published(9, 0);
}

/* Peers lost a worker of b, but b's daemon reports: the other worker of b is only late. */
static void test_a_late_worker_beside_one_that_spoke_is_waited_for(void **state)
{
    (void)state;
    memcpy(three_plan->layout.workers[2].node, "b", 2);
    three_plan->layout.workers[2].slot = 1;
    three_nodes[1].slot_count = 2;
    three_nodes[1].slots[1] = (struct member_slot){.index = 1, .speed = 1};
    three_say(0, WORKER_STUCK, 6, 9);
    three_reports[0].workers[0].lost_count = 1;
    snprintf(three_reports[0].workers[0].lost[0], sizeof(three_reports[0].workers[0].lost[0]),
             "b/0");
    three_say(1, WORKER_DEAD, 6, 0);
    three_reports[1].worker_count = 2;
    three_reports[1].workers[1] = three_reports[0].workers[0];
    three_reports[1].workers[1].slot = 1;
    three_reports[1].workers[1].instance = 12;
    three_reports[1].workers[1].lost_count = 0;
    three_reports[1].workers[1].phase = WORKER_RUNNING;
    three_view.report_count = 2;
    uint64_t seen = three_view.now_ns;
    three_decide();
    three_view.now_ns = seen + TIMEOUT_NS / 8;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_reports[1].workers[1].phase = WORKER_STUCK;
    three_decide();
    three_expect_published(9, 0);
    assert_true(plan_layout_find(&three_decision.plan->layout, "b", 1) >= 0);
}

/*
 * Without b only the checkpoint is left: b gets the whole deadline, and more if no peer accuses it.
 */
static void test_patience_grows_with_what_would_be_lost(void **state)
{
    (void)state;
    three_say(0, WORKER_DEAD, 6, 0);
    three_say(1, WORKER_RUNNING, 6, 9);
    three_say(2, WORKER_DEAD, 6, 0);
    three_reports[0].workers[0].lost_count = 1;
    snprintf(three_reports[0].workers[0].lost[0], sizeof(three_reports[0].workers[0].lost[0]),
             "b/0");
    uint64_t seen = three_view.now_ns;
    three_decide();
    three_view.now_ns = seen + TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns = seen + TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);

    three_reports[0].workers[0].lost_count = 0;
    memset(&three_memory, 0, sizeof(three_memory));
    seen = three_view.now_ns;
    three_decide();
    three_view.now_ns = seen + 8 * TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns = seen + 8 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(three_decision.plan->start.resume_step, 4);
}

/* Make two stages of one replica on a and b, each with its copy on the other node. */
static void share_copies(void)
{
    unsigned units = job_model_unit_count(&three_spec.model);
    unsigned *first_unit = calloc(3, sizeof(unsigned));
    three_plan->layout.shadows = calloc(2, sizeof(*three_plan->layout.shadows));
    assert_true(first_unit && three_plan->layout.shadows);
    first_unit[1] = units / 2;
    first_unit[2] = units;
    free(three_plan->layout.stage_first_unit);
    three_plan->layout.stage_first_unit = first_unit;
    three_plan->layout.stage_count = three_plan->layout.worker_count =
        three_plan->layout.shadow_count = 2;
    three_plan->layout.replica_count = 1;
    three_plan->layout.replica_first_lane[1] = LANES;
    three_plan->layout.shadows[0] = (struct plan_shadow){.stage = 0, .rank = 1};
    three_plan->layout.shadows[1] = (struct plan_shadow){.stage = 1, .rank = 0};
    three_view.node_count = three_view.report_count = 2;
}

/* a is dead, and b, which has a copy of a's stage, has not reported yet. */
static void test_a_copy_is_waited_for_as_a_replica_is(void **state)
{
    (void)state;
    share_copies();
    three_say(0, WORKER_DEAD, 6, 0);
    three_say(1, WORKER_RUNNING, 6, 9);
    struct worker_report *report = &three_reports[1].workers[0];
    report->held_first_unit = three_plan->layout.stage_first_unit[1];
    report->held_unit_count -= report->held_first_unit;
    uint64_t seen = three_view.now_ns;
    three_decide();
    three_view.now_ns = seen + 8 * TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    report->phase = WORKER_STUCK;
    report->extra_count = 1;
    report->extras[0] = (struct report_extra){0, report->held_first_unit, true};
    three_decide();
    three_expect_published(9, 0);
}

/*
 * Make two stages: a and b own the first, c the second. b waits for links with a, which is dead, so
 * c waits, too, and no peer can report the failure to it.
 */
static void split_in_two(void)
{
    unsigned units = job_model_unit_count(&three_spec.model);
    unsigned *first_unit = calloc(3, sizeof(unsigned));
    assert_non_null(first_unit);
    first_unit[1] = units / 2;
    first_unit[2] = units;
    free(three_plan->layout.stage_first_unit);
    three_plan->layout.stage_first_unit = first_unit;
    three_plan->layout.stage_count = 2;
    three_plan->layout.replica_count = 1;
    three_plan->layout.replica_first_lane[1] = LANES;
    three_plan->layout.worker_count = 2; /* b and c; a died before it handed over */
    three_plan->layout.donor_count = 1;
    memcpy(three_plan->layout.workers[0].node, "b", 2);
    memcpy(three_plan->layout.workers[1].node, "c", 2);
    memcpy(three_plan->layout.workers[2].node, "a", 2);
    three_plan->layout.workers[0].instance = 11;
    three_plan->layout.workers[1].instance = 12;
    three_plan->layout.workers[2].instance = 10;
    three_say(0, WORKER_DEAD, 6, 0);
    three_say(1, WORKER_STUCK, 5, 9);
    three_say(2, WORKER_RUNNING, 6, 9);
    three_reports[1].workers[0].held_unit_count = units / 2;
    three_reports[2].workers[0].held_first_unit = units / 2;
    three_reports[2].workers[0].held_unit_count = units - units / 2;
}

static void test_those_who_wait_for_links_are_waited_for_until_they_give_up(void **state)
{
    (void)state;
    split_in_two();
    uint64_t seen = three_view.now_ns;
    three_decide();
    three_view.now_ns = seen + 21 * TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_say(1, WORKER_STUCK, 6, 9); /* c detects it a little later */
    three_reports[1].workers[0].held_unit_count = three_plan->layout.stage_first_unit[1];
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_say(2, WORKER_STUCK, 6, 9);
    three_decide();
    three_expect_published(9, 0);
}

static void test_so_they_are_in_a_planned_switch(void **state)
{
    (void)state;
    split_in_two();
    three_plan->change.planned = true;
    three_plan->follows = 5;
    three_plan->start.resume_step = 7; /* at least: the boundary was two steps later */
    three_say(1, WORKER_PREPARED, 6, 9);
    three_reports[1].workers[0].held_unit_count = three_plan->layout.stage_first_unit[1];
    three_decide();
    three_view.now_ns += 21 * TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_say(1, WORKER_STUCK, 6, 9);
    three_reports[1].workers[0].held_unit_count = 0; /* the units from a have not arrived */
    three_say(0, WORKER_STUCK, 6, 9);                /* a is alive, and was never in it */
    three_reports[0].workers[0].held_unit_count = three_plan->layout.stage_first_unit[1];
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING); /* c detects it a little later */
    three_say(2, WORKER_STUCK, 6, 9);
    three_reports[2].workers[0].held_first_unit = three_plan->layout.stage_first_unit[1];
    three_reports[2].workers[0].held_unit_count =
        three_plan->layout.stage_first_unit[2] - three_plan->layout.stage_first_unit[1];
    three_decide();
    three_expect_published(9, 0);
}

/*
 * The etcd watch of b's firnd hangs: b has not received the planned change that broke without it.
 */
static void test_one_that_has_not_heard_of_a_planned_change_is_waited_for(void **state)
{
    (void)state;
    split_in_two();
    three_plan->change.planned = true;
    three_plan->follows = 5;
    three_say(2, WORKER_STUCK, 5, 9);
    three_reports[2].workers[0].held_first_unit = three_plan->layout.stage_first_unit[1];
    three_reports[2].workers[0].held_unit_count =
        three_plan->layout.stage_first_unit[2] - three_plan->layout.stage_first_unit[1];
    struct node_report b = three_reports[1];
    three_reports[1].generation = 5; /* its last report is older */
    three_decide();
    three_view.now_ns += 8 * TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_reports[1] = b;
    three_decide();
    three_expect_published(9, 0);
}

/* It has no part in the change, and alone still has all units. */
static void test_one_that_is_to_leave_and_has_not_heard_of_it_is_waited_for(void **state)
{
    (void)state;
    three_train_on_two(false);
    three_plan->follows = 5;
    three_say(0, WORKER_DEAD, 5, 0);
    three_say(1, WORKER_DEAD, 5, 0);
    three_say(2, WORKER_RUNNING, 5, 8);
    three_reports[2].generation = 5;
    three_decide();
    three_view.now_ns += 8 * TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_say(2, WORKER_STUCK, 5, 9);
    three_decide();
    three_expect_published(9, 0);
}

/* b has not received the plan after a failure, either, and that plan broke without it. */
static void test_one_that_has_not_heard_of_a_recovery_is_waited_for(void **state)
{
    (void)state;
    split_in_two();
    three_say(2, WORKER_STUCK, 5, 9);
    three_reports[2].workers[0].held_first_unit = three_plan->layout.stage_first_unit[1];
    three_reports[2].workers[0].held_unit_count =
        three_plan->layout.stage_first_unit[2] - three_plan->layout.stage_first_unit[1];
    struct node_report b = three_reports[1];
    three_reports[1].generation = 5;
    three_decide();
    three_view.now_ns += 8 * TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_reports[1] = b;
    three_decide();
    three_expect_published(9, 0);
}

/* b is also the donor of a unit in that change: no other worker has the unit. */
static void test_one_that_has_not_heard_what_to_hand_over_is_waited_for(void **state)
{
    (void)state;
    split_in_two();
    unsigned unit = three_plan->layout.stage_first_unit[1];
    three_plan->change.planned = true;
    three_plan->follows = 5;
    three_plan->start.moves = calloc(1, sizeof(*three_plan->start.moves));
    assert_non_null(three_plan->start.moves);
    three_plan->start.moves[three_plan->start.move_count++] = (struct plan_move){unit, 0, 1};
    three_say(2, WORKER_STUCK, 5, 9);
    three_reports[2].workers[0].held_first_unit = unit + 1;
    three_reports[2].workers[0].held_unit_count = three_plan->layout.stage_first_unit[2] - unit - 1;
    struct node_report b = three_reports[1];
    three_reports[1].generation = 5;
    three_decide();
    three_view.now_ns += 8 * TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_reports[1] = b;
    three_reports[1].workers[0].held_unit_count = unit + 1;
    three_decide();
    three_expect_published(9, 0);
}

/* No worker ever had the missing units: the leader does not wait for them. */
static void test_waiting_in_vain_is_short(void **state)
{
    (void)state;
    split_in_two();
    three_reports[2].workers[0].phase = WORKER_DEAD;
    three_reports[2].workers[0].held_unit_count = 0;
    uint64_t seen = three_view.now_ns;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns = seen + TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
}

/* a is left from the generation before the last: the paused job does not need it. */
static void test_one_that_was_left_behind_breaks_nothing(void **state)
{
    (void)state;
    three_plan->change.planned = true;
    three_plan->follows = 5;
    three_plan->layout.replica_count = three_plan->layout.stage_count =
        three_plan->layout.worker_count = 0;
    three_plan->layout.donor_count = NODES;
    three_plan->layout.frozen_layers = 0;
    three_say(0, WORKER_STUCK, 4, 7);
    three_say(1, WORKER_RUNNING, 5, 9);
    three_say(2, WORKER_RUNNING, 5, 9);
    three_view.wish.desired = JOB_DESIRED_PAUSED;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.state, JOB_PAUSING);
    three_say(0, WORKER_STUCK, 5, 9); /* but that worker would break it */
    three_decide();
    assert_int_equal(three_decision.state, JOB_RECOVERING);
    three_view.now_ns += 8 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
}

/* The leader uses avoided slots again when their time is over. */
static void test_avoided_slots_are_looked_at_again(void **state)
{
    (void)state;
    plan_free(three_plan);
    three_plan = NULL;
    three_view.plan = NULL;
    three_view.report_count = 0;
    three_view.checkpoint.step = 0;
    three_view.node_count = 1;
    three_memory.avoided.slots[0].timeouts = 1;
    three_memory.avoided.slots[0].until_ns = three_view.now_ns + TIMEOUT_NS;
    snprintf(three_memory.avoided.slots[0].node, NAME_SIZE, "a");
    for (unsigned again = 0; again < 2; again++) {
        three_decide();
        assert_int_equal(three_decision.action, LEADER_NOTHING);
        assert_true(three_decision.wake_at_ns == three_view.now_ns + TIMEOUT_NS);
    }
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
}

/* Every node of the plan has lost its registration, perhaps only for a moment. */
static void test_an_absence_is_given_time_before_all_is_lost(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        three_say(i, WORKER_RUNNING, 6, 9);
    three_view.node_count = 0;
    uint64_t seen = three_view.now_ns;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.state, JOB_RECOVERING);
    three_view.node_count = NODES; /* they are back: no failure */
    three_decide();
    assert_int_equal(three_decision.state, JOB_RUNNING);
    three_view.node_count = 1; /* the last one died with its workers, and a new one came */
    three_plan->layout.workers[0].instance = three_plan->layout.workers[1].instance =
        three_plan->layout.workers[2].instance = 77;
    for (unsigned i = 0; i < NODES; i++)
        memcpy(three_plan->layout.workers[i].node, "z", 2);
    three_view.report_count = 0;
    three_view.now_ns = seen + 20 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
}

/* A start that hangs is given up; 1.5 GB of state get more time than links alone. */
static void test_a_large_state_is_given_the_time_to_come(void **state)
{
    (void)state;
    three_spec.model.width = 1024;
    three_spec.model.vocab = 50000;
    three_plan->start.source = PLAN_SOURCE_FRESH;
    three_plan->start.resume_step = 0;
    for (unsigned i = 0; i < NODES; i++) {
        three_say(i, WORKER_PREPARED, 6, 0);
        three_reports[i].workers[0].held_unit_count = 0;
    }
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    uint64_t start_ns = start_time_ns(&three_plan->layout, &three_spec.model, TIMEOUT_NS);
    assert_true(start_ns > 20 * TIMEOUT_NS + 60 * NS_PER_SECOND);
    assert_int_equal(three_decision.wake_at_ns, three_view.now_ns + start_ns);
    three_view.now_ns += start_ns - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns += 2 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
}

/* b and c do not reach etcd when the leader publishes a plan that needs only them; a trains on. */
static void test_a_switch_that_nobody_can_hear_of_is_no_failure(void **state)
{
    (void)state;
    three_train_on_two(true);
    three_plan->follows = 5;
    memcpy(three_plan->layout.workers[0].node, "b", 2);
    memcpy(three_plan->layout.workers[1].node, "c", 2);
    memcpy(three_plan->layout.workers[2].node, "a", 2);
    three_plan->layout.workers[0].instance = 11;
    three_plan->layout.workers[1].instance = 12;
    three_plan->layout.workers[2].instance = 10;
    three_say(0, WORKER_RUNNING, 5, 9);
    three_reports[0].workers[0].held_unit_count = 1; /* so that it cannot continue without them */
    three_view.report_count = three_view.node_count = 1;
    three_decide();
    three_view.now_ns += 15 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_not_equal(three_decision.state, JOB_RECOVERING);
    three_say(0, WORKER_STUCK, 5, 9); /* until it reports a failure */
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
}

/*
 * An earlier leader gave up the checkpoint of step 20, and the job has reached step 10 since: the
 * leader does not discard surviving state for an unreadable checkpoint.
 */
static void test_a_checkpoint_that_was_passed_is_not_gone_back_to(void **state)
{
    (void)state;
    three_view.checkpoint.step = 20;
    three_view.checkpoint.generation = 4;
    three_view.progress.generation = 6;
    three_view.progress.step = 9;
    three_say(0, WORKER_STUCK, 6, 9);
    three_say(1, WORKER_STUCK, 6, 9);
    three_say(2, WORKER_DEAD, 6, 0);
    three_decide();
    three_expect_published(9, 0);
}

/*
 * The same case, but the generation that saved the checkpoint is the newest that has reported:
 * these survivors are stale.
 */
static void test_a_newer_checkpoint_counts_more_than_those_left_behind(void **state)
{
    (void)state;
    three_view.checkpoint.step = 20;
    three_view.checkpoint.generation = 6;
    three_view.progress.generation = 6;
    three_say(0, WORKER_STUCK, 6, 9);
    three_say(1, WORKER_STUCK, 6, 9);
    three_say(2, WORKER_DEAD, 6, 0);
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(three_decision.plan->start.resume_step, 20);
}

static void test_contradictions_go_back_to_the_checkpoint(void **state)
{
    (void)state;
    three_say(0, WORKER_STUCK, 6, 12);
    three_say(1, WORKER_STUCK, 6, 9);
    three_say(2, WORKER_DEAD, 6, 0);
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_non_null(strstr(three_decision.plan->change.text, "contradict"));
}

/* A generation number is never used twice, even if its plan was dropped. */
static void all_are_lost(void)
{
    for (unsigned i = 0; i < NODES; i++)
        three_say(i, WORKER_DEAD, 6, 0);
}

static void test_nodes_with_a_newer_checkpoint_are_given_a_while(void **state)
{
    (void)state;
    all_are_lost();
    snprintf(three_view.checkpoint.missing, sizeof(three_view.checkpoint.missing),
             "node x: it has a part");
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_string_equal(three_decision.text, "waits for node x: it has a part");
    assert_int_equal(three_decision.wake_at_ns, three_view.now_ns + 8 * TIMEOUT_NS);
    three_view.now_ns += 8 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.resume_step, 4);
}

static void test_numbers_are_not_used_twice(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        three_say(i, WORKER_RUNNING, 6, 9);
    three_spec.elastic.devices_max = 2;
    struct plan *next = plan_copy(three_plan);
    assert_non_null(next);
    next->generation = 7;
    next->layout.workers[2].instance = 99; /* gone */
    three_view.next = next;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_DROP_NEXT);
    three_view.next = NULL;
    three_decide();
    assert_non_null(three_decision.plan);
    assert_int_equal(three_decision.plan->generation, 8);
    plan_free(next);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, three_setup, three_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_large_state_is_given_the_time_to_come),
        TEST(test_one_that_stands_aside_is_no_failure),
        TEST(test_one_that_waits_for_links_gives_others_time_to_hear),
        TEST(test_whoever_has_state_is_not_scaled_away_in_a_recovery),
        TEST(test_a_checkpoint_that_was_passed_is_not_gone_back_to),
        TEST(test_a_newer_checkpoint_counts_more_than_those_left_behind),
        TEST(test_a_donor_that_stayed_behind_contradicts_nobody),
        TEST(test_a_donor_of_the_generation_before_contradicts_nobody),
        TEST(test_one_that_never_came_in_contradicts_nobody),
        TEST(test_one_that_runs_on_is_waited_for),
        TEST(test_one_that_is_accused_gets_a_short_grace),
        TEST(test_a_late_worker_beside_one_that_spoke_is_waited_for),
        TEST(test_patience_grows_with_what_would_be_lost),
        TEST(test_a_copy_is_waited_for_as_a_replica_is),
        TEST(test_those_who_wait_for_links_are_waited_for_until_they_give_up),
        TEST(test_so_they_are_in_a_planned_switch),
        TEST(test_one_that_has_not_heard_of_a_planned_change_is_waited_for),
        TEST(test_one_that_is_to_leave_and_has_not_heard_of_it_is_waited_for),
        TEST(test_one_that_has_not_heard_of_a_recovery_is_waited_for),
        TEST(test_one_that_has_not_heard_what_to_hand_over_is_waited_for),
        TEST(test_waiting_in_vain_is_short),
        TEST(test_one_that_was_left_behind_breaks_nothing),
        TEST(test_avoided_slots_are_looked_at_again),
        TEST(test_an_absence_is_given_time_before_all_is_lost),
        TEST(test_a_switch_that_nobody_can_hear_of_is_no_failure),
        TEST(test_contradictions_go_back_to_the_checkpoint),
        TEST(test_nodes_with_a_newer_checkpoint_are_given_a_while),
        TEST(test_numbers_are_not_used_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
