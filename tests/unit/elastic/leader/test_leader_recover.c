/*
 * Tests of recovery from hand-made reports: the interleavings that random histories
 * (test_cluster.c) rarely produce. One stage and three replicas on nodes a, b and c, generation 6
 * in force.
 */
#include "elastic/job/job_spec.h"
#include "unit/elastic/three_nodes.h"

static void gradients_that_were_thrown_away_do_not_count(void **state)
{
    (void)state;
    /*
     * Generation 6 replays step 10. Together a and b could complete step 10 if they still had its
     * gradients.
     */
    say(0, WORKER_STUCK, 5, 9);
    hold(0, 0, 3);
    say(1, WORKER_STUCK, 5, 9);
    hold(1, 3, LANES);
    say(2, WORKER_DEAD, 5, 0);
    decide();
    expect_published(9, 0);
}

static void expect_checkpoint(void)
{
    assert_int_equal(decision.action, LEADER_PUBLISH);
    assert_int_equal(decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(decision.plan->start.resume_step, 4);
}

/*
 * Generation 6 continued from step 10, which only b and c had, and a begins there anew: a drops its
 * older state when it receives plan 6. Now b and c are dead, and a's only report is from before it
 * received the plan.
 */
static void state_that_the_plan_lets_go_does_not_count(void **state)
{
    (void)state;
    plan->start.resume_step = 10;
    plan->layout.workers[0].instance = 0;
    say(0, WORKER_STUCK, 5, 9);
    say(1, WORKER_DEAD, 5, 0);
    say(2, WORKER_DEAD, 5, 0);
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING); /* a may have the plan, and step 10 from b */
    view.now_ns += TIMEOUT_NS;
    decide();
    expect_checkpoint();
    plan->start.resume_step = 9; /* state at the plan's own step is kept */
    decide();
    expect_published(9, 0);
}

/*
 * The worker has no rank in generation 6, which continues from another step, or is the second
 * generation without it: the worker exits.
 */
static void state_of_one_that_is_sent_away_does_not_count(void **state)
{
    (void)state;
    memcpy(plan->layout.workers[0].node, "z", 2);
    plan->follows = 5;
    plan->start.resume_step = 10;
    say(0, WORKER_STUCK, 5, 9);
    say(1, WORKER_DEAD, 5, 0);
    say(2, WORKER_DEAD, 5, 0);
    decide();
    view.now_ns += TIMEOUT_NS;
    decide();
    expect_checkpoint();
    plan->start.resume_step = 9;
    say(0, WORKER_STUCK, 4, 9);
    decide();
    expect_checkpoint();
}

/*
 * The worker steps aside at the resume step of generation 6, and all others die before that
 * generation has begun.
 */
static void state_of_one_that_steps_aside_counts(void **state)
{
    (void)state;
    memcpy(plan->layout.workers[0].node, "z", 2);
    plan->follows = 5;
    plan->start.resume_step = 9;
    say(0, WORKER_STUCK, 5, 9); /* ordered, but has not reported it yet */
    say(1, WORKER_DEAD, 5, 0);
    say(2, WORKER_DEAD, 5, 0);
    view.now_ns += TIMEOUT_NS;
    decide();
    view.now_ns += TIMEOUT_NS;
    decide();
    expect_published(9, 0);
    say(0, WORKER_STUCK, 6, 9);
    reports[0].workers[0].cause = CAUSE_LEFT_OUT;
    decide();
    expect_published(9, 0);
    assert_int_equal(decision.plan->layout.workers[0].instance, 10);
}

/*
 * a runs in 6. b waits for its link to c, the donor, which is dead. a detects the failure only when
 * b gives up.
 */
static void one_that_waits_for_links_gives_others_time_to_hear(void **state)
{
    (void)state;
    plan->follows = 5;
    say(0, WORKER_RUNNING, 6, 9);
    say(1, WORKER_STUCK, 5, 0); /* its last report from before the order to join */
    reports[1].workers[0].held_unit_count = 0;
    say(2, WORKER_DEAD, 6, 0);
    decide();
    view.now_ns += 12 * TIMEOUT_NS;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    say(0, WORKER_STUCK, 6, 9);
    say(1, WORKER_STUCK, 6, 0);
    reports[1].workers[0].held_unit_count = 0;
    decide();
    expect_published(9, 0);
}

