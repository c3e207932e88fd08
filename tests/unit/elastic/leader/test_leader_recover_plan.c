/*
 * Tests of the plan after a failure and its message: slots, processes, frozen layers, histories of
 * metrics, and the reason. One stage and three replicas on nodes a, b and c, generation 6 in force;
 * test_leader_recover.c tests which state counts.
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

/* Break the links: all remaining workers hold step 10, or none of them has computed it. */
static void break_links(bool holds)
{
    for (unsigned i = 0; i < NODES; i++) {
        three_say(i, WORKER_STUCK, 6, 9);
        if (holds)
            three_hold(i, 0, LANES);
    }
}

static void lose(unsigned node)
{
    three_say(node, WORKER_DEAD, 6, 0);
    three_reports[node].workers[0].holds = false;
}

static void expect_words(const char *words)
{
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_string_equal(three_decision.plan->change.text, words);
    assert_string_equal(three_decision.text, words);
    assert_int_equal(three_decision.state, JOB_RECOVERING);
}

/* Give node c @count of the six slots and a lane for each, as a and b have. */
static void widen(unsigned count)
{
    unsigned total = 2 + count;
    three_plan->layout.workers =
        realloc(three_plan->layout.workers, total * sizeof(*three_plan->layout.workers));
    three_plan->layout.replica_first_lane =
        realloc(three_plan->layout.replica_first_lane, (total + 1) * sizeof(unsigned));
    assert_true(three_plan->layout.workers && three_plan->layout.replica_first_lane);
    three_plan->layout.replica_count = three_plan->layout.worker_count = total;
    three_nodes[2].slot_count = three_reports[2].worker_count = count;
    for (unsigned i = 0; i <= total; i++)
        three_plan->layout.replica_first_lane[i] = i * LANES / total;
    for (unsigned slot = 0; slot < count; slot++) {
        three_nodes[2].slots[slot] = (struct member_slot){.index = slot, .speed = 1};
        three_plan->layout.workers[2 + slot] = three_plan->layout.workers[2];
        three_plan->layout.workers[2 + slot].slot = slot;
        three_plan->layout.workers[2 + slot].instance = 12 + slot;
        three_reports[2].workers[slot] = three_reports[2].workers[0];
        three_reports[2].workers[slot].slot = slot;
        three_reports[2].workers[slot].instance = 12 + slot;
    }
}

static void test_words_name_who_is_lost_and_what_becomes_of_the_step(void **state)
{
    (void)state;
    break_links(true);
    expect_words("links broke: 3 slots -> 3, step 10 stands");
    lose(2);
    expect_words("lost c/0: 3 slots -> 2, step 10 stands");
    lose(1);
    expect_words("lost b/0, c/0: 3 slots -> 1, step 10 stands");
    break_links(false);
    three_reports[0].workers[0].holds = three_reports[1].workers[0].holds = false;
    lose(2);
    expect_words("lost c/0: 3 slots -> 2, step 10 is replayed");
}

static void test_words_name_three_and_count_the_rest(void **state)
{
    (void)state;
    break_links(false);
    lose(2);
    widen(3);
    expect_words("lost c/0, c/1, c/2: 5 slots -> 2, step 10 is replayed");
    widen(4);
    expect_words("lost c/0, c/1, c/2 and 1 more: 6 slots -> 2, step 10 is replayed");
}

/* The node is gone, and its report with it. */
static void test_words_name_whose_node_is_gone(void **state)
{
    (void)state;
    break_links(false);
    three_view.node_count = 2;
    expect_words("lost c/0: 3 slots -> 2, step 10 is replayed");
}

/* Nothing but the final evaluation is computed again. */
static void test_words_name_the_last_step(void **state)
{
    (void)state;
    three_spec.train.steps = 9;
    break_links(false);
    expect_words("links broke: 3 slots -> 3, step 9, the last one, stands");
}

