/*
 * Tests of the files that a node uploads to the object store: from the cluster's keys, one job at a
 * time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "daemon/checkpoint/upload_choice.h"
#include "lib/daemon/keys.h"

#define JOB "demo"
#define NOW 1000

static struct mirror mirror;
static struct upload_memory memory;
static struct checkpoint_record chosen;

static int set_up(void **state)
{
    (void)state;
    memset(&memory, 0, sizeof(memory));
    keys_put_leaf(&mirror, JOB, "spec", "{}");
    keys_put_registered(&mirror, "a");
    keys_put_registered(&mirror, "b");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mirror_done(&mirror);
    checkpoint_record_done(&chosen);
    return 0;
}

static enum upload_role choose(const char *node, bool leads)
{
    const struct upload_view view = {.mirror = &mirror,
                                     .cluster = CLUSTER,
                                     .node = node,
                                     .leads = leads,
                                     .now_ns = NOW,
                                     .memory = &memory};
    checkpoint_record_done(&chosen);
    return upload_choose(&view, JOB, &chosen);
}

static void assert_sends(const char *node, bool leads, uint64_t step)
{
    assert_int_equal(choose(node, leads), UPLOAD_SENDS);
    assert_int_equal(chosen.step, step);
}

static void test_the_one_who_recorded_the_newest_sends_it(void **state)
{
    (void)state;
    assert_int_equal(choose("a", true), UPLOAD_NOTHING);
    keys_put_checkpoint(&mirror, JOB, 40, "b", "");
    keys_put_checkpoint(&mirror, JOB, 80, "a", "");
    assert_sends("a", false, 80);
    assert_int_equal(choose("b", false), UPLOAD_NOTHING); /* 40 is superseded */
    assert_int_equal(choose("b", true), UPLOAD_NOTHING);  /* leading or not */
}

static void test_the_leader_sends_for_one_who_is_gone(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 80, "gone", "");
    assert_int_equal(choose("a", false), UPLOAD_NOTHING);
    assert_sends("a", true, 80);
}

static void test_what_is_there_is_not_sent_again(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 80, "a", "");
    keys_put_object(&mirror, JOB, 80, RECORD_UPLOADING, "a", 80);
    assert_sends("a", false, 80); /* of an earlier run */
    keys_put_object(&mirror, JOB, 80, RECORD_COMPLETE, "a", 80);
    assert_int_equal(choose("a", false), UPLOAD_NOTHING);
    keys_put_object(&mirror, JOB, 80, RECORD_COMPLETE, "a", 81); /* another manifest of that step */
    assert_sends("a", false, 80);
}

/* The node does not upload again before the mirror shows the record. */
static void test_what_has_just_been_sent_is_not_sent_again(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 80, "a", "a+b b+a");
    keys_put_object(&mirror, JOB, 80, RECORD_UPLOADING, "a", 80);
    assert_sends("a", false, 80);
    upload_memory_sent(&memory, chosen.manifest_sha256);
    assert_int_equal(choose("a", false), UPLOAD_NOTHING);
    keys_put_checkpoint(&mirror, JOB, 120, "a", "a+b b+a");
    assert_sends("a", false, 120);
}

static void test_a_removed_job_is_left_alone(void **state)
{
    char key[KV_KEY_MAX];
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 80, "a", "");
    keys_remove(&mirror, keys_job(key, CLUSTER, JOB, "spec"));
    assert_int_equal(choose("a", true), UPLOAD_NOTHING);
}

static void test_a_failed_one_rests_and_a_newer_one_does_not(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 80, "a", "");
    assert_sends("a", false, 80);
    assert_false(upload_memory_failed(&memory, chosen.manifest_sha256, NOW + 1));
    assert_int_equal(choose("a", false), UPLOAD_NOTHING);
    assert_true(upload_memory_failed(&memory, chosen.manifest_sha256, NOW)); /* already reported */
    assert_sends("a", false, 80);
    assert_true(upload_memory_failed(&memory, chosen.manifest_sha256, NOW + 1));
    keys_put_checkpoint(&mirror, JOB, 120, "a", "");
    assert_sends("a", false, 120);
    upload_memory_sent(&memory, chosen.manifest_sha256);
    assert_false(upload_memory_failed(&memory, chosen.manifest_sha256, NOW + 1));
}

static void test_others_help_when_it_is_on_its_way(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 80, "a", "a+b b+a");
    assert_sends("a", false, 80);
    assert_int_equal(choose("b", false), UPLOAD_NOTHING); /* a has not begun */
    keys_put_object(&mirror, JOB, 80, RECORD_UPLOADING, "a", 80);
    assert_int_equal(choose("b", false), UPLOAD_HELPS);
    assert_int_equal(chosen.step, 80);
    assert_int_equal(choose("c", false), UPLOAD_NOTHING); /* c has no part */
    keys_put_checkpoint(&mirror, JOB, 120, "a", "a+b b+a");
    assert_int_equal(choose("b", false), UPLOAD_HELPS); /* with the upload in progress */
    assert_int_equal(chosen.step, 80);
    upload_memory_helped(&memory, chosen.manifest_sha256);
    assert_int_equal(choose("b", false), UPLOAD_NOTHING); /* each node helps once */
    keys_put_object(&mirror, JOB, 80, RECORD_COMPLETE, "a", 80);
    keys_put_object(&mirror, JOB, 120, RECORD_UPLOADING, "a", 120);
    assert_int_equal(choose("b", false), UPLOAD_HELPS);
    assert_int_equal(chosen.step, 120);
    upload_memory_failed(&memory, chosen.manifest_sha256, NOW + 1);
    assert_int_equal(choose("b", false), UPLOAD_NOTHING);
}

static void test_without_copies_nobody_helps(void **state)
{
    (void)state;
    keys_put_checkpoint(&mirror, JOB, 80, "a", "");
    keys_put_object(&mirror, JOB, 80, RECORD_UPLOADING, "a", 80);
    assert_int_equal(choose("b", false), UPLOAD_NOTHING);
}

static void test_whoever_will_send_tries_first(void **state)
{
    (void)state;
    struct plan_worker workers[] = {{.node = "a"}, {.node = "b"}, {.node = "b"}};
    struct plan plan = {.layout.workers = workers, .layout.worker_count = ARRAY_COUNT(workers)};
    assert_true(upload_will_send(&plan, "a")); /* the first writer's node records their results */
    assert_false(upload_will_send(&plan, "b"));
    plan.checkpoints.copies = 2; /* every node uploads its own shares */
    assert_true(upload_will_send(&plan, "a"));
    assert_true(upload_will_send(&plan, "b"));
    assert_false(upload_will_send(&plan, "c"));
    plan.layout.worker_count = 0;
    assert_false(upload_will_send(&plan, "a"));
    plan.checkpoints.copies = 0;
    assert_false(upload_will_send(&plan, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_one_who_recorded_the_newest_sends_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_leader_sends_for_one_who_is_gone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_there_is_not_sent_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_has_just_been_sent_is_not_sent_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_removed_job_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failed_one_rests_and_a_newer_one_does_not, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_others_help_when_it_is_on_its_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_copies_nobody_helps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whoever_will_send_tries_first, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