/* No rank of generation 6 is missing, and none has failed. */
static void one_that_stands_aside_is_no_failure(void **state)
{
    (void)state;
    snprintf(plan->layout.workers[0].node, NAME_SIZE, "b");
    plan->layout.workers[0].slot = 1;
    plan->layout.workers[0].instance = 20;
    nodes[1].slot_count = 2;
    nodes[1].slots[1] = (struct member_slot){.index = 1, .speed = 1};
    reports[1].worker_count = 2;
    reports[1].workers[1] = (struct worker_report){
        .slot = 1, .instance = 20, .phase = WORKER_PREPARED, .generation = 6};
    say(0, WORKER_STUCK, 6, 9);
    reports[0].workers[0].cause = CAUSE_LEFT_OUT;
    say(1, WORKER_STUCK, 5, 9); /* on its way into 6, as c is */
    say(2, WORKER_STUCK, 5, 9);
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_int_equal(memory.failure_seen_ns, 0);
}

/* The user asks for fewer devices just when c dies: b's state may be needed if a dies, too. */
static void whoever_has_state_is_not_scaled_away_in_a_recovery(void **state)
{
    (void)state;
    view.devices_wanted = 1;
    say(0, WORKER_STUCK, 6, 9);
    say(1, WORKER_STUCK, 6, 9);
    say(2, WORKER_DEAD, 6, 0);
    decide();
    expect_published(9, 0);
    assert_int_equal(decision.plan->layout.worker_count, 2);
    say(1, WORKER_STUCK, 5, 7); /* its state is useless */
    view.now_ns += TIMEOUT_NS;
    decide();
    expect_published(9, 0);
    assert_int_equal(decision.plan->layout.worker_count, 1);
}

/* Under generation 6 itself the same reports are valid: the step stands. */
static void gradients_of_the_generation_that_broke_do_count(void **state)
{
    (void)state;
    say(0, WORKER_STUCK, 6, 9);
    hold(0, 0, 3);
    say(1, WORKER_STUCK, 6, 9);
    hold(1, 3, LANES);
    say(2, WORKER_DEAD, 6, 0);
    decide();
    expect_published(10, 10);
}

static void a_donor_that_stayed_behind_contradicts_nobody(void **state)
{
    (void)state;
    plan->change.planned = true;
    plan->layout.replica_count = plan->layout.worker_count = 2;
    plan->layout.replica_first_lane[2] = LANES;
    plan->layout.donor_count = 1;
    say(0, WORKER_STUCK, 6, 10);
    say(1, WORKER_DEAD, 6, 0);
    say(2, WORKER_STUCK, 6, 9);
    decide();
    expect_published(10, 0);
}

/* c was a donor of 5 when 6 was planned; 6 has no rank for it. Then 5 broke. */
static void a_donor_of_the_generation_before_contradicts_nobody(void **state)
{
    (void)state;
    plan->change.planned = true;
    plan->follows = 5;
    plan->layout.replica_count = plan->layout.worker_count = 2;
    plan->layout.replica_first_lane[2] = LANES;
    say(0, WORKER_STUCK, 5, 10);
    say(1, WORKER_STUCK, 5, 10);
    say(2, WORKER_STUCK, 5, 8);
    decide();
    expect_published(10, 0);
    say(1, WORKER_STUCK, 5, 8); /* it has a rank, so it ran there: a contradiction */
    decide();
    expect_checkpoint();
}

/* c died just before it began; its node is back, and still has c's last report. */
static void one_that_never_came_in_contradicts_nobody(void **state)
{
    (void)state;
    plan->change.planned = true;
    plan->follows = 5;
    say(0, WORKER_STUCK, 6, 12);
    say(1, WORKER_STUCK, 6, 12);
    say(2, WORKER_PREPARED, 6, 9);
    decide();
    view.now_ns += 30 * TIMEOUT_NS;
    decide();
    expect_published(12, 0);
}