/* c is still starting, and is not lost while its node is registered. */
static void test_words_do_not_name_who_is_on_the_way(void **state)
{
    (void)state;
    break_links(false);
    three_say(2, WORKER_STARTING, 6, 0);
    three_reports[2].workers[0].held_unit_count = 0;
    expect_words("links broke: 3 slots -> 2, step 10 is replayed");
    three_view.node_count = 2;
    expect_words("lost c/0: 3 slots -> 2, step 10 is replayed");
}

/*
 * The message leaves out workers without a part in the step: c handed over and left, and a/1 has no
 * rank.
 */
static void test_words_name_ranks_that_had_not_left(void **state)
{
    (void)state;
    three_plan->layout.worker_count = three_plan->layout.replica_count = 2;
    three_plan->layout.donor_count = 1;
    break_links(false);
    three_say(2, WORKER_LEFT, 6, 0);
    three_reports[0].worker_count = 2;
    three_reports[0].workers[1] =
        (struct worker_report){.slot = 1, .phase = WORKER_DEAD, .generation = 6, .instance = 99};
    expect_words("links broke: 2 slots -> 2, step 10 is replayed");
    lose(1);
    expect_words("lost b/0: 2 slots -> 1, step 10 is replayed");
}

/* A pause broke: every worker was to leave, so the plan in force has only donors. */
static void test_words_count_those_who_were_leaving(void **state)
{
    (void)state;
    three_plan->change.planned = true;
    three_plan->follows = 5;
    three_plan->layout.worker_count = three_plan->layout.replica_count = 0;
    three_plan->layout.donor_count = NODES;
    for (unsigned i = 0; i < NODES; i++)
        three_say(i, WORKER_STUCK, 5, 9);
    lose(2);
    expect_words("lost c/0: 3 slots -> 2, step 10 is replayed");
}

/* The slot of c is free, and would be the third slot; starting a process there costs seconds. */
static void test_the_living_are_enough_where_they_are_as_many_as_the_job_wants_at_least(
    void **state)
{
    (void)state;
    three_spec.elastic.devices_min = 2;
    break_links(false);
    lose(2);
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
}

static void test_free_slots_are_taken_where_the_living_are_too_few(void **state)
{
    (void)state;
    three_spec.elastic.devices_min = 3;
    break_links(false);
    lose(2);
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->layout.worker_count, 3);
    int rank = plan_layout_find(&three_decision.plan->layout, "c", 0);
    assert_true(rank >= 0);
    assert_int_equal(three_decision.plan->layout.workers[rank].instance, 0); /* a new process */
    three_nodes[2].draining = true;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.state, JOB_RECOVERING);
    assert_string_equal(three_decision.text,
                        "waits for slots: wants at least 3, 2 are free (node c is draining)");
}

/* Neither the living workers nor all slots together have memory for a layout. */
static void test_where_no_layout_fits_it_says_why(void **state)
{
    (void)state;
    break_links(false);
    lose(2);
    for (unsigned i = 0; i < NODES; i++)
        three_nodes[i].slots[0].memory_bytes = 4096;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    assert_int_equal(three_decision.state, JOB_RECOVERING);
    assert_non_null(strstr(three_decision.text, "waits for slots: no layout fits: "));
}

static void say_units(unsigned node, unsigned first)
{
    three_reports[node].workers[0].held_first_unit = first;
    three_reports[node].workers[0].held_unit_count = job_model_unit_count(&three_spec.model) / 2;
}

/* Two stages on two nodes: each node gets the half that it has, and no unit moves. */
static void test_whoever_has_units_keeps_them(void **state)
{
    (void)state;
    three_view.wish.stages = 2;
    three_view.wish.replicas = 1;
    for (unsigned first = 0; first < 2; first++) {
        break_links(false);
        lose(2);
        say_units(first, 0);
        say_units(1 - first, job_model_unit_count(&three_spec.model) / 2);
        three_decide();
        three_expect_published(9, 0);
        assert_string_equal(three_decision.plan->layout.workers[0].node, three_nodes[first].name);
        assert_string_equal(three_decision.plan->layout.workers[1].node,
                            three_nodes[1 - first].name);
    }
}

