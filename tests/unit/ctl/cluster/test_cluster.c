/* Tests of the picture of a cluster from its keys, and of the nodes' reports about their workers.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/worker_list.h"
#include "elastic/job/job_spec.h"

#define ENTRIES_MAX 32
#define ROOT        "/firn/v1/c/"

static struct kv_entry entries[ENTRIES_MAX];
static char *values[ENTRIES_MAX];
static size_t count;
static struct cluster cluster;
static struct error error;

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < count; i++)
        free(values[i]);
    count = 0;
    cluster_done(&cluster);
    memset(&error, 0, sizeof(error));
    return 0;
}

static void put_text(const char *key, const char *value)
{
    assert_true(count < ENTRIES_MAX);
    values[count] = strdup(value);
    entries[count] =
        (struct kv_entry){.key = key, .value = values[count], .value_bytes = strlen(value)};
    count++;
}

static void put(const char *key, json_t *value)
{
    AUTO_FREE char *text = json_text(value);
    json_decref(value);
    put_text(key, text);
}

static void put_spec(const char *key, const char *name)
{
    struct job_spec *spec = calloc(1, sizeof(*spec));
    AUTO_JSON json_t *tree = json_pack("{s:s, s:{s:i, s:i, s:i, s:i}, s:{s:s}, s:{s:i}}", "name",
                                       name, "model", "layers", 2, "width", 8, "heads", 2,
                                       "context", 16, "data", "path", "/x", "train", "steps", 5);
    assert_int_equal(job_spec_decode(tree, "test", NULL, NULL, spec, &error), 0);
    put(key, job_spec_encode(spec));
    free(spec);
}

static void put_node(const char *key, const char *http)
{
    struct node_record record = {.host = "127.0.0.1", .link_port = 7600, .slot_count = 1};
    snprintf(record.http, sizeof(record.http), "%s", http);
    strcpy(record.version, "1");
    strcpy(record.slots[0].kind, "cpu");
    record.slots[0].speed = 1;
    put(key, node_record_encode(&record));
}

static void put_checkpoint(const char *key, uint64_t step)
{
    struct checkpoint_record record = {.step = step, .path = "/p", .node = "a"};
    put(key, checkpoint_record_encode(&record));
}

static void parse(void)
{
    assert_int_equal(cluster_parse("c", entries, count, &cluster, &error), 0);
}

static void test_keys_become_nodes_and_jobs(void **state)
{
    (void)state;
    put_text(ROOT "leader", "b");
    put_text(ROOT "drains/a", "{}");
    put_text(ROOT "drains/gone", "{}");
    put_node(ROOT "nodes/b", "127.0.0.1:2");
    put_node(ROOT "nodes/a", "127.0.0.1:1");
    put_spec(ROOT "jobs/two/spec", "two");
    put_spec(ROOT "jobs/one/spec", "one");
    put(ROOT "jobs/one/desired",
        desired_record_encode(&(struct desired_record){.wish = RECORD_PAUSED, .devices = 3}));
    put(ROOT "jobs/one/state", state_record_encode(&(struct state_record){
                                   .state = "waiting", .text = "for 2 slots", .unix_ns = 1}));
    parse();
    assert_int_equal(cluster.damaged, 0);
    assert_string_equal(cluster.leader, "b");
    assert_int_equal(cluster.node_count, 2);
    assert_string_equal(cluster.nodes[0].name, "a");
    assert_true(cluster.nodes[0].drained);
    assert_false(cluster.nodes[1].drained);
    assert_int_equal(cluster.job_count, 2);
    assert_string_equal(cluster.jobs[0].name, "one");
    assert_int_equal(cluster.jobs[0].desired.devices, 3);
    char words[256];
    cluster_job_words(&cluster.jobs[0], words, sizeof(words));
    assert_string_equal(words, "waiting: for 2 slots");
    strcpy(cluster.jobs[0].state.text, "waiting");
    cluster_job_words(&cluster.jobs[0], words, sizeof(words));
    assert_string_equal(words, "waiting"); /* not twice */
    assert_string_equal(cluster_job_state(&cluster.jobs[1]), "submitted");
    assert_false(cluster_job_over(&cluster.jobs[0]));
}

static void put_empty_plan(enum plan_source source, uint64_t follows, uint64_t resume_step)
{
    struct plan *plan = plan_new();
    plan->generation = 4;
    plan->follows = follows;
    plan->start.source = source;
    plan->start.resume_step = resume_step;
    plan->layout.frozen_layers = 1;
    strcpy(plan->job, "j");
    if (source == PLAN_SOURCE_CHECKPOINT)
        strcpy(plan->start.restore_path, "/p");
    put(ROOT "jobs/j/generation", plan_encode(plan));
    plan_free(plan);
}

