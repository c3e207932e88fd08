/*
 * Tests of slots out of service: when the agent takes a slot out, how it reports it, and its
 * return.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/timeouts.h"
#include "lib/elastic/agent_rig.h"

static void test_deaths_at_start_back_off_and_end_the_slot(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    for (unsigned death = 1; death < AGENT_STARTS_MAX; death++) {
        rig_feed_exit(0, 1);
        assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
        assert_reported(0, WORKER_STARTING);
        assert_true(rig_actions.wake_at_ns == rig_now_ns + (TIMEOUT_NS / 4 << (death - 1)));
        rig_feed_tick(rig_actions.wake_at_ns - 1);
        assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
        rig_feed_tick(rig_now_ns + 1);
        assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
    }
    rig_feed_exit(0, 1);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 1);
    assert_reported(0, WORKER_BAD);
    assert_non_null(strstr(rig_entry(0)->text, "the last words"));
    rig_feed_tick(rig_now_ns + 1000 * TIMEOUT_NS);
    assert_int_equal(rig_actions.count, 0);
}

/* Run a worker that the plan of @generation wants, until it dies after @runs_ns in RUNNING. */
static void live(unsigned generation, uint64_t runs_ns)
{
    rig_feed_plan(AGENT_PLAN, rig_make_plan(generation, false, 1, (unsigned[]){0}, NULL));
    if (rig_count(AGENT_SPAWN, 0) == 0)
        rig_feed_tick(rig_actions.wake_at_ns);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
    rig_feed_up(0);
    rig_feed_status(0, 100 + generation, WORKER_STARTING, 0);
    rig_feed_status(0, 100 + generation, WORKER_PREPARED, generation);
    rig_feed_status(0, 100 + generation, WORKER_RUNNING, generation);
    rig_now_ns += runs_ns;
    rig_feed_exit(0, -11);
}

static void test_crashes_soon_after_joining_back_off_and_end_the_slot(void **state)
{
    (void)state;
    for (unsigned life = 1; life < AGENT_CRASHES_MAX; life++) {
        uint64_t begun_ns = rig_now_ns;
        live(life, TIMEOUT_NS);
        /* The agent replaces the first worker at once; each later pause is twice the one before. */
        uint64_t pause_ns = life > 2 ? TIMEOUT_NS / 4 << (life - 3) : 0;
        assert_true(rig_now_ns == begun_ns + pause_ns + TIMEOUT_NS);
        assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 0);
        assert_reported(0, WORKER_DEAD);
    }
    live(AGENT_CRASHES_MAX, TIMEOUT_NS);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 1);
    assert_reported(0, WORKER_BAD);
    assert_non_null(strstr(rig_entry(0)->text, "soon after it had joined: the last words"));
    rig_feed_plan(AGENT_PLAN,
                  rig_make_plan(AGENT_CRASHES_MAX + 1, false, 1, (unsigned[]){0}, NULL));
    rig_feed_tick(rig_now_ns + 1000 * TIMEOUT_NS);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    /* The slot stays out until an operator excuses it. */
    rig_step((struct agent_event){.type = AGENT_SLOT_MENDED});
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
}

/* The first death after the pause counts if it comes soon or at start; a later death does not. */
static void test_on_probation_one_death_is_enough(void **state)
{
    (void)state;
    rig_on_probation = true;
    live(1, TIMEOUTS_WORKER_JOINED * TIMEOUT_NS);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 0);
    live(2, TIMEOUT_NS);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 1);
    assert_reported(0, WORKER_BAD);
    assert_string_equal(rig_entry(0)->text, "died again soon after it had joined: the last words");
    rig_step((struct agent_event){.type = AGENT_SLOT_MENDED});
    rig_feed_plan(AGENT_PLAN, rig_make_plan(3, false, 1, (unsigned[]){0}, NULL));
    rig_feed_exit(0, 1);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 1);
    assert_string_equal(rig_entry(0)->text, "died again at start: the last words");
}

static void test_only_deaths_are_said_to_pass(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    for (unsigned death = 1; death <= AGENT_STARTS_MAX; death++) {
        if (death > 1)
            rig_feed_tick(rig_actions.wake_at_ns);
        rig_feed_exit(0, 1);
    }
    assert_true(rig_find(AGENT_SLOT_BAD)->crashed);
    assert_int_equal(rig_entry(0)->cause, CAUSE_CRASHED);
    rig_step((struct agent_event){.type = AGENT_SLOT_MENDED});
    rig_feed_up(0);
    rig_feed_status(0, 7, WORKER_BAD, 1);
    assert_false(rig_find(AGENT_SLOT_BAD)->crashed);
    assert_reported(0, WORKER_BAD);
    assert_int_equal(rig_entry(0)->cause, CAUSE_NONE);
}

