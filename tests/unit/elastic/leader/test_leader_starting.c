/*
 * Tests of workers that start slowly: the leader waits while they report progress.
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

/* Publish a start from the seed. */
static void begin(void)
{
    three_plan->start.source = PLAN_SOURCE_FRESH;
    three_plan->start.resume_step = three_view.progress.step = three_view.checkpoint.step = 0;
    for (unsigned i = 0; i < NODES; i++) {
        three_plan->layout.workers[i].instance = 0;
        three_say(i, WORKER_STARTING, 0, 0);
        three_reports[i].workers[0].held_unit_count = 0;
    }
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
}

static void has_read(unsigned node, unsigned gibibytes)
{
    struct worker_report *report = &three_reports[node].workers[0];
    report->cause = CAUSE_STARTS;
    snprintf(report->text, sizeof(report->text), "reads the training data: %u GiB of 20 GiB",
             gibibytes);
}

static void expect_words(const char *words)
{
    if (!strstr(three_decision.text, words))
        fail_msg("\"%s\" does not say \"%s\"", three_decision.text, words);
}

/* Reading takes longer than a start may: each report of one reader extends the deadline of all. */
static void test_those_who_read_are_waited_for(void **state)
{
    (void)state;
    begin();
    uint64_t start_ns = start_time_ns(&three_plan->layout, &three_spec.model, TIMEOUT_NS);
    has_read(1, 0);
    snprintf(three_reports[1].workers[0].text, REPORT_TEXT_SIZE, REPORT_WAITS_FOR_READER);
    for (unsigned gibibytes = 1; gibibytes <= 5; gibibytes++) {
        has_read(2, gibibytes);
        three_decide();
        assert_int_equal(three_decision.action, LEADER_NOTHING);
        assert_int_equal(three_decision.state, JOB_PREPARING);
        assert_int_equal(three_decision.wake_at_ns, three_view.now_ns + start_ns);
        expect_words("; 2 workers are still starting (c/0: reads the training data: ");
        three_view.now_ns += start_ns - 1;
        three_decide();
        assert_int_equal(three_decision.action, LEADER_NOTHING);
    }
    three_reports[2].workers[0].cause =
        CAUSE_NONE; /* reading is done: normal deadline for the rest */
    three_reports[1].workers[0].cause = CAUSE_NONE;
    three_decide();
    assert_int_equal(three_decision.wake_at_ns, three_view.now_ns + start_ns);
    assert_null(strstr(three_decision.text, "starting"));
}

static void test_silence_ends_the_start(void **state)
{
    (void)state;
    begin();
    uint64_t start_ns = start_time_ns(&three_plan->layout, &three_spec.model, TIMEOUT_NS);
    three_view.now_ns += start_ns - 1;
    has_read(2, 7);
    three_decide();
    assert_int_equal(three_decision.action, LEADER_NOTHING);
    expect_words("; 1 worker is still starting (c/0: reads the training data: 7 GiB of 20 GiB)");
    three_view.now_ns += start_ns;
    three_decide();
    expect_words("waits for slots: wants at least 1, 0 are free");
    expect_words("; 1 worker is still starting (c/0: reads the training data: 7 GiB of 20 GiB)");
}

/* Slots of other nodes are free: the job begins there, and reports the reason. */
static void test_a_start_given_up_names_the_data(void **state)
{
    (void)state;
    three_nodes[0].slot_count = 2;
    three_nodes[0].slots[1] = three_nodes[0].slots[0];
    three_nodes[0].slots[1].index = 1;
    begin();
    has_read(2, 7);
    three_decide();
    three_view.now_ns += start_time_ns(&three_plan->layout, &three_spec.model, TIMEOUT_NS);
    three_decide();
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    expect_words("a start has stopped (c/0: reads the training data: 7 GiB of 20 GiB)");
}

/* A worker that joins reads while the others train. */
static void test_a_joiner_that_reads_is_waited_for(void **state)
{
    (void)state;
    struct plan *next = plan_copy(three_plan);
    assert_non_null(next);
    next->generation = 7;
    next->layout.workers[2].instance = 0;
    three_view.next = next;
    three_plan->layout.worker_count = three_plan->layout.replica_count = 2;
    three_plan->layout.replica_first_lane[1] = LANES / 2;
    three_plan->layout.replica_first_lane[2] = LANES;
    three_say(0, WORKER_RUNNING, 6, 9);
    three_say(1, WORKER_RUNNING, 6, 9);
    three_say(2, WORKER_STARTING, 0, 0);
    three_reports[2].workers[0].held_unit_count = 0;
    three_decide();
    for (unsigned gibibytes = 1; gibibytes <= 5; gibibytes++) {
        three_view.now_ns += 20 * TIMEOUT_NS - 1;
        has_read(2, gibibytes);
        three_decide();
        assert_int_equal(three_decision.action, LEADER_NOTHING);
        expect_words("1 new workers; 1 worker is still starting (c/0: reads the training data: ");
    }
    three_view.now_ns += 20 * TIMEOUT_NS;
    three_decide();
    assert_int_equal(three_decision.action, LEADER_DROP_NEXT);
    three_view.next = NULL;
    plan_free(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_those_who_read_are_waited_for, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_silence_ends_the_start, three_setup, three_teardown),
        cmocka_unit_test_setup_teardown(test_a_start_given_up_names_the_data, three_setup,
                                        three_teardown),
        cmocka_unit_test_setup_teardown(test_a_joiner_that_reads_is_waited_for, three_setup,
                                        three_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