/* b was left behind at a step from which no rank continues: any process can take its rank. */
static void test_a_process_with_worthless_state_may_be_another_one(void **state)
{
    (void)state;
    three_spec.elastic.devices_min = 2;
    break_links(false);
    three_say(1, WORKER_STUCK, 5, 7);
    lose(2);
    three_decide();
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(
        three_decision.plan->layout.workers[plan_layout_find(&three_decision.plan->layout, "a", 0)]
            .instance,
        10);
    int rank = plan_layout_find(&three_decision.plan->layout, "b", 0);
    assert_true(rank < 0 || three_decision.plan->layout.workers[rank].instance == 0);
}

/* Frozen layers are part of the state; the reported number only serves to estimate costs. */
static void test_layers_that_were_frozen_stay_so(void **state)
{
    (void)state;
    break_links(false);
    lose(2);
    three_reports[0].workers[0].frozen_layers = 1;
    three_decide();
    assert_int_equal(three_decision.plan->layout.frozen_layers, 1);
    three_reports[0].workers[0].frozen_layers = 0;
    three_reports[1].workers[0].frozen_layers = 1;
    three_decide();
    assert_int_equal(three_decision.plan->layout.frozen_layers, 1);
}

/* Of the newest step: layers may have thawed since the others. */
static void test_layers_that_thawed_are_trained(void **state)
{
    (void)state;
    break_links(false);
    lose(2);
    three_view.progress.frozen_layers = 2;
    three_view.progress.step = three_reports[0].workers[0].applied_step - 1;
    three_decide();
    assert_int_equal(three_decision.plan->layout.frozen_layers, 0);
}

/* The process on c is dead, but its metrics file stays, unless it never came to this generation. */
static void test_a_node_keeps_the_history_of_its_dead_worker(void **state)
{
    (void)state;
    three_spec.elastic.devices_min = 3;
    break_links(false);
    lose(2);
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->start.history_count, 0);
    three_say(2, WORKER_DEAD, 5, 0);
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->start.history_count, 1);
    assert_int_equal(three_decision.plan->start.histories[0].to_rank,
                     plan_layout_find(&three_decision.plan->layout, "c", 0));
}

/* ---- avoided slots ---- */

static void expect_avoided(const char *node)
{
    assert_string_equal(three_memory.avoided.slots[0].node, node);
    assert_int_equal(three_memory.avoided.slots[0].until_ns,
                     node[0] != '\0' ? three_view.now_ns + 2 * TIMEOUT_NS : 0);
    assert_int_equal(three_memory.avoided.slots[1].timeouts, 0);
}

static void test_whoever_was_heard_of_is_not_avoided(void **state)
{
    (void)state;
    break_links(false);
    lose(2);
    three_decide();
    three_expect_published(9, 0);
    expect_avoided("");
}

static void test_whoever_does_not_answer_is_avoided(void **state)
{
    (void)state;
    break_links(false);
    three_say(2, WORKER_RUNNING, 6, 9);
    three_decide();
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    three_expect_published(9, 0);
    expect_avoided("c");
}

/* The worker has state to send, and reports nothing new because nothing has changed. */
static void test_whoever_has_state_is_not_avoided(void **state)
{
    (void)state;
    break_links(false);
    three_say(2, WORKER_STUCK, 5, 9);
    three_decide();
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    three_expect_published(9, 0);
    assert_true(plan_layout_find(&three_decision.plan->layout, "c", 0) >= 0);
    expect_avoided("");
}