static void test_a_worker_that_ran_for_long_is_forgiven(void **state)
{
    (void)state;
    for (unsigned life = 1; life <= 3 * AGENT_CRASHES_MAX; life++) {
        live(life, TIMEOUTS_WORKER_JOINED * TIMEOUT_NS);
        assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 0);
    }
}

/*
 * An earlier firnd received the accusation, and the process has exited: the slot is still bad. A
 * worker that never trained may recover by a restart.
 */
static void test_a_new_daemon_knows_who_accused_itself(void **state)
{
    (void)state;
    static struct node_report before;
    before.generation = 5;
    before.worker_count = 3;
    before.workers[0] = (struct worker_report){
        .slot = 0, .instance = 10, .phase = WORKER_BAD, .generation = 4, .text = "wrong"};
    before.workers[1] =
        (struct worker_report){.slot = 1, .phase = WORKER_BAD, .text = "restart firnd"};
    before.workers[2] = (struct worker_report){
        .slot = 2, .instance = 12, .phase = WORKER_BAD, .generation = 4, .cause = CAUSE_CRASHED};
    rig_step((struct agent_event){.type = AGENT_REPORTED, .report = &before});
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 1);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 1), 0);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 2), 0);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(5, false, 3, (unsigned[]){0, 1, 2}, NULL));
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    assert_int_equal(rig_count(AGENT_SPAWN, 1), 1);
    assert_int_equal(rig_count(AGENT_SPAWN, 2), 0); /* no process enters generation 5 twice */
    assert_reported(2, WORKER_DEAD);
    assert_reported(0, WORKER_BAD);
    assert_string_equal(rig_entry(0)->text, "wrong");
    assert_int_equal(rig_entry(0)->generation, 4); /* for the generation after this */
}

/* The operator may have excused the slot while no firnd was running. */
static void test_an_operator_has_excused_since_who_accused_itself(void **state)
{
    (void)state;
    static struct node_report before;
    before.generation = 4;
    before.worker_count = 1;
    before.workers[0] = (struct worker_report){
        .slot = 0, .instance = 10, .phase = WORKER_BAD, .generation = 4, .text = "wrong"};
    rig_step((struct agent_event){.type = AGENT_REPORTED, .report = &before, .excused = true});
    assert_int_equal(rig_actions.count, 0);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(5, false, 1, (unsigned[]){0}, NULL));
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
}

/* Without the withdrawal the leader would use the old report as long as the plan is in force. */
static void test_what_a_daemon_before_said_is_taken_back(void **state)
{
    (void)state;
    static struct node_report before;
    before.generation = 5;
    before.worker_count = 1;
    before.workers[0] =
        (struct worker_report){.slot = 0, .phase = WORKER_BAD, .cause = CAUSE_CRASHED};
    rig_step((struct agent_event){.type = AGENT_REPORTED, .report = &before});
    struct plan *elsewhere = rig_make_plan(5, false, 1, (unsigned[]){0}, NULL);
    snprintf(elsewhere->layout.workers[0].node, NAME_SIZE, "b");
    rig_feed_plan(AGENT_PLAN, elsewhere);
    assert_int_equal(rig_count(AGENT_REPORT, 0), 1);
    assert_int_equal(rig_last_report.generation, 5);
    assert_int_equal(rig_last_report.worker_count, 0);
    rig_feed_tick(rig_now_ns);
    assert_int_equal(rig_count(AGENT_REPORT, 0), 0);
}

static void test_a_worker_takes_its_slot_out_of_service(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    rig_feed_up(0);
    rig_feed_status(0, 7, WORKER_RUNNING, 1);
    memset(&rig_said, 0, sizeof(rig_said));
    rig_said.instance = 7;
    rig_said.phase = WORKER_BAD;
    rig_said.generation = 1;
    rig_said.held_unit_count = 4;
    snprintf(rig_said.text, sizeof(rig_said.text), "other gradients");
    rig_step((struct agent_event){.type = AGENT_WORKER_STATUS, .status = &rig_said});
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 1);
    assert_int_equal(rig_count(AGENT_SEND_STOP, 0), 1);
    assert_reported(0, WORKER_BAD);
    assert_string_equal(rig_entry(0)->text, "other gradients");
    assert_int_equal(rig_entry(0)->held_unit_count, 0); /* no worker may take it */
    rig_step(
        (struct agent_event){.type = AGENT_WORKER_STATUS, .status = &rig_said}); /* once more */
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 0);
    rig_feed_exit(0, 0);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, false, 1, (unsigned[]){0}, NULL));
    rig_feed_tick(rig_now_ns + 100 * TIMEOUT_NS);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    rig_step((struct agent_event){.type = AGENT_SLOT_MENDED});
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
}

