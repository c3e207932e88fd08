/* Tests of one node's agent, event by event. test_agent_slots.c tests slots out of service. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lib/elastic/agent_rig.h"

static void test_a_fresh_worker_is_prepared_and_then_switched(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){3}, NULL));
    assert_int_equal(rig_count(AGENT_SPAWN, 3), 1);
    assert_reported(3, WORKER_STARTING);
    rig_feed_up(3);
    assert_int_equal(rig_actions.count, 0);
    rig_feed_status(3, 7, WORKER_STARTING, 0);
    assert_int_equal(rig_count(AGENT_SEND_PREPARE, 3), 1);
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 3), 0);
    rig_feed_status(3, 7, WORKER_PREPARED, 1);
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 3), 1);
    assert_reported(3, WORKER_PREPARED);
    rig_feed_status(3, 7, WORKER_RUNNING, 1);
    assert_reported(3, WORKER_RUNNING);
    assert_int_equal(rig_entry(3)->instance, 7);
    /* The agent sends nothing more after that. */
    rig_feed_status(3, 7, WORKER_RUNNING, 1);
    assert_int_equal(rig_actions.count, 0);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){3}, NULL));
    assert_int_equal(rig_actions.count, 0);
    assert_true(rig_actions.wake_at_ns == UINT64_MAX);
    assert_false(agent_idle(rig_agent));
}

static void test_a_start_that_hangs_is_killed(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    rig_feed_tick(rig_actions.wake_at_ns);
    assert_int_equal(rig_count(AGENT_KILL, 0), 1);
    rig_feed_exit(0, -9);
    rig_feed_tick(rig_actions.wake_at_ns);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
}

static void test_a_dead_worker_is_reported_without_state_and_not_replaced(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_exit(1, -11);
    assert_reported(1, WORKER_DEAD);
    assert_int_equal(rig_entry(1)->held_unit_count, 0);
    assert_int_equal(rig_entry(1)->instance, 11);
    assert_int_equal(rig_entry(1)->generation, 1);
    assert_int_equal(rig_count(AGENT_SPAWN, 1), 0);
    rig_feed_tick(rig_now_ns + 100 * TIMEOUT_NS);
    assert_int_equal(rig_count(AGENT_SPAWN, 1), 0);
    /* The next plan may need a new worker on this slot. */
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, false, 2, (unsigned[]){0, 1}, (uint64_t[]){10, 0}));
    assert_int_equal(rig_count(AGENT_SPAWN, 1), 1);
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 0), 1);
}

static void test_one_that_died_between_plans_is_still_missed(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_exit(1, -11);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, false, 2, (unsigned[]){0, 1}, (uint64_t[]){10, 11}));
    assert_int_equal(rig_last_report.generation, 2);
    assert_reported(1, WORKER_DEAD);
    assert_int_equal(rig_count(AGENT_SPAWN, 1), 0);
}

static void test_preparing_starts_what_is_missing_and_touches_nobody_else(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_plan(AGENT_NEXT,
                  rig_make_plan(2, true, 3, (unsigned[]){0, 1, 2}, (uint64_t[]){10, 11, 0}));
    assert_int_equal(rig_count(AGENT_SPAWN, 2), 1);
    rig_feed_up(2);
    rig_feed_status(2, 12, WORKER_STARTING, 0);
    assert_int_equal(rig_count(AGENT_SEND_PREPARE, 2), 1);
    rig_feed_status(2, 12, WORKER_PREPARED, 2);
    assert_reported(2, WORKER_PREPARED);
    assert_int_equal(rig_last_report.generation, 1); /* the report is under the plan in force */
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 2), 0);
    rig_feed_plan(AGENT_PLAN,
                  rig_make_plan(2, true, 3, (unsigned[]){0, 1, 2}, (uint64_t[]){10, 11, 0}));
    for (unsigned slot = 0; slot < 3; slot++)
        assert_int_equal(rig_count(AGENT_SEND_SWITCH, slot), 1);
    assert_int_equal(rig_last_report.generation, 2);
}