/* It has gone back to step 40, and no step was computed since. */
static void test_what_was_reached_before_a_fall_back_is_not_shown(void **state)
{
    const struct {
        enum plan_source source;
        uint64_t follows, resumes_at, told_by, told, shown;
    } cases[] = {
        {PLAN_SOURCE_CHECKPOINT, 2, 40, 2, 57, 40}, {PLAN_SOURCE_CHECKPOINT, 2, 40, 4, 41, 41},
        {PLAN_SOURCE_MEMORY, 3, 40, 2, 57, 40}, /* paused before its next step */
        {PLAN_SOURCE_MEMORY, 3, 40, 3, 57, 57},     {PLAN_SOURCE_MEMORY, 3, 40, 2, 39, 39},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        put_spec(ROOT "jobs/j/spec", "j");
        put_empty_plan(cases[i].source, cases[i].follows, cases[i].resumes_at);
        put(ROOT "said/j/progress",
            progress_record_encode(&(struct progress_record){.generation = cases[i].told_by,
                                                             .step = cases[i].told,
                                                             .loss = 2.5,
                                                             .grad_norm = 1,
                                                             .validation_loss = NAN,
                                                             .frozen_layers = 2}));
        parse();
        assert_int_equal(cluster.damaged, 0);
        const struct progress_record *progress = &cluster.jobs[0].progress;
        bool taken_back = cases[i].shown != cases[i].told;
        assert_int_equal(progress->step, cases[i].shown);
        assert_int_equal(isnan(progress->loss), taken_back);
        assert_int_equal(progress->frozen_layers, taken_back ? 1 : 2);
        teardown(state);
    }
}

/* Keys come in the order of text, where 100 is before 50. */
static void test_checkpoints_are_newest_first(void **state)
{
    (void)state;
    put_spec(ROOT "jobs/j/spec", "j");
    put_checkpoint(ROOT "jobs/j/checkpoints/100", 100);
    put_checkpoint(ROOT "jobs/j/checkpoints/150", 150);
    put_checkpoint(ROOT "jobs/j/checkpoints/50", 50);
    parse();
    assert_int_equal(cluster.jobs[0].checkpoint_count, 3);
    assert_int_equal(cluster.jobs[0].checkpoints[0].step, 150);
    assert_int_equal(cluster.jobs[0].checkpoints[1].step, 100);
    assert_int_equal(cluster.jobs[0].checkpoints[2].step, 50);
}

static void test_damaged_keys_hide_nothing_else(void **state)
{
    (void)state;
    put_text(ROOT "nodes/a", "{\"host\":1}");
    put_node(ROOT "nodes/b", "127.0.0.1:2");
    put_spec(ROOT "jobs/j/spec", "j");
    put_text(ROOT "said/j/progress", "not json");
    put_text(ROOT "jobs/j/generation", "{}");
    put_text(ROOT "jobs/broken/spec", "{}");
    put_text(ROOT "jobs/orphan/state", "{}");
    put_text(ROOT "said/j/reports/1/a", "also not json, and nobody asks");
    parse();
    assert_int_equal(cluster.damaged, 5);
    assert_non_null(strstr(cluster.damage, ROOT "nodes/a"));
    assert_int_equal(cluster.node_count, 1);
    assert_int_equal(cluster.job_count, 1);
    assert_false(cluster.jobs[0].has_progress);
    assert_null(cluster.jobs[0].plan);
}

static void test_names_that_are_not_there_have_a_hint(void **state)
{
    (void)state;
    put_spec(ROOT "jobs/shakespeare/spec", "shakespeare");
    parse();
    assert_null(cluster_find_job(&cluster, "shakespaere", &error));
    assert_non_null(strstr(error.text, "\"shakespeare\"?"));
    assert_null(cluster_find_job(&cluster, "xyz", &error));
    assert_non_null(strstr(error.text, "job list"));
    assert_null(cluster_find_node(&cluster, "a", &error));
    assert_non_null(strstr(error.text, "node list"));
}