static void one_that_runs_on_is_waited_for(void **state)
{
    (void)state;
    say(0, WORKER_STUCK, 6, 9);
    say(1, WORKER_RUNNING, 6, 9);
    say(2, WORKER_DEAD, 6, 0);
    uint64_t seen = view.now_ns;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_true(decision.wake_at_ns == seen + TIMEOUT_NS);
    view.now_ns = seen + TIMEOUT_NS - 1;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    view.now_ns++;
    decide();
    expect_published(9, 0);
    /* No report of b came in time: b gets no rank and no move, though it may be alive. */
    assert_int_equal(plan_layout_find(&decision.plan->layout, "b", 0), -1);
}

static void one_that_is_accused_gets_a_short_grace(void **state)
{
    (void)state;
    say(0, WORKER_STUCK, 6, 9);
    reports[0].workers[0].lost_count = 1;
    snprintf(reports[0].workers[0].lost[0], sizeof(reports[0].workers[0].lost[0]), "b/0");
    view.report_count = 1; /* no report of b and c under this generation */
    view.node_count = 2;   /* and c has no lease */
    uint64_t seen = view.now_ns;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_true(decision.wake_at_ns == seen + TIMEOUT_NS / 8);
    view.now_ns = seen + TIMEOUT_NS / 8;
    decide();
    expect_published(9, 0);
}

/* Peers lost a worker of b, but b's daemon reports: the other worker of b is only late. */
static void a_late_worker_beside_one_that_spoke_is_waited_for(void **state)
{
    (void)state;
    memcpy(plan->layout.workers[2].node, "b", 2);
    plan->layout.workers[2].slot = 1;
    nodes[1].slot_count = 2;
    nodes[1].slots[1] = (struct member_slot){.index = 1, .speed = 1};
    say(0, WORKER_STUCK, 6, 9);
    reports[0].workers[0].lost_count = 1;
    snprintf(reports[0].workers[0].lost[0], sizeof(reports[0].workers[0].lost[0]), "b/0");
    say(1, WORKER_DEAD, 6, 0);
    reports[1].worker_count = 2;
    reports[1].workers[1] = reports[0].workers[0];
    reports[1].workers[1].slot = 1;
    reports[1].workers[1].instance = 12;
    reports[1].workers[1].lost_count = 0;
    reports[1].workers[1].phase = WORKER_RUNNING;
    view.report_count = 2;
    uint64_t seen = view.now_ns;
    decide();
    view.now_ns = seen + TIMEOUT_NS / 8;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    reports[1].workers[1].phase = WORKER_STUCK;
    decide();
    expect_published(9, 0);
    assert_true(plan_layout_find(&decision.plan->layout, "b", 1) >= 0);
}

/*
 * Without b only the checkpoint is left: b gets the whole deadline, and more if no peer accuses it.
 */