/* Slots 0 and 1 run, and slot 2 is prepared for the next plan. */
static void prepare_a_third(void)
{
    rig_run_two();
    rig_feed_plan(AGENT_NEXT,
                  rig_make_plan(2, true, 3, (unsigned[]){0, 1, 2}, (uint64_t[]){10, 11, 0}));
    rig_feed_up(2);
    rig_feed_status(2, 12, WORKER_STARTING, 0);
    rig_feed_status(2, 12, WORKER_PREPARED, 2);
}

static void test_a_dropped_plan_takes_its_workers_along(void **state)
{
    (void)state;
    prepare_a_third();
    rig_feed_plan(AGENT_NEXT, NULL);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 2), 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 0), 0);
    rig_feed_exit(2, 0);
    assert_null(rig_entry(2));
}

static void test_a_plan_ends_the_preparation_that_it_overtakes_and_no_later_one(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_plan(AGENT_NEXT,
                  rig_make_plan(4, true, 3, (unsigned[]){0, 1, 2}, (uint64_t[]){10, 11, 0}));
    rig_feed_up(2);
    rig_feed_status(2, 12, WORKER_STARTING, 0);
    rig_feed_status(2, 12, WORKER_PREPARED, 4);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(3, false, 2, (unsigned[]){0, 1}, (uint64_t[]){10, 11}));
    assert_int_equal(rig_count(AGENT_SEND_STOP, 2), 0);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(4, false, 2, (unsigned[]){0, 1}, (uint64_t[]){10, 11}));
    assert_int_equal(rig_count(AGENT_SEND_STOP, 2), 1);
}

/* The agent reports a worker as left before its process has exited. */
static void test_a_leaver_makes_room_for_the_next_plan(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, true, 1, (unsigned[]){0}, (uint64_t[]){10}));
    rig_feed_status(1, 11, WORKER_LEFT, 2);
    rig_feed_plan(AGENT_NEXT, rig_make_plan(3, true, 2, (unsigned[]){0, 1}, (uint64_t[]){10, 0}));
    assert_int_equal(rig_count(AGENT_SPAWN, 1), 0);
    rig_feed_exit(1, 0);
    assert_int_equal(rig_count(AGENT_SPAWN, 1), 1);
}

static void test_one_sent_away_makes_room_for_the_next_plan(void **state)
{
    (void)state;
    prepare_a_third();
    rig_feed_plan(AGENT_NEXT, NULL);
    rig_feed_plan(AGENT_NEXT,
                  rig_make_plan(3, true, 3, (unsigned[]){0, 1, 2}, (uint64_t[]){10, 11, 0}));
    rig_feed_exit(2, 0);
    assert_int_equal(rig_count(AGENT_SPAWN, 2), 1);
}

/* The agent reports a prepared worker that died, so that the leader drops the plan. */
static void test_one_prepared_and_dead_is_not_replaced(void **state)
{
    (void)state;
    prepare_a_third();
    rig_feed_exit(2, -9);
    assert_int_equal(rig_count(AGENT_SPAWN, 2), 0);
    assert_reported(2, WORKER_DEAD);
}

/*
 * The worker has read a checkpoint for a plan that never began, and reports it when the next plan
 * calls.
 */
static void test_one_that_got_state_on_the_way_is_switched(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    rig_feed_up(0);
    rig_feed_status(0, 10, WORKER_STARTING, 0);
    rig_feed_status(0, 10, WORKER_PREPARED, 1);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, false, 1, (unsigned[]){0}, NULL));
    assert_int_equal(rig_count(AGENT_SEND_PREPARE, 0), 1);
    rig_said = (struct worker_report){
        .instance = 10, .phase = WORKER_PREPARED, .generation = 2, .held_unit_count = 4};
    rig_step((struct agent_event){.type = AGENT_WORKER_STATUS, .slot = 0, .status = &rig_said});
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 0), 1);
    rig_feed_tick(rig_now_ns + 1);
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 0), 0);
}