static void test_a_job_that_is_over_says_how_another_goes_on(void **state)
{
    struct checkpoint_record newest = {.step = 40, .path = "/ckpt/demo/step-0000000040"};
    struct cluster_job job = {.name = "demo", .checkpoints = &newest};

    (void)state;
    strcpy(job.state.state, "running");
    assert_int_equal(cluster_job_check_open(&job, &error), 0);
    strcpy(job.state.state, "failed");
    strcpy(job.state.text, "no data");
    assert_int_equal(cluster_job_check_open(&job, &error), -EALREADY);
    assert_string_equal(error.text, "job demo is over (failed: no data)");
    job.checkpoint_count = 1;
    assert_int_equal(cluster_job_check_open(&job, &error), -EALREADY);
    assert_non_null(strstr(error.text, "goes on after its step 40: firnctl job submit --name NAME "
                                       "--from /ckpt/demo/step-0000000040"));
    strcpy(job.state.state, "completed"); /* nothing is left to continue */
    assert_int_equal(cluster_job_check_open(&job, &error), -EALREADY);
    assert_null(strstr(error.text, "--from"));
}

static void test_many_jobs_find_room(void **state)
{
    (void)state;
    char keys[20][64];
    for (int i = 0; i < 20; i++) {
        snprintf(keys[i], sizeof(keys[i]), ROOT "jobs/j%02d/spec", 19 - i);
        put_spec(keys[i], "x");
    }
    parse();
    assert_int_equal(cluster.job_count, 20);
    assert_string_equal(cluster.jobs[7].name, "j07");
}

/* ---- workers ---- */

#define WORKER(slot, stage, replica, compute)                                                      \
    "{\"slot\":" #slot                                                                             \
    ",\"pid\":9,\"phase\":\"running\",\"generation\":2,\"step\":5,\"stage\":" #stage               \
    ",\"replica\":" #replica ",\"first_unit\":0,\"unit_count\":3,\"compute_seconds\":" #compute    \
    ",\"wait_seconds\":0.1,\"step_seconds\":0.5}"

static void test_the_clearly_slowest_of_a_stage_is_marked(void **state)
{
    (void)state;
    static const char a[] = "{\"workers\":[" WORKER(0, 0, 1, 0.30) "," WORKER(1, 1, 0, 0.9) "]}";
    static const char b[] = "{\"workers\":[" WORKER(0, 0, 0, 0.20) "," WORKER(1, 2, 0, 0.20) "]}";
    static const char c[] = "{\"workers\":[" WORKER(0, 2, 1, 0.21) "," WORKER(1, -1, -1, 0.0) "]}";
    struct worker_list list = {0};
    assert_int_equal(worker_list_add(&list, "j", "a", 6, a, sizeof(a) - 1, &error), 0);
    assert_int_equal(worker_list_add(&list, "j", "b", 6, b, sizeof(b) - 1, &error), 0);
    assert_int_equal(worker_list_add(&list, "j", "c", 6, c, sizeof(c) - 1, &error), 0);
    worker_list_finish(&list);
    assert_int_equal(list.count, 6);
    for (size_t i = 0; i < list.count; i++) {
        const struct worker_info *info = &list.workers[i];
        /* Stage 0: 0.30 against 0.20. Stage 1 has one worker, stage 2 is even, the last is idle. */
        assert_int_equal(info->slowest, info->stage == 0 && info->replica == 1);
    }
    assert_int_equal(list.workers[0].stage, -1);
    assert_int_equal(list.workers[1].replica, 0);
    worker_list_done(&list);
}

static void test_more_lanes_are_not_slowness(void **state)
{
    (void)state;
    static const char format[] =
        "{\"workers\":[{\"slot\":%u,\"pid\":9,\"phase\":\"running\",\"generation\":2,\"step\":5,"
        "\"stage\":0,\"replica\":%u,\"first_unit\":0,\"unit_count\":3,\"lanes\":%u,"
        "\"compute_seconds\":%g,\"wait_seconds\":0.1,\"step_seconds\":0.5}]}";
    const struct {
        unsigned lanes;
        double compute_seconds;
    } workers[] = {{3, 0.30}, {1, 0.20}, {2, 0.21}};
    struct worker_list list = {0};
    for (unsigned i = 0; i < ARRAY_COUNT(workers); i++) {
        char text[512];
        int length = snprintf(text, sizeof(text), format, i, i, workers[i].lanes,
                              workers[i].compute_seconds);
        assert_int_equal(worker_list_add(&list, "j", "a", 6, text, (size_t)length, &error), 0);
    }
    worker_list_finish(&list);
    for (size_t i = 0; i < list.count; i++)
        assert_int_equal(list.workers[i].slowest, i == 1);
    worker_list_done(&list);
}

