/*
 * Tests of the queue's input for each job: whether it waits, the fewest slots that it needs, and
 * the reason why it did not begin.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "daemon/leader/queueing.h"
#include "lib/daemon/keys.h"
#include "lib/elastic/sample_plan.h"
#include "membership/kv/keys.h"

#define NOW_NS 1000

static struct mirror mirror;
static struct queueing_need known; /* for every job */

static int set_up(void **state)
{
    (void)state;
    mirror = (struct mirror){0};
    known = (struct queueing_need){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mirror_done(&mirror);
    return 0;
}

static void put_job(const char *job, unsigned least)
{
    char text[512];
    snprintf(text, sizeof(text),
             "{\"name\": \"%s\", \"model\": {\"layers\": 2, \"width\": 16, \"heads\": 2, "
             "\"context\": 8}, \"data\": {\"path\": [\"/data\"]}, \"train\": {\"steps\": 10}, "
             "\"elastic\": {\"devices\": {\"min\": %u, \"max\": 64}}}",
             job, least);
    keys_put_leaf(&mirror, job, "spec", text);
}

static void put_slots(const char *name, unsigned count)
{
    struct node_record record = {.link_port = 7600, .incarnation = 77, .slot_count = count};
    char key[KV_KEY_MAX];

    snprintf(record.host, sizeof(record.host), "10.0.0.1");
    for (unsigned slot = 0; slot < count; slot++) {
        snprintf(record.slots[slot].kind, sizeof(record.slots[slot].kind), "cpu");
        record.slots[slot].thread_count = 1;
        record.slots[slot].speed = 1;
    }
    keys_put_tree(&mirror, keys_node(key, CLUSTER, name), node_record_encode(&record));
}

/*
 * Put a job with six workers on slots 0 and 1 of node0, node1 and node2, and one on node3 that
 * leaves.
 */
static void put_running(const char *job)
{
    struct plan *plan = sample_plan();
    char key[KV_KEY_MAX];

    snprintf(plan->job, sizeof(plan->job), "%s", job);
    keys_put_tree(&mirror, keys_job(key, CLUSTER, job, "generation"), plan_encode(plan));
    plan_free(plan);
}

static const struct queueing_need *need_of(const void *context, const char *job)
{
    (void)context;
    (void)job;
    return &known;
}

static struct queueing look(const char *job)
{
    struct view *view = NULL;
    struct queueing queueing;
    struct error error = {0};

    if (view_make(&mirror, CLUSTER, job, NOW_NS, 1, NULL, &view, &error))
        fail_msg("%s", error.text);
    assert_int_equal(queueing_look(&mirror, CLUSTER, job, view, need_of, NULL, &queueing), 0);
    view_free(view);
    return queueing;
}

static void expect_job(const struct queueing *queueing, unsigned index, const char *name,
                       unsigned least, unsigned workers, bool waits)
{
    assert_true(index < queueing->count);
    assert_string_equal(queueing->jobs[index].name, name);
    assert_int_equal(queueing->jobs[index].least, least);
    assert_int_equal(queueing->jobs[index].workers, workers);
    assert_int_equal(queueing->jobs[index].waits, waits);
}

static void test_jobs_and_slots_are_counted(void **state)
{
    (void)state;
    put_slots("node0", 2);
    put_slots("node3", 3);
    put_job("runs", 2);
    put_running("runs");
    put_job("late", 3);
    keys_put_leaf(&mirror, "late", "desired",
                  "{\"state\": \"running\", \"devices\": 2, \"stages\": 0, \"replicas\": 0}");
    put_job("rests", 1);
    keys_put_leaf(&mirror, "rests", "desired",
                  "{\"state\": \"paused\", \"devices\": 0, \"stages\": 0, \"replicas\": 0}");
    struct queueing queueing = look("late");
    assert_int_equal(queueing.count, 3);
    expect_job(&queueing, 0, "late", 2, 0, true);
    expect_job(&queueing, 1, "rests", 1, 0, false);
    expect_job(&queueing, 2, "runs", 2, 6, false);
    assert_int_equal(queueing.index, 0);
    assert_true(queueing.jobs[2].submitted < queueing.jobs[0].submitted);
    assert_int_equal(queueing.total, 5);
    assert_int_equal(queueing.free, 3);
    assert_int_equal(queueing.free_now, 2);
    queueing_done(&queueing);
    queueing = look("runs"); /* its own slots count, too */
    assert_int_equal(queueing.free, 3);
    assert_int_equal(queueing_place(&queueing).kept, 2);
    queueing_done(&queueing);
}

static void test_who_did_not_begin_with_enough_needs_more(void **state)
{
    (void)state;
    put_slots("node0", 2);
    put_job("odd", 1);
    put_job("next", 1);
    struct queueing queueing = look("odd");
    struct queueing_need need = {0};
    queueing_learn(&queueing, NOW_NS, &need);
    assert_int_equal(need.slots, 3);
    assert_int_equal(need.total, 2);
    queueing_done(&queueing);
    known = need;
    queueing = look("next"); /* no job is left behind it */
    assert_int_equal(queueing_place(&queueing).kept_before, 0);
    queueing_done(&queueing);
    put_slots("node1", 1); /* until the slots change */
    queueing = look("next");
    assert_int_equal(queueing_place(&queueing).kept_before, 1);
    queueing_done(&queueing);
    known.until_ns = NOW_NS;
    known.total = 3;
    queueing = look("next"); /* or time has passed */
    assert_int_equal(queueing_place(&queueing).kept_before, 1);
    queueing_done(&queueing);
}

static void test_who_waits_for_slots_has_nothing_to_learn(void **state)
{
    (void)state;
    put_slots("node0", 2);
    put_job("first", 2);
    put_job("second", 1);
    struct queueing queueing = look("second");
    struct queueing_need need = {0};
    queueing_learn(&queueing, NOW_NS, &need);
    assert_int_equal(need.slots, 0);
    queueing_done(&queueing);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_jobs_and_slots_are_counted),
        TEST(test_who_did_not_begin_with_enough_needs_more),
        TEST(test_who_waits_for_slots_has_nothing_to_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