/*
 * Two plans have the same number: a worker prepared for the first plan is not ready for the second.
 */
static void test_prepared_means_for_this_very_plan(void **state)
{
    (void)state;
    prepare_a_third();
    struct plan *other = rig_make_plan(2, true, 3, (unsigned[]){0, 1, 2}, (uint64_t[]){10, 11, 0});
    snprintf(other->links.key, sizeof(other->links.key), "another key");
    rig_feed_plan(AGENT_NEXT, other);
    assert_int_equal(rig_count(AGENT_SEND_PREPARE, 2), 1);
}

static void test_a_planned_plan_lets_workers_leave_by_themselves(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, true, 1, (unsigned[]){0}, (uint64_t[]){10}));
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 1), 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 0);
    rig_feed_exit(1, 0);
    assert_null(rig_entry(1));
}

/* Recover from a failure of the generation before: one process of this node continues. */
static void go_on_with(uint64_t generation, enum plan_source source, unsigned slot)
{
    struct plan *plan = rig_make_plan(generation, false, 1, &slot, (uint64_t[]){10 + slot});
    plan->start.source = source;
    plan->follows = generation - 1;
    rig_feed_plan(AGENT_PLAN, plan);
}

static void test_going_back_stops_whom_it_leaves_out(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_status(1, 11, WORKER_STUCK, 1);
    go_on_with(2, PLAN_SOURCE_CHECKPOINT, 0);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1);
    rig_feed_tick(rig_now_ns + TIMEOUT_NS - 1);
    assert_int_equal(rig_count(AGENT_KILL, 1), 0);
    rig_feed_tick(rig_now_ns + 1);
    assert_int_equal(rig_count(AGENT_KILL, 1), 1);
    rig_feed_tick(rig_now_ns + TIMEOUT_NS);
    assert_int_equal(rig_actions.count, 0); /* the agent sends it once */
}

/*
 * Leave slot 1 out (a dying node may have accused it); slot 0 continues from the surviving state.
 */
static void leave_out_one(void)
{
    rig_run_two();
    go_on_with(2, PLAN_SOURCE_MEMORY, 0);
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 1), 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 0);
}

static void test_one_that_is_left_out_after_a_failure_steps_aside(void **state)
{
    (void)state;
    leave_out_one();
    rig_feed_aside(1, 11, 2);
    assert_reported(1, WORKER_STUCK);
    assert_int_equal(rig_entry(1)->held_unit_count, 4);
    rig_feed_tick(rig_now_ns + TIMEOUT_NS);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 0);
    /* Generation 2 has failed, too. Generation 3 continues from the state that this worker kept. */
    go_on_with(3, PLAN_SOURCE_MEMORY, 1);
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 1), 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 0);
}

/* Generation 2 wanted the worker and broke before the worker came to it. */
static void test_one_that_never_came_to_a_broken_generation_steps_aside(void **state)
{
    (void)state;
    rig_run_two();
    struct plan *plan = rig_make_plan(2, true, 2, (unsigned[]){0, 1}, (uint64_t[]){10, 11});
    plan->follows = 1;
    rig_feed_plan(AGENT_PLAN, plan);
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 1), 1);
    go_on_with(3, PLAN_SOURCE_MEMORY, 0);
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 1), 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 0);
    assert_int_equal(rig_entry(1)->held_unit_count, 4);
}