static void patience_grows_with_what_would_be_lost(void **state)
{
    (void)state;
    say(0, WORKER_DEAD, 6, 0);
    say(1, WORKER_RUNNING, 6, 9);
    say(2, WORKER_DEAD, 6, 0);
    reports[0].workers[0].lost_count = 1;
    snprintf(reports[0].workers[0].lost[0], sizeof(reports[0].workers[0].lost[0]), "b/0");
    uint64_t seen = view.now_ns;
    decide();
    view.now_ns = seen + TIMEOUT_NS - 1;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    view.now_ns = seen + TIMEOUT_NS;
    decide();
    assert_int_equal(decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);

    reports[0].workers[0].lost_count = 0;
    memset(&memory, 0, sizeof(memory));
    seen = view.now_ns;
    decide();
    view.now_ns = seen + 8 * TIMEOUT_NS - 1;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    view.now_ns = seen + 8 * TIMEOUT_NS;
    decide();
    assert_int_equal(decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(decision.plan->start.resume_step, 4);
}

/* Make two stages of one replica on a and b, each with its copy on the other node. */
static void share_copies(void)
{
    unsigned units = job_model_unit_count(&spec.model);
    unsigned *first_unit = calloc(3, sizeof(unsigned));
    plan->layout.shadows = calloc(2, sizeof(*plan->layout.shadows));
    assert_true(first_unit && plan->layout.shadows);
    first_unit[1] = units / 2;
    first_unit[2] = units;
    free(plan->layout.stage_first_unit);
    plan->layout.stage_first_unit = first_unit;
    plan->layout.stage_count = plan->layout.worker_count = plan->layout.shadow_count = 2;
    plan->layout.replica_count = 1;
    plan->layout.replica_first_lane[1] = LANES;
    plan->layout.shadows[0] = (struct plan_shadow){.stage = 0, .rank = 1};
    plan->layout.shadows[1] = (struct plan_shadow){.stage = 1, .rank = 0};
    view.node_count = view.report_count = 2;
}

/* a is dead, and b, which has a copy of a's stage, has not reported yet. */
static void a_copy_is_waited_for_as_a_replica_is(void **state)
{
    (void)state;
    share_copies();
    say(0, WORKER_DEAD, 6, 0);
    say(1, WORKER_RUNNING, 6, 9);
    struct worker_report *report = &reports[1].workers[0];
    report->held_first_unit = plan->layout.stage_first_unit[1];
    report->held_unit_count -= report->held_first_unit;
    uint64_t seen = view.now_ns;
    decide();
    view.now_ns = seen + 8 * TIMEOUT_NS - 1;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    report->phase = WORKER_STUCK;
    report->extra_count = 1;
    report->extras[0] = (struct report_extra){0, report->held_first_unit, true};
    decide();
    expect_published(9, 0);
}

/*
 * Make two stages: a and b own the first, c the second. b waits for links with a, which is dead, so
 * c waits, too, and no peer can report the failure to it.
 */
static void split_in_two(void)
{
    unsigned units = job_model_unit_count(&spec.model);
    unsigned *first_unit = calloc(3, sizeof(unsigned));
    assert_non_null(first_unit);
    first_unit[1] = units / 2;
    first_unit[2] = units;
    free(plan->layout.stage_first_unit);
    plan->layout.stage_first_unit = first_unit;
    plan->layout.stage_count = 2;
    plan->layout.replica_count = 1;
    plan->layout.replica_first_lane[1] = LANES;
    plan->layout.worker_count = 2; /* b and c; a died before it handed over */
    plan->layout.donor_count = 1;
    memcpy(plan->layout.workers[0].node, "b", 2);
    memcpy(plan->layout.workers[1].node, "c", 2);
    memcpy(plan->layout.workers[2].node, "a", 2);
    plan->layout.workers[0].instance = 11;
    plan->layout.workers[1].instance = 12;
    plan->layout.workers[2].instance = 10;
    say(0, WORKER_DEAD, 6, 0);
    say(1, WORKER_STUCK, 5, 9);
    say(2, WORKER_RUNNING, 6, 9);
    reports[1].workers[0].held_unit_count = units / 2;
    reports[2].workers[0].held_first_unit = units / 2;
    reports[2].workers[0].held_unit_count = units - units / 2;
}

static void those_who_wait_for_links_are_waited_for_until_they_give_up(void **state)
{
    (void)state;
    split_in_two();
    uint64_t seen = view.now_ns;
    decide();
    view.now_ns = seen + 21 * TIMEOUT_NS - 1;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    say(1, WORKER_STUCK, 6, 9); /* c detects it a little later */
    reports[1].workers[0].held_unit_count = plan->layout.stage_first_unit[1];
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    say(2, WORKER_STUCK, 6, 9);
    decide();
    expect_published(9, 0);
}

static void so_they_are_in_a_planned_switch(void **state)
{
    (void)state;
    split_in_two();
    plan->change.planned = true;
    plan->follows = 5;
    plan->start.resume_step = 7; /* at least: the boundary was two steps later */
    say(1, WORKER_PREPARED, 6, 9);
    reports[1].workers[0].held_unit_count = plan->layout.stage_first_unit[1];
    decide();
    view.now_ns += 21 * TIMEOUT_NS - 1;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    say(1, WORKER_STUCK, 6, 9);
    reports[1].workers[0].held_unit_count = 0; /* the units from a have not arrived */
    say(0, WORKER_STUCK, 6, 9);                /* a is alive, and was never in it */
    reports[0].workers[0].held_unit_count = plan->layout.stage_first_unit[1];
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING); /* c detects it a little later */
    say(2, WORKER_STUCK, 6, 9);
    reports[2].workers[0].held_first_unit = plan->layout.stage_first_unit[1];
    reports[2].workers[0].held_unit_count =
        plan->layout.stage_first_unit[2] - plan->layout.stage_first_unit[1];
    decide();
    expect_published(9, 0);
}