/* c is still starting when the deadline of generation 6 passes. */
static void test_whoever_never_comes_up_is_avoided(void **state)
{
    (void)state;
    break_links(false);
    three_say(0, WORKER_STUCK, 5, 9);
    three_say(1, WORKER_STUCK, 5, 9);
    three_say(2, WORKER_STARTING, 6, 0);
    three_reports[2].workers[0].held_unit_count = 0;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns += start_time_ns(&three_plan->layout, &three_spec.model, TIMEOUT_NS);
    three_decide();
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    three_expect_published(9, 0);
    assert_true(plan_layout_find(&three_decision.plan->layout, "c", 0) < 0);
    expect_avoided("c");
}

/* ---- fall back to the checkpoint ---- */

static void lose_all_but(unsigned survivors)
{
    for (unsigned i = 0; i < NODES; i++)
        three_say(i, i < survivors ? WORKER_STUCK : WORKER_DEAD, 6, 9);
}

static void test_words_say_why_it_goes_back(void **state)
{
    (void)state;
    lose_all_but(0);
    expect_words("lost a/0, b/0, c/0, unit 0 has no survivor: 1 stage x 3 replicas from the "
                 "checkpoint of step 4");
    lose_all_but(1);
    three_reports[0].workers[0].held_unit_count--;
    three_view.now_ns += 100 * TIMEOUT_NS;
    expect_words("lost b/0, c/0, unit 5 has no survivor: 1 stage x 3 replicas from the checkpoint "
                 "of step 4");
    lose_all_but(1);
    three_view.checkpoint.step = 12; /* by other ranks, in earlier generations */
    expect_words("lost b/0, c/0, only step 9 survives: 1 stage x 3 replicas from the checkpoint of "
                 "step 12");
}

/* a has all units: it had not received the dispute that b reports. */
static void test_nobodys_state_counts_once_it_was_disputed(void **state)
{
    (void)state;
    struct worker_report *told = &three_reports[1].workers[0];
    three_say(0, WORKER_STUCK, 6, 9);
    three_say(1, WORKER_STUCK, 6, 0);
    three_say(2, WORKER_DEAD, 6, 0);
    told->held_unit_count = 0;
    three_decide();
    three_expect_published(9, 0);
    told->cause = CAUSE_STATE_DISPUTED;
    for (unsigned all = 0; all <= 1; all++) { /* or a has received it, too: no rank was lost */
        three_reports[0].workers[0].held_unit_count *= 1 - all;
        expect_words("reports contradict each other (replicas held different parameters or "
                     "moments): 1 stage x 3 replicas from the checkpoint of step 4");
    }
    three_say(0, WORKER_STUCK, 6, 9);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
    assert_true(three_decision.plan->start.disputed);
    assert_int_equal(three_decision.plan->start.last_dispute, three_decision.plan->generation);
    told->generation = 5; /* an earlier generation saw it; this one began without it */
    three_decide();
    three_expect_published(9, 0);
}

/*
 * If some workers may not have received the first plan that fell back, the next plan repeats the
 * dispute, until a plan falls back to a newer checkpoint.
 */
static void test_a_dispute_is_told_until_there_is_a_newer_checkpoint(void **state)
{
    (void)state;
    lose_all_but(0);
    three_decide();
    assert_false(three_decision.plan->start.disputed);
    three_plan->start.disputed = true;
    three_plan->start.last_dispute = 5;
    three_plan->start.resume_step = three_view.checkpoint.step;
    three_decide();
    assert_true(three_decision.plan->start.disputed);
    three_view.checkpoint.step++;
    three_decide();
    assert_false(three_decision.plan->start.disputed);
    assert_int_equal(three_decision.plan->start.last_dispute, 5); /* by every later plan */
}

static void test_words_of_a_job_without_a_checkpoint(void **state)
{
    (void)state;
    lose_all_but(0);
    three_view.checkpoint.step = 0;
    expect_words("lost a/0, b/0, c/0, unit 0 has no survivor: 1 stage x 3 replicas from step 0 "
                 "(exact: nothing but time is lost)");
    three_view.progress.step = 0;
    expect_words("lost a/0, b/0, c/0 at the start: 1 stage x 3 replicas from step 0");
}