/* The worker may hang, and its next commit needs no rank of another node. */
static void test_the_root_of_a_generation_of_this_node_alone_is_killed_at_once(void **state)
{
    (void)state;
    for (unsigned source = 0; source < 2; source++) {
        rig_teardown(NULL);
        rig_setup(NULL);
        rig_run_two();
        go_on_with(2, source == 0 ? PLAN_SOURCE_MEMORY : PLAN_SOURCE_CHECKPOINT, 1);
        assert_int_equal(rig_count(AGENT_KILL, 0), 1);
        assert_int_equal(rig_count(AGENT_KILL, 1), 0);
        rig_feed_exit(0, -9);
        assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 0);
        rig_feed_tick(rig_now_ns + TIMEOUT_NS);
        assert_int_equal(rig_count(AGENT_KILL, 0) + rig_count(AGENT_SPAWN, 0), 0);
    }
}

/* The worker may be training in parallel to the others. */
static void test_one_that_does_not_step_aside_is_stopped(void **state)
{
    (void)state;
    leave_out_one();
    rig_feed_tick(rig_now_ns + TIMEOUT_NS - 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 0);
    rig_feed_tick(rig_now_ns + 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1);
}

static void test_one_aside_goes_after_a_while(void **state)
{
    (void)state;
    leave_out_one();
    rig_feed_aside(1, 11, 2);
    rig_feed_tick(rig_actions.wake_at_ns - 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 0);
    rig_feed_tick(rig_now_ns + 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1);
}

/*
 * A plan is prepared only while the plan in force trains: the state that this worker kept is
 * useless.
 */
static void test_one_aside_makes_room_for_a_new_worker(void **state)
{
    (void)state;
    leave_out_one();
    rig_feed_aside(1, 11, 2);
    rig_feed_plan(AGENT_NEXT, rig_make_plan(3, true, 2, (unsigned[]){0, 1}, (uint64_t[]){10, 0}));
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1);
    rig_feed_exit(1, 0);
    assert_int_equal(rig_count(AGENT_SPAWN, 1), 1);
}

static void test_one_aside_makes_room_for_another_job(void **state)
{
    (void)state;
    leave_out_one();
    rig_feed_aside(1, 11, 2);
    rig_step((struct agent_event){.type = AGENT_SLOT_WANTED, .slot = 1});
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 0), 0);
}

static void test_one_aside_goes_when_a_planned_plan_follows(void **state)
{
    (void)state;
    leave_out_one();
    rig_feed_aside(1, 11, 2);
    struct plan *plan = rig_make_plan(3, true, 1, (unsigned[]){0}, (uint64_t[]){10});
    plan->follows = 2;
    rig_feed_plan(AGENT_PLAN, plan);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1);
}

/* The worker's state may be the last replica, until an unplanned plan leaves it out. */
static void test_a_stuck_worker_outlives_a_planned_plan_without_it(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_status(1, 11, WORKER_STUCK, 1);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, true, 1, (unsigned[]){0}, (uint64_t[]){10}));
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1) + rig_count(AGENT_SEND_SWITCH, 1), 0);
    assert_reported(1, WORKER_STUCK);
    assert_int_equal(rig_entry(1)->held_unit_count, 4);
    rig_feed_tick(rig_actions.wake_at_ns);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1);
}

/* The node was cut off while generation 2 ran without it, and reads generation 3 first. */
static void test_one_that_slept_through_a_generation_is_stopped_at_once(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_status(1, 11, WORKER_STUCK, 1);
    struct plan *plan = rig_make_plan(3, true, 1, (unsigned[]){0}, (uint64_t[]){10});
    plan->follows = 2;
    rig_feed_plan(AGENT_PLAN, plan);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1);
}

/*
 * The worker trained on in a generation that was cut off as a whole: none of its boundaries belongs
 * to generation 3.
 */
static void test_one_that_ran_on_beside_a_generation_is_stopped_at_once(void **state)
{
    (void)state;
    rig_run_two();
    struct plan *plan = rig_make_plan(3, true, 1, (unsigned[]){0}, (uint64_t[]){0});
    plan->follows = 2;
    rig_feed_plan(AGENT_PLAN, plan);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 0), 1); /* its rank is for another process */
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1); /* this worker has no rank */
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 0) + rig_count(AGENT_SEND_SWITCH, 1), 0);
    rig_feed_exit(0, 0);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
}