/*
 * The etcd watch of b's firnd hangs: b has not received the planned change that broke without it.
 */
static void one_that_has_not_heard_of_a_planned_change_is_waited_for(void **state)
{
    (void)state;
    split_in_two();
    plan->change.planned = true;
    plan->follows = 5;
    say(2, WORKER_STUCK, 5, 9);
    reports[2].workers[0].held_first_unit = plan->layout.stage_first_unit[1];
    reports[2].workers[0].held_unit_count =
        plan->layout.stage_first_unit[2] - plan->layout.stage_first_unit[1];
    struct node_report b = reports[1];
    reports[1].generation = 5; /* its last report is older */
    decide();
    view.now_ns += 8 * TIMEOUT_NS - 1;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    reports[1] = b;
    decide();
    expect_published(9, 0);
}

/* b has not received the plan after a failure, either, and that plan broke without it. */
static void one_that_has_not_heard_of_a_recovery_is_waited_for(void **state)
{
    (void)state;
    split_in_two();
    say(2, WORKER_STUCK, 5, 9);
    reports[2].workers[0].held_first_unit = plan->layout.stage_first_unit[1];
    reports[2].workers[0].held_unit_count =
        plan->layout.stage_first_unit[2] - plan->layout.stage_first_unit[1];
    struct node_report b = reports[1];
    reports[1].generation = 5;
    decide();
    view.now_ns += 8 * TIMEOUT_NS - 1;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    reports[1] = b;
    decide();
    expect_published(9, 0);
}

/* b is also the donor of a unit in that change: no other worker has the unit. */
static void one_that_has_not_heard_what_to_hand_over_is_waited_for(void **state)
{
    (void)state;
    split_in_two();
    unsigned unit = plan->layout.stage_first_unit[1];
    plan->change.planned = true;
    plan->follows = 5;
    plan->start.moves = calloc(1, sizeof(*plan->start.moves));
    assert_non_null(plan->start.moves);
    plan->start.moves[plan->start.move_count++] = (struct plan_move){unit, 0, 1};
    say(2, WORKER_STUCK, 5, 9);
    reports[2].workers[0].held_first_unit = unit + 1;
    reports[2].workers[0].held_unit_count = plan->layout.stage_first_unit[2] - unit - 1;
    struct node_report b = reports[1];
    reports[1].generation = 5;
    decide();
    view.now_ns += 8 * TIMEOUT_NS - 1;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    reports[1] = b;
    reports[1].workers[0].held_unit_count = unit + 1;
    decide();
    expect_published(9, 0);
}