static void test_a_worker_that_holds_is_told_from_one_that_runs(void **state)
{
    (void)state;
    static const char format[] =
        "{\"workers\":[{\"slot\":0,\"pid\":9,\"phase\":\"running\",\"generation\":2,\"step\":5,"
        "\"stage\":0,\"replica\":0,\"first_unit\":0,\"unit_count\":3,\"compute_seconds\":0.1,"
        "\"wait_seconds\":0.1,\"step_seconds\":0.5%s}]}";
    static const char *const words[] = {"", ",\"held\":false", ",\"held\":true"};
    struct worker_list list = {0};
    for (unsigned i = 0; i < ARRAY_COUNT(words); i++) {
        char text[512];
        int length = snprintf(text, sizeof(text), format, words[i]);
        assert_int_equal(worker_list_add(&list, "j", "a", 6, text, (size_t)length, &error), 0);
        assert_int_equal(list.workers[i].held, i == 2);
    }
    worker_list_done(&list);
}

static void test_an_answer_that_is_not_understood_names_the_node(void **state)
{
    (void)state;
    const char *bad[] = {"", "[]", "{}", "{\"workers\":[1]}", "{\"workers\":[{\"slot\":0}]}"};
    struct worker_list list = {0};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        memset(&error, 0, sizeof(error));
        assert_int_equal(worker_list_add(&list, "j", "a", 6, bad[i], strlen(bad[i]), &error),
                         -EBADMSG);
        assert_non_null(strstr(error.text, "node a, job j"));
    }
    worker_list_finish(&list);
    assert_int_equal(list.count, 0);
    worker_list_done(&list);
}

/* The switch of the generation in force, if it began with a switch; otherwise the one before it. */
static void test_duration_of_the_last_switch(void **state)
{
    struct plan plan = {.generation = 4, .change = {.planned = true, .switch_seconds = 0.25}};
    struct cluster_job job = {.progress = {.generation = 4, .pause_seconds = 0.5}};
    (void)state;
    assert_true(cluster_job_switch_seconds(&job) == 0);
    job.plan = &plan;
    assert_true(cluster_job_switch_seconds(&job) == 0.25); /* no progress */
    job.has_progress = true;
    assert_true(cluster_job_switch_seconds(&job) == 0.5);
    plan.generation = 5;
    assert_true(cluster_job_switch_seconds(&job) == 0.25);
    plan.generation = 4;
    plan.change.planned = false; /* after a failure */
    assert_true(cluster_job_switch_seconds(&job) == 0.25);
}

/* A generation trains while the next one is prepared; after a pause none does. */
static void test_age_of_the_newest_word(void **state)
{
    const uint64_t now_ns = 1000 * 1000000000ull;
    struct plan plan = {.generation = 4, .layout.worker_count = 2};
    struct cluster_job job = {.plan = &plan, .progress = {.generation = 4, .step_seconds = 0.5}};
    (void)state;
    job.progress.unix_ns = now_ns - 40 * 1000000000ull;
    strcpy(job.state.state, "running");
    assert_float_equal(cluster_job_word_age(&job, now_ns), 40, 1e-6);
    strcpy(job.state.state, "preparing");
    assert_float_equal(cluster_job_word_age(&job, now_ns), 40, 1e-6);
    plan.generation = 5;
    assert_float_equal(cluster_job_word_age(&job, now_ns), 0, 0);
    job.has_progress = plan.change.planned = true; /* the change waits for the end of a step */
    plan.follows = 4;
    assert_float_equal(cluster_job_word_age(&job, now_ns), 40, 1e-6);
    job.has_progress = plan.change.planned = false;
    plan.generation = 4;
    plan.layout.worker_count = 0;
    assert_float_equal(cluster_job_word_age(&job, now_ns), 0, 0);
    strcpy(job.state.state, "paused");
    assert_float_equal(cluster_job_word_age(&job, now_ns), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_keys_become_nodes_and_jobs, teardown),
        cmocka_unit_test_teardown(test_what_was_reached_before_a_fall_back_is_not_shown, teardown),
        cmocka_unit_test_teardown(test_checkpoints_are_newest_first, teardown),
        cmocka_unit_test(test_age_of_the_newest_word),
        cmocka_unit_test(test_duration_of_the_last_switch),
        cmocka_unit_test_teardown(test_damaged_keys_hide_nothing_else, teardown),
        cmocka_unit_test_teardown(test_names_that_are_not_there_have_a_hint, teardown),
        cmocka_unit_test_teardown(test_a_job_that_is_over_says_how_another_goes_on, teardown),
        cmocka_unit_test_teardown(test_many_jobs_find_room, teardown),
        cmocka_unit_test_teardown(test_the_clearly_slowest_of_a_stage_is_marked, teardown),
        cmocka_unit_test_teardown(test_more_lanes_are_not_slowness, teardown),
        cmocka_unit_test_teardown(test_a_worker_that_holds_is_told_from_one_that_runs, teardown),
        cmocka_unit_test_teardown(test_an_answer_that_is_not_understood_names_the_node, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