static void test_the_end_of_the_job_ends_everybody(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_plan(AGENT_PLAN, NULL);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 0), 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1);
    rig_feed_exit(0, 0);
    rig_feed_exit(1, 0);
    assert_true(agent_idle(rig_agent));
}

static void test_an_empty_plan_reports_who_has_left(void **state)
{
    (void)state;
    rig_run_two();
    struct plan *empty = rig_make_plan(2, true, 0, NULL, NULL);
    free(empty->layout.workers);
    empty->layout.workers = calloc(2, sizeof(*empty->layout.workers));
    assert_non_null(empty->layout.workers);
    empty->layout.donor_count = 2;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(empty->layout.workers[i].node, NAME_SIZE, "a");
        empty->layout.workers[i].slot = i;
        empty->layout.workers[i].instance = 10 + i;
    }
    rig_feed_plan(AGENT_PLAN, empty);
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 0), 1);
    rig_feed_exit(0, 0);
    rig_feed_exit(1, 0);
    assert_reported(0, WORKER_LEFT);
    assert_reported(1, WORKER_LEFT);
}

static void test_a_new_daemon_picks_up_running_workers(void **state)
{
    (void)state;
    rig_feed_up(0);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(5, false, 1, (unsigned[]){0}, (uint64_t[]){10}));
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    assert_int_equal(rig_last_report.generation, 0); /* the worker has not sent its hello yet */
    rig_feed_status(0, 10, WORKER_RUNNING, 5);
    assert_reported(0, WORKER_RUNNING);
    assert_int_equal(rig_count(AGENT_SEND_SWITCH, 0), 0);
}

static void test_a_new_daemon_misses_who_was_reported_and_is_not_found(void **state)
{
    (void)state;
    static struct node_report before;
    before.generation = 5;
    before.worker_count = 1;
    before.workers[0] = (struct worker_report){
        .slot = 0, .instance = 10, .phase = WORKER_RUNNING, .generation = 5, .held_unit_count = 4};
    rig_step((struct agent_event){.type = AGENT_REPORTED, .report = &before});
    /* Any process may take the rank in this plan, but not in a generation that has begun. */
    rig_feed_plan(AGENT_PLAN, rig_make_plan(5, false, 1, (unsigned[]){0}, NULL));
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    assert_reported(0, WORKER_DEAD);
    assert_int_equal(rig_entry(0)->held_unit_count, 0);
}

/* firnd found the worker running, and it died before its hello: it may have committed steps. */
static void test_one_that_is_found_and_dies_unheard_is_missed(void **state)
{
    (void)state;
    static struct node_report before;
    before.generation = 5;
    before.worker_count = 1;
    before.workers[0] = (struct worker_report){
        .slot = 0, .instance = 10, .phase = WORKER_RUNNING, .generation = 5, .held_unit_count = 4};
    rig_step((struct agent_event){.type = AGENT_REPORTED, .report = &before});
    rig_feed_up(0);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(5, false, 1, (unsigned[]){0}, NULL));
    assert_int_equal(rig_last_report.generation,
                     0); /* no report about the worker before its hello */
    rig_feed_exit(0, -9);
    rig_feed_tick(rig_now_ns + 100 * TIMEOUT_NS);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    assert_reported(0, WORKER_DEAD);
    assert_int_equal(rig_entry(0)->generation, 5);
}

