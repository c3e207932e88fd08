/* The status lines of top and watch for a job: the urgent facts come first, on any terminal. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ctl/cluster/layout.h"
#include "ctl/report/watch.h"
#include "elastic/job/job_spec.h"

static struct job_spec spec = {.train.steps = 400, .model.layers = 6};

static struct cluster_job job_of(const char *state, const char *text)
{
    struct cluster_job job = {.name = "demo", .spec = &spec, .has_progress = true};

    snprintf(job.state.state, sizeof(job.state.state), "%s", state);
    snprintf(job.state.text, sizeof(job.state.text), "%s", text);
    job.progress = (struct progress_record){.step = 120,
                                            .loss = 2.5,
                                            .validation_loss = NAN,
                                            .step_seconds = 0.5,
                                            .tokens_per_second = 1000};
    return job;
}

static void assert_brief(const struct cluster_job *job, const char *expected)
{
    CLEANUP(bytes_done) struct bytes text = {0};

    assert_int_equal(watch_brief(job, &text), 0);
    assert_int_equal(bytes_append(&text, "", 1), 0);
    assert_string_equal((const char *)text.data, expected);
}

static void test_a_running_job_says_how_far_it_is(void **state)
{
    struct cluster_job job = job_of("running", "1 stage x 1 replica");

    (void)state;
    assert_brief(&job, "demo running  step 120/400  loss 2.5000  1.0k tokens/s  2m 20s left  "
                       "nothing runs  frozen 0/6\n");
    snprintf(job.progress.alarm, sizeof(job.progress.alarm), "no room");
    assert_brief(&job, "demo running  step 120/400  loss 2.5000  1.0k tokens/s  2m 20s left  "
                       "nothing runs  frozen 0/6\n  ALARM no room\n");
}

/* While etcd takes no writes, the job may do anything. */
static void test_an_old_word_is_no_present_speed(void **state)
{
    struct cluster_job job = job_of("running", "1 stage x 1 replica");

    (void)state;
    job.progress.unix_ns = clock_unix_ns() - 90 * NS_PER_SECOND;
    assert_brief(&job, "demo running  step 120/400  loss 2.5000  as of 1m 30s ago  "
                       "nothing runs  frozen 0/6\n");
    job.progress.step_seconds = 40;
    assert_brief(&job, "demo running  step 120/400  loss 2.5000  1.0k tokens/s  3h 06m left  "
                       "nothing runs  frozen 0/6\n");
}

static void test_what_does_not_run_says_why(void **state)
{
    struct cluster_job job = job_of("waiting", "waits for slots");

    (void)state;
    snprintf(job.progress.alarm, sizeof(job.progress.alarm), "no room");
    assert_brief(&job, "demo waiting  waits for slots\n  ALARM no room\n");
    job = job_of("failed", "step 121: the loss is NaN");
    snprintf(job.progress.alarm, sizeof(job.progress.alarm), "no room");
    assert_brief(&job, "demo failed  step 121: the loss is NaN\n");
}

static void test_what_ended_well_is_left_out(void **state)
{
    struct cluster_job completed = job_of("completed", ""), cancelled = job_of("cancelled", "");

    (void)state;
    assert_brief(&completed, "");
    assert_brief(&cancelled, "");
}

static void assert_waiting(const struct cluster_job *job, const char *expected)
{
    CLEANUP(bytes_done) struct bytes text = {0};

    assert_int_equal(layout_waits_append(job, "generation ", &text), 0);
    assert_int_equal(bytes_append(&text, "", 1), 0);
    assert_string_equal((const char *)text.data, expected);
}

/* The plan in force is not the layout that trains: a change may wait for half an hour. */
static void test_what_trains_is_named_while_a_change_waits(void **state)
{
    static struct plan plan = {.generation = 6, .follows = 5, .change.planned = true};
    struct cluster_job job = job_of("preparing", "generation 6 waits for the step in progress");

    (void)state;
    job.plan = &plan;
    job.progress.generation = 5;
    job.progress.stages = 1;
    job.progress.replicas = 2;
    assert_waiting(&job, "generation 5: 1 stage x 2 replicas, until generation 6 begins\n");
    job.progress.stages = 0; /* written by a firnd that has not seen the plan of 5 */
    assert_waiting(&job, "");
    job.progress.stages = 1;
    job.progress.generation = 6;
    assert_waiting(&job, "");
    job = job_of("running", "1 stage x 2 replicas"); /* begun, and nothing is committed yet */
    job.plan = &plan;
    job.progress.generation = 5;
    assert_waiting(&job, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_running_job_says_how_far_it_is),
        cmocka_unit_test(test_an_old_word_is_no_present_speed),
        cmocka_unit_test(test_what_does_not_run_says_why),
        cmocka_unit_test(test_what_ended_well_is_left_out),
        cmocka_unit_test(test_what_trains_is_named_while_a_change_waits),
    };
    return cmocka_run_group_tests_name("ctl/watch_text", tests, NULL, NULL);
}