static void expect_pause(void)
{
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->layout.worker_count, 0);
    assert_false(three_decision.plan->change.planned); /* no worker has anything to save */
    assert_int_equal(three_decision.plan->change.reason, PLAN_REASON_PAUSE);
    assert_string_equal(three_decision.text,
                        "state is incomplete: going back to the newest checkpoint");
}

static void test_a_job_that_is_to_pause_does_not_go_back_first(void **state)
{
    (void)state;
    lose_all_but(0);
    three_view.wish.desired = JOB_DESIRED_PAUSED;
    expect_pause();
}

static void test_a_pause_that_broke_ends_all_the_same(void **state)
{
    (void)state;
    three_plan->change.planned = true;
    three_plan->follows = 5;
    three_plan->layout.worker_count = three_plan->layout.replica_count = 0;
    three_plan->layout.donor_count = NODES;
    three_say(0, WORKER_STUCK, 5, 9);
    three_reports[0].workers[0].held_unit_count--;
    lose(1);
    lose(2);
    expect_pause();
}

/* c alone has state, and it joined the plan in force after a had lost it in the generation before.
 */
static void test_one_that_has_joined_since_it_was_accused_gets_all_the_time(void **state)
{
    (void)state;
    three_say(0, WORKER_STUCK, 5, 9);
    three_reports[0].workers[0].held_unit_count = 0;
    three_reports[0].workers[0].lost_count = 1;
    snprintf(three_reports[0].workers[0].lost[0], sizeof(three_reports[0].workers[0].lost[0]),
             "c/0");
    three_say(1, WORKER_DEAD, 6, 0);
    three_say(2, WORKER_RUNNING, 6, 9);
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns += TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_say(2, WORKER_STUCK, 6, 9);
    three_decide();
    three_expect_published(9, 0);
}

/* It looks at its links between two micro-batches. A step of a minute, two lanes a replica. */
static void test_one_in_the_middle_of_a_micro_batch_is_waited_for(void **state)
{
    (void)state;
    three_view.progress.last_step_seconds = 60;
    three_say(0, WORKER_STUCK, 6, 9);
    three_say(1, WORKER_RUNNING, 6, 9);
    lose(2);
    three_decide();
    three_view.now_ns += 9 * TIMEOUT_NS - 1; /* a is enough */
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_say(1, WORKER_STUCK, 6, 9);
    three_decide();
    three_expect_published(9, 0);
    assert_int_equal(three_decision.plan->layout.worker_count, 2);
    three_say(1, WORKER_RUNNING, 6, 9);
    three_view.now_ns++;
    three_decide();
    assert_int_equal(three_decision.plan->layout.worker_count, 1);
    three_say(0, WORKER_RUNNING, 6, 9); /* nobody has reported: that would cost steps */
    three_view.now_ns += 30 * NS_PER_SECOND - TIMEOUT_NS - 1;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns++;
    three_decide();
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_CHECKPOINT);
}

/* Two die in one step of half a minute, of which nothing was measured in between: what the steps
 * before took is handed on, so that sums are copied in both plans. */
static void test_sums_are_copied_in_steps_that_were_measured_to_be_long(void **state)
{
    (void)state;
    three_spec.train.micro_batches_per_lane = 8;
    three_plan->layout.predicted_step_seconds = 0.01;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_say(0, WORKER_STUCK, 6, 9);
    three_say(1, WORKER_STUCK, 6, 9);
    lose(2);
    three_decide();
    three_expect_published(9, 0);
    assert_true(three_decision.plan->layout.copy_seconds ==
                0); /* it is not known how long they are */
    three_view.progress.step_seconds = 30;
    three_decide();
    three_expect_published(9, 0);
    double factor = three_decision.plan->layout.prediction_factor;
    assert_true(factor > 2999 && factor < 3001);
    assert_true(three_decision.plan->layout.copy_seconds > 0);
    three_plan->layout.prediction_factor = factor;
    three_view.progress.step_seconds = 0;
    three_memory = (struct leader_memory){0};
    three_decide();
    three_expect_published(9, 0);
    assert_true(three_decision.plan->layout.prediction_factor == factor);
    assert_true(three_decision.plan->layout.copy_seconds > 0);
}