/* Each worker has its own slot. A worker that never entered a generation is simply restarted. */
static void test_whoever_was_in_a_generation_is_missed(void **state)
{
    (void)state;
    static const enum worker_phase phases[] = {WORKER_RUNNING, WORKER_STUCK,    WORKER_FINISHED,
                                               WORKER_DEAD,    WORKER_STARTING, WORKER_PREPARED};
    static struct node_report before;
    unsigned slots[ARRAY_COUNT(phases)];
    before.generation = 5;
    before.worker_count = ARRAY_COUNT(phases);
    for (unsigned i = 0; i < ARRAY_COUNT(phases); i++) {
        slots[i] = i;
        before.workers[i] = (struct worker_report){
            .slot = i, .instance = 10 + i, .phase = phases[i], .generation = 5};
    }
    rig_step((struct agent_event){.type = AGENT_REPORTED, .report = &before});
    rig_feed_plan(AGENT_PLAN, rig_make_plan(5, false, ARRAY_COUNT(phases), slots, NULL));
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(rig_count(AGENT_SPAWN, i), 0);
        assert_reported(i, WORKER_DEAD);
    }
    assert_int_equal(rig_count(AGENT_SPAWN, 4), 1);
    assert_int_equal(rig_count(AGENT_SPAWN, 5), 1);
}

static void test_a_stranger_on_the_slot_is_stopped(void **state)
{
    (void)state;
    rig_feed_up(0);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(5, false, 1, (unsigned[]){0}, (uint64_t[]){10}));
    rig_feed_status(0, 99, WORKER_STUCK, 3);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 0), 1);
    rig_feed_exit(0, 0);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
}

static void test_a_refusal_is_final_and_told(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    rig_feed_up(0);
    rig_feed_status(0, 7, WORKER_STARTING, 0);
    memset(&rig_said, 0, sizeof(rig_said));
    rig_said.instance = 7;
    rig_said.phase = WORKER_REFUSED;
    rig_said.cause = CAUSE_DIVERGED;
    snprintf(rig_said.text, sizeof(rig_said.text), "no such data");
    rig_step((struct agent_event){.type = AGENT_WORKER_STATUS, .status = &rig_said});
    assert_reported(0, WORKER_REFUSED);
    assert_string_equal(rig_entry(0)->text, "no such data");
    assert_int_equal(rig_count(AGENT_SEND_STOP, 0), 1);
    rig_feed_exit(0, 1);
    rig_feed_tick(rig_now_ns + 100 * TIMEOUT_NS);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, false, 1, (unsigned[]){0}, NULL));
    assert_reported(0, WORKER_REFUSED);
    assert_int_equal(rig_entry(0)->cause, CAUSE_DIVERGED);
}

/*
 * The plan is older than the node's upgrade: the agent starts nothing for it and reports the
 * reason.
 */
static void test_a_plan_for_another_version_starts_nothing(void **state)
{
    (void)state;
    struct plan *older = rig_make_plan(1, false, 1, (unsigned[]){0}, NULL);
    older->links.protocol = LINKS - 1;
    rig_feed_plan(AGENT_PLAN, older);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    assert_reported(0, WORKER_DEAD);
    assert_string_equal(rig_entry(0)->text, "this node starts workers of link protocol 3 now");
    struct plan *prepared = rig_make_plan(2, false, 1, (unsigned[]){1}, NULL);
    prepared->links.protocol = LINKS - 1;
    rig_feed_plan(AGENT_NEXT, prepared);
    assert_int_equal(rig_count(AGENT_SPAWN, 1), 0);
    assert_reported(1, WORKER_DEAD);
    struct plan *mine = rig_make_plan(3, false, 1, (unsigned[]){0}, NULL);
    mine->links.protocol = LINKS;
    rig_feed_plan(AGENT_PLAN, mine);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
}

/* It was starting when this node was upgraded: in a plan for the new version it would refuse. */
static void test_a_process_from_before_an_upgrade_is_replaced(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    rig_feed_up(0);
    memset(&rig_said, 0, sizeof(rig_said));
    rig_said.instance = 7;
    rig_said.phase = WORKER_STARTING;
    rig_said.links = LINKS - 1;
    rig_step((struct agent_event){.type = AGENT_WORKER_STATUS, .status = &rig_said});
    struct plan *newer = rig_make_plan(2, false, 1, (unsigned[]){0}, NULL);
    newer->links.protocol = LINKS;
    rig_feed_plan(AGENT_PLAN, newer);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 0), 1);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    rig_feed_exit(0, 0);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
}