/*
 * A worker that accused itself was in generation 1, so no other process may enter that generation:
 * the plan has failed, and the leader makes another plan from the newest state.
 */
static void test_a_mended_slot_waits_for_another_plan(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_status(0, 10, WORKER_BAD, 1);
    rig_feed_exit(0, 0);
    rig_step((struct agent_event){.type = AGENT_SLOT_MENDED});
    rig_feed_tick(rig_now_ns + 100 * TIMEOUT_NS);
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    assert_reported(0, WORKER_LEFT);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, false, 2, (unsigned[]){0, 1}, NULL));
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
}

static void test_it_does_not_rest_while_it_knows_ill_of_a_slot(void **state)
{
    (void)state;
    rig_run_two();
    rig_feed_exit(0, 1); /* soon after the worker had joined */
    struct plan *elsewhere = rig_make_plan(2, false, 1, (unsigned[]){0}, NULL);
    snprintf(elsewhere->layout.workers[0].node, NAME_SIZE, "b");
    rig_feed_plan(AGENT_PLAN, elsewhere);
    rig_feed_status(1, 11, WORKER_BAD, 2);
    rig_feed_exit(1, 0);
    assert_false(agent_rests(rig_agent));
    rig_feed_plan(AGENT_PLAN, rig_make_plan(3, false, 0, NULL, NULL));
    assert_false(agent_rests(rig_agent)); /* slot 1 is still wanted, for every later plan */
    rig_step((struct agent_event){.type = AGENT_SLOT_MENDED, .slot = 0});
    rig_step((struct agent_event){.type = AGENT_SLOT_MENDED, .slot = 1});
    assert_true(agent_rests(rig_agent));
}

/*
 * A death after the hello but before PREPARED is a death at start. PREPARED resets the count: the
 * worker has shown that it can start.
 */
static void test_only_deaths_before_it_was_prepared_are_deaths_at_start(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    for (unsigned death = 1; death < AGENT_STARTS_MAX; death++) {
        rig_feed_up(0);
        rig_feed_status(0, death, WORKER_STARTING, 0);
        rig_feed_exit(0, 1);
        rig_feed_tick(rig_actions.wake_at_ns);
    }
    rig_feed_up(0);
    rig_feed_status(0, AGENT_STARTS_MAX, WORKER_STARTING, 0);
    rig_feed_status(0, AGENT_STARTS_MAX, WORKER_PREPARED, 1);
    rig_feed_exit(0, 1);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, false, 1, (unsigned[]){0}, NULL));
    rig_feed_up(0);
    rig_feed_status(0, 99, WORKER_STARTING, 0);
    rig_feed_exit(0, 1);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 0);
    for (unsigned death = 2; death <= AGENT_STARTS_MAX; death++) {
        rig_feed_tick(rig_actions.wake_at_ns);
        rig_feed_up(0);
        rig_feed_status(0, 100 + death, WORKER_STARTING, 0);
        rig_feed_exit(0, 1);
    }
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 1);
}

/* The worker waits for a plan to come into force without a limit. */
static void test_one_that_never_joined_did_not_run_for_long(void **state)
{
    (void)state;
    rig_on_probation = true;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    rig_feed_up(0);
    rig_feed_status(0, 7, WORKER_STARTING, 0);
    rig_feed_status(0, 7, WORKER_PREPARED, 1);
    rig_now_ns += 10 * TIMEOUTS_WORKER_JOINED * TIMEOUT_NS;
    rig_feed_exit(0, -11);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 1);
}

/* A repeated RUNNING does not begin the run again. */
static void test_a_good_life_begins_when_it_joins(void **state)
{
    (void)state;
    rig_on_probation = true;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    rig_feed_up(0);
    rig_feed_status(0, 7, WORKER_STARTING, 0);
    rig_feed_status(0, 7, WORKER_PREPARED, 1);
    rig_feed_status(0, 7, WORKER_RUNNING, 1);
    rig_now_ns += TIMEOUTS_WORKER_JOINED * TIMEOUT_NS;
    rig_feed_status(0, 7, WORKER_RUNNING, 1);
    rig_feed_exit(0, -11);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 0);
}