/* No worker ever had the missing units: the leader does not wait for them. */
static void waiting_in_vain_is_short(void **state)
{
    (void)state;
    split_in_two();
    reports[2].workers[0].phase = WORKER_DEAD;
    reports[2].workers[0].held_unit_count = 0;
    uint64_t seen = view.now_ns;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    view.now_ns = seen + TIMEOUT_NS;
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
    assert_int_equal(decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
}

/* a is left from the generation before the last: the paused job does not need it. */
static void one_that_was_left_behind_breaks_nothing(void **state)
{
    (void)state;
    plan->change.planned = true;
    plan->follows = 5;
    plan->layout.replica_count = plan->layout.stage_count = plan->layout.worker_count = 0;
    plan->layout.donor_count = NODES;
    plan->layout.frozen_layers = 0;
    say(0, WORKER_STUCK, 4, 7);
    say(1, WORKER_RUNNING, 5, 9);
    say(2, WORKER_RUNNING, 5, 9);
    view.desired = JOB_DESIRED_PAUSED;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_int_equal(decision.state, JOB_PAUSING);
    say(0, WORKER_STUCK, 5, 9); /* but that worker would break it */
    decide();
    assert_int_equal(decision.state, JOB_RECOVERING);
    view.now_ns += 8 * TIMEOUT_NS;
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
}

/* The leader uses avoided slots again when their time is over. */
static void avoided_slots_are_looked_at_again(void **state)
{
    (void)state;
    plan_free(plan);
    plan = NULL;
    view.plan = NULL;
    view.report_count = 0;
    view.checkpoint.step = 0;
    view.node_count = 1;
    memory.avoided[0].timeouts = 1;
    memory.avoided[0].until_ns = view.now_ns + TIMEOUT_NS;
    snprintf(memory.avoided[0].node, NAME_SIZE, "a");
    for (unsigned again = 0; again < 2; again++) {
        decide();
        assert_int_equal(decision.action, LEADER_NOTHING);
        assert_true(decision.wake_at_ns == view.now_ns + TIMEOUT_NS);
    }
    view.now_ns += TIMEOUT_NS;
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
}

/* Every node of the plan has lost its registration, perhaps only for a moment. */
static void an_absence_is_given_time_before_all_is_lost(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        say(i, WORKER_RUNNING, 6, 9);
    view.node_count = 0;
    uint64_t seen = view.now_ns;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_int_equal(decision.state, JOB_RECOVERING);
    view.node_count = NODES; /* they are back: no failure */
    decide();
    assert_int_equal(decision.state, JOB_RUNNING);
    view.node_count = 1; /* the last one died with its workers, and a new one came */
    plan->layout.workers[0].instance = plan->layout.workers[1].instance =
        plan->layout.workers[2].instance = 77;
    for (unsigned i = 0; i < NODES; i++)
        memcpy(plan->layout.workers[i].node, "z", 2);
    view.report_count = 0;
    view.now_ns = seen + 20 * TIMEOUT_NS;
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
    assert_int_equal(decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
}

/* A start that hangs is given up; 1.5 GB of state get more time than links alone. */
static void a_large_state_is_given_the_time_to_come(void **state)
{
    (void)state;
    spec.model.width = 1024;
    spec.model.vocab = 50000;
    plan->start.source = PLAN_SOURCE_FRESH;
    plan->start.resume_step = 0;
    for (unsigned i = 0; i < NODES; i++) {
        say(i, WORKER_PREPARED, 6, 0);
        reports[i].workers[0].held_unit_count = 0;
    }
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    uint64_t start_ns = start_time_ns(&plan->layout, &spec.model, TIMEOUT_NS);
    assert_true(start_ns > 20 * TIMEOUT_NS + 60 * NS_PER_SECOND);
    assert_int_equal(decision.wake_at_ns, view.now_ns + start_ns);
    view.now_ns += start_ns - 1;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    view.now_ns += 2 * TIMEOUT_NS;
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
}

/* b and c do not reach etcd when the leader publishes a plan that needs only them; a trains on. */
static void a_switch_that_nobody_can_hear_of_is_no_failure(void **state)
{
    (void)state;
    plan->change.planned = true;
    plan->follows = 5;
    plan->layout.replica_count = plan->layout.worker_count = 2;
    plan->layout.replica_first_lane[2] = LANES;
    plan->layout.donor_count = 1;
    memcpy(plan->layout.workers[0].node, "b", 2);
    memcpy(plan->layout.workers[1].node, "c", 2);
    memcpy(plan->layout.workers[2].node, "a", 2);
    plan->layout.workers[0].instance = 11;
    plan->layout.workers[1].instance = 12;
    plan->layout.workers[2].instance = 10;
    say(0, WORKER_RUNNING, 5, 9);
    reports[0].workers[0].held_unit_count = 1; /* so that it cannot continue without them */
    view.report_count = view.node_count = 1;
    decide();
    view.now_ns += 15 * TIMEOUT_NS;
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_int_not_equal(decision.state, JOB_RECOVERING);
    say(0, WORKER_STUCK, 5, 9); /* until it reports a failure */
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
}

/*
 * An earlier leader gave up the checkpoint of step 20, and the job has reached step 10 since: the
 * leader does not discard surviving state for an unreadable checkpoint.
 */
static void a_checkpoint_that_was_passed_is_not_gone_back_to(void **state)
{
    (void)state;
    view.checkpoint.step = 20;
    view.checkpoint.generation = 4;
    view.progress_generation = 6;
    view.progress_step = 9;
    say(0, WORKER_STUCK, 6, 9);
    say(1, WORKER_STUCK, 6, 9);
    say(2, WORKER_DEAD, 6, 0);
    decide();
    expect_published(9, 0);
}

/*
 * The same case, but the generation that saved the checkpoint is the newest that has reported:
 * these survivors are stale.
 */
static void a_newer_checkpoint_counts_more_than_those_left_behind(void **state)
{
    (void)state;
    view.checkpoint.step = 20;
    view.checkpoint.generation = 6;
    view.progress_generation = 6;
    say(0, WORKER_STUCK, 6, 9);
    say(1, WORKER_STUCK, 6, 9);
    say(2, WORKER_DEAD, 6, 0);
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
    assert_int_equal(decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_int_equal(decision.plan->start.resume_step, 20);
}

static void contradictions_go_back_to_the_checkpoint(void **state)
{
    (void)state;
    say(0, WORKER_STUCK, 6, 12);
    say(1, WORKER_STUCK, 6, 9);
    say(2, WORKER_DEAD, 6, 0);
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
    assert_int_equal(decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_non_null(strstr(decision.plan->change.text, "contradict"));
}

/* A generation number is never used twice, even if its plan was dropped. */
static void all_are_lost(void)
{
    for (unsigned i = 0; i < NODES; i++)
        say(i, WORKER_DEAD, 6, 0);
}

static void nodes_with_a_newer_checkpoint_are_given_a_while(void **state)
{
    (void)state;
    all_are_lost();
    snprintf(view.checkpoint.missing, sizeof(view.checkpoint.missing), "node x: it has a part");
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    assert_string_equal(decision.text, "waits for node x: it has a part");
    assert_int_equal(decision.wake_at_ns, view.now_ns + 8 * TIMEOUT_NS);
    view.now_ns += 8 * TIMEOUT_NS;
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
    assert_int_equal(decision.plan->start.resume_step, 4);
}

static void numbers_are_not_used_twice(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        say(i, WORKER_RUNNING, 6, 9);
    spec.elastic.devices_max = 2;
    struct plan *next = plan_copy(plan);
    assert_non_null(next);
    next->generation = 7;
    next->layout.workers[2].instance = 99; /* gone */
    view.next = next;
    decide();
    assert_int_equal(decision.action, LEADER_DROP_NEXT);
    view.next = NULL;
    decide();
    assert_non_null(decision.plan);
    assert_int_equal(decision.plan->generation, 8);
    plan_free(next);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_large_state_is_given_the_time_to_come),
        TEST(gradients_that_were_thrown_away_do_not_count),
        TEST(gradients_of_the_generation_that_broke_do_count),
        TEST(state_that_the_plan_lets_go_does_not_count),
        TEST(state_of_one_that_is_sent_away_does_not_count),
        TEST(state_of_one_that_steps_aside_counts),
        TEST(one_that_stands_aside_is_no_failure),
        TEST(one_that_waits_for_links_gives_others_time_to_hear),
        TEST(whoever_has_state_is_not_scaled_away_in_a_recovery),
        TEST(a_checkpoint_that_was_passed_is_not_gone_back_to),
        TEST(a_newer_checkpoint_counts_more_than_those_left_behind),
        TEST(a_donor_that_stayed_behind_contradicts_nobody),
        TEST(a_donor_of_the_generation_before_contradicts_nobody),
        TEST(one_that_never_came_in_contradicts_nobody),
        TEST(one_that_runs_on_is_waited_for),
        TEST(one_that_is_accused_gets_a_short_grace),
        TEST(a_late_worker_beside_one_that_spoke_is_waited_for),
        TEST(patience_grows_with_what_would_be_lost),
        TEST(a_copy_is_waited_for_as_a_replica_is),
        TEST(those_who_wait_for_links_are_waited_for_until_they_give_up),
        TEST(so_they_are_in_a_planned_switch),
        TEST(one_that_has_not_heard_of_a_planned_change_is_waited_for),
        TEST(one_that_has_not_heard_of_a_recovery_is_waited_for),
        TEST(one_that_has_not_heard_what_to_hand_over_is_waited_for),
        TEST(waiting_in_vain_is_short),
        TEST(one_that_was_left_behind_breaks_nothing),
        TEST(avoided_slots_are_looked_at_again),
        TEST(an_absence_is_given_time_before_all_is_lost),
        TEST(a_switch_that_nobody_can_hear_of_is_no_failure),
        TEST(contradictions_go_back_to_the_checkpoint),
        TEST(nodes_with_a_newer_checkpoint_are_given_a_while),
        TEST(numbers_are_not_used_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