static void test_it_rests_when_the_job_is_over_and_everybody_has_left(void **state)
{
    (void)state;
    assert_true(agent_rests(rig_agent)); /* a job that waits for slots */
    rig_run_two();
    assert_false(agent_rests(rig_agent));
    struct plan *end = rig_make_plan(2, false, 2, (unsigned[]){0, 1}, NULL);
    end->layout.donor_count = end->layout.worker_count;
    end->layout.worker_count = end->layout.stage_count = end->layout.replica_count = 0;
    rig_feed_plan(AGENT_PLAN, end);
    assert_false(agent_rests(rig_agent));
    rig_feed_exit(0, 0);
    assert_false(agent_rests(rig_agent));
    rig_feed_exit(1, 0);
    assert_true(agent_rests(rig_agent));
    rig_feed_plan(AGENT_NEXT, rig_make_plan(3, false, 1, (unsigned[]){1}, NULL));
    assert_false(agent_rests(rig_agent));
}

/*
 * The agent starts only fresh workers: a worker with state to keep or to send is present, or
 * reported missing.
 */
static void test_nothing_is_started_in_place_of_a_process_that_is_meant(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){3}, (uint64_t[]){99}));
    assert_int_equal(rig_count(AGENT_SPAWN, 3), 0);
    rig_feed_plan(AGENT_NEXT, rig_make_plan(2, true, 1, (unsigned[]){2}, (uint64_t[]){99}));
    assert_int_equal(rig_count(AGENT_SPAWN, 2), 0);
    struct plan *donates = rig_make_plan(2, true, 2, (unsigned[]){4, 5}, NULL);
    donates->layout.worker_count = donates->layout.replica_count = 1;
    donates->layout.donor_count = 1;
    rig_feed_plan(AGENT_NEXT, donates);
    assert_int_equal(rig_count(AGENT_SPAWN, 4), 1);
    assert_int_equal(rig_count(AGENT_SPAWN, 5), 0);
}

/* Another version wrote the plan, or the plan is damaged. */
static void test_slots_that_no_node_has_are_passed_over(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 3,
                                            (unsigned[]){0, REPORT_WORKERS_MAX, UINT32_MAX}, NULL));
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
    assert_int_equal(rig_last_report.worker_count, 1);
}

/* Both workers have exited after a long run, without a failure. */
static void test_it_does_not_rest_while_a_plan_wants_a_slot(void **state)
{
    (void)state;
    rig_run_two();
    rig_now_ns += 1000 * TIMEOUT_NS;
    rig_feed_exit(0, -9);
    rig_feed_exit(1, -9);
    assert_true(agent_idle(rig_agent));
    assert_false(agent_rests(rig_agent));
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, false, 0, NULL, NULL));
    assert_true(agent_rests(rig_agent));
    rig_feed_plan(AGENT_NEXT, rig_make_plan(3, true, 1, (unsigned[]){2}, (uint64_t[]){99}));
    assert_true(agent_idle(rig_agent));
    assert_false(agent_rests(rig_agent));
    rig_feed_plan(AGENT_NEXT, NULL);
    assert_true(agent_rests(rig_agent));
}

/*
 * The worker's state may be the last replica; but a repeated status does not keep the worker
 * longer.
 */
static void test_one_that_is_stuck_and_left_out_is_kept_for_a_while(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, true, 1, (unsigned[]){0}, (uint64_t[]){10}));
    rig_now_ns += TIMEOUT_NS;
    rig_feed_status(1, 11, WORKER_STUCK, 1);
    uint64_t due_ns = rig_actions.wake_at_ns;
    assert_true(due_ns == rig_now_ns + 20 * TIMEOUT_NS);
    rig_now_ns += TIMEOUT_NS;
    rig_feed_status(1, 11, WORKER_STUCK, 1);
    rig_feed_tick(due_ns - 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 0);
    rig_feed_tick(due_ns);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 1), 1);
}