static void test_a_mended_slot_has_all_its_lives_again(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    for (unsigned death = 1; death < AGENT_STARTS_MAX; death++) {
        if (death > 1)
            rig_feed_tick(rig_actions.wake_at_ns);
        rig_feed_exit(0, 1);
    }
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0); /* the agent waits for the pause */
    rig_step((struct agent_event){.type = AGENT_SLOT_MENDED});
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
    rig_feed_exit(0, 1);
    assert_int_equal(rig_count(AGENT_SLOT_BAD, 0), 0);
    assert_true(rig_actions.wake_at_ns == rig_now_ns + TIMEOUT_NS / 4); /* the first pause */
}

static void test_a_slot_that_refused_is_asked_again_when_an_operator_says_so(void **state)
{
    (void)state;
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 1, (unsigned[]){0}, NULL));
    rig_feed_up(0);
    rig_feed_status(0, 10, WORKER_REFUSED, 0);
    rig_feed_exit(0, 1);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(2, false, 1, (unsigned[]){0}, NULL));
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 0);
    assert_reported(0, WORKER_REFUSED);
    rig_step((struct agent_event){.type = AGENT_SLOT_MENDED, .slot = 0});
    assert_int_equal(rig_count(AGENT_SPAWN, 0), 1);
    assert_reported(0, WORKER_STARTING);
}

static void test_what_a_daemon_before_said_is_not_said_again(void **state)
{
    (void)state;
    static struct node_report before;
    snprintf(before.node, sizeof(before.node), "a");
    before.generation = 5;
    before.worker_count = 1;
    before.workers[0] =
        (struct worker_report){.slot = 0, .instance = 10, .phase = WORKER_DEAD, .generation = 5};
    rig_step((struct agent_event){.type = AGENT_REPORTED, .report = &before});
    rig_feed_plan(AGENT_PLAN, rig_make_plan(5, false, 1, (unsigned[]){0}, (uint64_t[]){10}));
    assert_int_equal(rig_count(AGENT_REPORT, 0), 0);
    rig_feed_plan(AGENT_PLAN, rig_make_plan(6, false, 1, (unsigned[]){0}, (uint64_t[]){10}));
    assert_int_equal(rig_count(AGENT_REPORT, 0), 1);
}

/* The leader does not count processes of another firnd that this firnd may not have found. */
static void test_a_process_without_state_is_said_again_by_who_finds_it(void **state)
{
    (void)state;
    static struct node_report before;
    for (unsigned own = 0; own < 2; own++) {
        rig_teardown(state);
        assert_int_equal(rig_setup(state), 0);
        snprintf(before.node, sizeof(before.node), "a");
        before.generation = 5;
        before.incarnation = INCARNATION - 1 + own;
        before.worker_count = 1;
        before.workers[0] =
            (struct worker_report){.slot = 0, .instance = 10, .phase = WORKER_STARTING};
        rig_step((struct agent_event){.type = AGENT_REPORTED, .report = &before});
        rig_feed_up(0);
        rig_feed_plan(AGENT_PLAN, rig_make_plan(5, false, 1, (unsigned[]){0}, NULL));
        rig_feed_status(0, 10, WORKER_STARTING, 0);
        assert_int_equal(rig_last_report.incarnation, own ? 0 : INCARNATION); /* 0: none */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_deaths_at_start_back_off_and_end_the_slot),
        TEST(test_crashes_soon_after_joining_back_off_and_end_the_slot),
        TEST(test_on_probation_one_death_is_enough),
        TEST(test_only_deaths_are_said_to_pass),
        TEST(test_a_worker_that_ran_for_long_is_forgiven),
        TEST(test_a_new_daemon_knows_who_accused_itself),
        TEST(test_an_operator_has_excused_since_who_accused_itself),
        TEST(test_what_a_daemon_before_said_is_taken_back),
        TEST(test_a_worker_takes_its_slot_out_of_service),
        TEST(test_a_mended_slot_waits_for_another_plan),
        TEST(test_it_does_not_rest_while_it_knows_ill_of_a_slot),
        TEST(test_only_deaths_before_it_was_prepared_are_deaths_at_start),
        TEST(test_one_that_never_joined_did_not_run_for_long),
        TEST(test_a_good_life_begins_when_it_joins),
        TEST(test_a_mended_slot_has_all_its_lives_again),
        TEST(test_a_slot_that_refused_is_asked_again_when_an_operator_says_so),
        TEST(test_what_a_daemon_before_said_is_not_said_again),
        TEST(test_a_process_without_state_is_said_again_by_who_finds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