/* The workers were told to follow a failure, and have not finished an operation from before it. */
static void test_one_in_an_operation_of_the_generation_before_is_waited_for(void **state)
{
    (void)state;
    three_view.progress.generation = 5;
    three_plan->change.busy_ns = 100 * NS_PER_SECOND;
    three_say(0, WORKER_STUCK, 6, 0);
    three_reports[0].workers[0].held_unit_count = 0;
    three_say(1, WORKER_RUNNING, 5, 9);
    lose(2);
    three_decide();
    three_view.now_ns += 100 * NS_PER_SECOND;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    three_view.now_ns += 60 * NS_PER_SECOND;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
}

/* The job stops using outputs of frozen layers that the worker has written and others have fetched.
 */
static void test_one_that_computes_wrongly_ends_the_outputs_from_before(void **state)
{
    (void)state;
    static const enum worker_cause causes[] = {CAUSE_CRASHED, CAUSE_NONE};
    for (unsigned i = 0; i < ARRAY_COUNT(causes); i++) {
        three_say(0, WORKER_STUCK, 6, 9);
        three_say(1, WORKER_STUCK, 6, 9);
        three_say(2, WORKER_BAD, 6, 0);
        three_reports[2].workers[0].cause = causes[i];
        three_decide();
        three_expect_published(9, 0);
        assert_int_equal(three_decision.plan->start.last_dispute,
                         causes[i] == CAUSE_NONE ? three_decision.plan->generation : 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, three_setup, three_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_one_in_the_middle_of_a_micro_batch_is_waited_for),
        TEST(test_sums_are_copied_in_steps_that_were_measured_to_be_long),
        TEST(test_one_that_computes_wrongly_ends_the_outputs_from_before),
        TEST(test_one_in_an_operation_of_the_generation_before_is_waited_for),
        TEST(test_words_name_who_is_lost_and_what_becomes_of_the_step),
        TEST(test_words_name_three_and_count_the_rest),
        TEST(test_words_name_whose_node_is_gone),
        TEST(test_words_do_not_name_who_is_on_the_way),
        TEST(test_words_name_the_last_step),
        TEST(test_words_name_ranks_that_had_not_left),
        TEST(test_words_count_those_who_were_leaving),
        TEST(test_the_living_are_enough_where_they_are_as_many_as_the_job_wants_at_least),
        TEST(test_free_slots_are_taken_where_the_living_are_too_few),
        TEST(test_where_no_layout_fits_it_says_why),
        TEST(test_whoever_has_units_keeps_them),
        TEST(test_a_process_with_worthless_state_may_be_another_one),
        TEST(test_layers_that_were_frozen_stay_so),
        TEST(test_layers_that_thawed_are_trained),
        TEST(test_a_node_keeps_the_history_of_its_dead_worker),
        TEST(test_one_that_has_joined_since_it_was_accused_gets_all_the_time),
        TEST(test_whoever_was_heard_of_is_not_avoided),
        TEST(test_whoever_does_not_answer_is_avoided),
        TEST(test_whoever_has_state_is_not_avoided),
        TEST(test_whoever_never_comes_up_is_avoided),
        TEST(test_words_say_why_it_goes_back),
        TEST(test_nobodys_state_counts_once_it_was_disputed),
        TEST(test_a_dispute_is_told_until_there_is_a_newer_checkpoint),
        TEST(test_words_of_a_job_without_a_checkpoint),
        TEST(test_a_job_that_is_to_pause_does_not_go_back_first),
        TEST(test_a_pause_that_broke_ends_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