static void test_old_news_is_ignored(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_plan(AGENT_PLAN, rig_make_plan(3, false, 2, (unsigned[]){0, 1}, (uint64_t[]){10, 11}));
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, false, 0, NULL, NULL));
    assert_int_equal(rig_actions.count, 0);
    rig_feed_plan(AGENT_NEXT, rig_make_plan(3, true, 1, (unsigned[]){5}, NULL));
    assert_int_equal(rig_actions.count, 0);
    rig_feed_status(9, 1, WORKER_RUNNING, 1); /* no process is there */
    assert_int_equal(rig_actions.count, 0);
    rig_feed_exit(9, 0);
    assert_int_equal(rig_actions.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_fresh_worker_is_prepared_and_then_switched),
        TEST(test_a_start_that_hangs_is_killed),
        TEST(test_a_dead_worker_is_reported_without_state_and_not_replaced),
        TEST(test_one_that_died_between_plans_is_still_missed),
        TEST(test_preparing_starts_what_is_missing_and_touches_nobody_else),
        TEST(test_a_dropped_plan_takes_its_workers_along),
        TEST(test_a_plan_ends_the_preparation_that_it_overtakes_and_no_later_one),
        TEST(test_a_leaver_makes_room_for_the_next_plan),
        TEST(test_one_sent_away_makes_room_for_the_next_plan),
        TEST(test_one_prepared_and_dead_is_not_replaced),
        TEST(test_one_that_got_state_on_the_way_is_switched),
        TEST(test_prepared_means_for_this_very_plan),
        TEST(test_a_planned_plan_lets_workers_leave_by_themselves),
        TEST(test_going_back_stops_whom_it_leaves_out),
        TEST(test_one_that_is_left_out_after_a_failure_steps_aside),
        TEST(test_one_that_never_came_to_a_broken_generation_steps_aside),
        TEST(test_the_root_of_a_generation_of_this_node_alone_is_killed_at_once),
        TEST(test_one_that_does_not_step_aside_is_stopped),
        TEST(test_one_aside_goes_after_a_while),
        TEST(test_one_aside_makes_room_for_a_new_worker),
        TEST(test_one_aside_makes_room_for_another_job),
        TEST(test_one_aside_goes_when_a_planned_plan_follows),
        TEST(test_a_stuck_worker_outlives_a_planned_plan_without_it),
        TEST(test_one_that_slept_through_a_generation_is_stopped_at_once),
        TEST(test_one_that_ran_on_beside_a_generation_is_stopped_at_once),
        TEST(test_the_end_of_the_job_ends_everybody),
        TEST(test_an_empty_plan_reports_who_has_left),
        TEST(test_a_new_daemon_picks_up_running_workers),
        TEST(test_a_new_daemon_misses_who_was_reported_and_is_not_found),
        TEST(test_one_that_is_found_and_dies_unheard_is_missed),
        TEST(test_whoever_was_in_a_generation_is_missed),
        TEST(test_a_stranger_on_the_slot_is_stopped),
        TEST(test_a_refusal_is_final_and_told),
        TEST(test_a_plan_for_another_version_starts_nothing),
        TEST(test_a_process_from_before_an_upgrade_is_replaced),
        TEST(test_it_rests_when_the_job_is_over_and_everybody_has_left),
        TEST(test_nothing_is_started_in_place_of_a_process_that_is_meant),
        TEST(test_slots_that_no_node_has_are_passed_over),
        TEST(test_it_does_not_rest_while_a_plan_wants_a_slot),
        TEST(test_one_that_is_stuck_and_left_out_is_kept_for_a_while),
        TEST(test_old_news_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
