/*
 * Tests of workers that start slowly: the leader waits while they report progress.
 */
#include "elastic/job/job_spec.h"
#include "unit/elastic/three_nodes.h"

/* Publish a start from the seed. */
static void begin(void)
{
    plan->start.source = PLAN_SOURCE_FRESH;
    plan->start.resume_step = view.progress_step = view.checkpoint.step = 0;
    for (unsigned i = 0; i < NODES; i++) {
        plan->layout.workers[i].instance = 0;
        say(i, WORKER_STARTING, 0, 0);
        reports[i].workers[0].held_unit_count = 0;
    }
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
}

static void has_read(unsigned node, unsigned gibibytes)
{
    struct worker_report *report = &reports[node].workers[0];
    report->cause = CAUSE_STARTS;
    snprintf(report->text, sizeof(report->text), "reads the training data: %u GiB of 20 GiB",
             gibibytes);
}

static void expect_words(const char *words)
{
    if (!strstr(decision.text, words))
        fail_msg("\"%s\" does not say \"%s\"", decision.text, words);
}

/* Reading takes longer than a start may: each report of one reader extends the deadline of all. */
static void those_who_read_are_waited_for(void **state)
{
    (void)state;
    begin();
    uint64_t start_ns = start_time_ns(&plan->layout, &spec.model, TIMEOUT_NS);
    has_read(1, 0);
    snprintf(reports[1].workers[0].text, REPORT_TEXT_SIZE, REPORT_WAITS_FOR_READER);
    for (unsigned gibibytes = 1; gibibytes <= 5; gibibytes++) {
        has_read(2, gibibytes);
        decide();
        assert_int_equal(decision.action, LEADER_NOTHING);
        assert_int_equal(decision.state, JOB_PREPARING);
        assert_int_equal(decision.wake_at_ns, view.now_ns + start_ns);
        expect_words("; 2 workers are still starting (c/0: reads the training data: ");
        view.now_ns += start_ns - 1;
        decide();
        assert_int_equal(decision.action, LEADER_NOTHING);
    }
    reports[2].workers[0].cause = CAUSE_NONE; /* reading is done: normal deadline for the rest */
    reports[1].workers[0].cause = CAUSE_NONE;
    decide();
    assert_int_equal(decision.wake_at_ns, view.now_ns + start_ns);
    assert_null(strstr(decision.text, "starting"));
}

static void silence_ends_the_start(void **state)
{
    (void)state;
    begin();
    uint64_t start_ns = start_time_ns(&plan->layout, &spec.model, TIMEOUT_NS);
    view.now_ns += start_ns - 1;
    has_read(2, 7);
    decide();
    assert_int_equal(decision.action, LEADER_NOTHING);
    expect_words("; 1 worker is still starting (c/0: reads the training data: 7 GiB of 20 GiB)");
    view.now_ns += start_ns;
    decide();
    expect_words("waits for slots: wants at least 1, 0 are free");
    expect_words("; 1 worker is still starting (c/0: reads the training data: 7 GiB of 20 GiB)");
}

/* Slots of other nodes are free: the job begins there, and reports the reason. */
static void a_start_given_up_names_the_data(void **state)
{
    (void)state;
    nodes[0].slot_count = 2;
    nodes[0].slots[1] = nodes[0].slots[0];
    nodes[0].slots[1].index = 1;
    begin();
    has_read(2, 7);
    decide();
    view.now_ns += start_time_ns(&plan->layout, &spec.model, TIMEOUT_NS);
    decide();
    assert_int_equal(decision.action, LEADER_PUBLISH);
    expect_words("a start has stopped (c/0: reads the training data: 7 GiB of 20 GiB)");
}

/* A worker that joins reads while the others train. */
static void a_joiner_that_reads_is_waited_for(void **state)
{
    (void)state;
    struct plan *next = plan_copy(plan);
    assert_non_null(next);
    next->generation = 7;
    next->layout.workers[2].instance = 0;
    view.next = next;
    plan->layout.worker_count = plan->layout.replica_count = 2;
    plan->layout.replica_first_lane[1] = LANES / 2;
    plan->layout.replica_first_lane[2] = LANES;
    say(0, WORKER_RUNNING, 6, 9);
    say(1, WORKER_RUNNING, 6, 9);
    say(2, WORKER_STARTING, 0, 0);
    reports[2].workers[0].held_unit_count = 0;
    decide();
    for (unsigned gibibytes = 1; gibibytes <= 5; gibibytes++) {
        view.now_ns += 20 * TIMEOUT_NS - 1;
        has_read(2, gibibytes);
        decide();
        assert_int_equal(decision.action, LEADER_NOTHING);
        expect_words("1 new workers; 1 worker is still starting (c/0: reads the training data: ");
    }
    view.now_ns += 20 * TIMEOUT_NS;
    decide();
    assert_int_equal(decision.action, LEADER_DROP_NEXT);
    view.next = NULL;
    plan_free(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(those_who_read_are_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(silence_ends_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(a_start_given_up_names_the_data, setup, teardown),
        cmocka_unit_test_setup_teardown(a_joiner_that_reads_is_waited_for, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
