/*
 * Tests of the checkpoint that a job waits for from the object store, and when the job does not
 * wait.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/checkpoint/download_choice.h"
#include "lib/daemon/keys.h"

#define JOB "demo"
#define NOW 1000

static struct mirror mirror;
static struct download_memory memory;
static struct object_record object;
static int64_t revision;

static int set_up(void **state)
{
    (void)state;
    memset(&memory, 0, sizeof(memory));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mirror_done(&mirror);
    return 0;
}

static enum download_action choose(uint64_t own_step, const char *busy_with)
{
    const struct download_view view = {.mirror = &mirror,
                                       .cluster = CLUSTER,
                                       .job = JOB,
                                       .own_step = own_step,
                                       .now_ns = NOW,
                                       .busy_with = busy_with,
                                       .memory = &memory};
    return download_choose(&view, &object, &revision);
}

static void has_failed(const char *job, uint64_t retry_at_ns)
{
    snprintf(memory.failed_job, sizeof(memory.failed_job), "%s", job);
    memory.retry_at_ns = retry_at_ns;
}

static void test_nothing_there_is_nothing_to_wait_for(void **state)
{
    (void)state;
    assert_int_equal(choose(0, ""), DOWNLOAD_GO_ON);
    keys_put_object(&mirror, JOB, 80, RECORD_UPLOADING, "a", 80);
    keys_put_object(&mirror, JOB, 120, RECORD_FAILED, "a", 120);
    assert_int_equal(choose(0, ""), DOWNLOAD_GO_ON);
    assert_int_equal(choose(0, "other"), DOWNLOAD_GO_ON);
}

static void test_the_newest_complete_one_is_taken(void **state)
{
    (void)state;
    keys_put_object(&mirror, JOB, 40, RECORD_COMPLETE, "a", 40);
    keys_put_object(&mirror, JOB, 80, RECORD_COMPLETE, "a", 80);
    keys_put_object(&mirror, JOB, 120, RECORD_UPLOADING, "a", 120);
    assert_int_equal(choose(0, ""), DOWNLOAD_BEGIN);
    assert_int_equal(object.step, 80);
    assert_int_equal(revision, 2);
    assert_int_equal(choose(0, JOB), DOWNLOAD_WAIT);
    assert_int_equal(choose(0, "other"), DOWNLOAD_QUEUED);
}

static void test_what_the_nodes_have_must_be_older(void **state)
{
    (void)state;
    keys_put_object(&mirror, JOB, 80, RECORD_COMPLETE, "a", 80);
    assert_int_equal(choose(120, ""), DOWNLOAD_GO_ON);
    assert_int_equal(choose(80, ""), DOWNLOAD_GO_ON);
    assert_int_equal(choose(79, ""), DOWNLOAD_BEGIN);
}

static void test_a_bad_one_is_passed_over(void **state)
{
    (void)state;
    keys_put_object(&mirror, JOB, 40, RECORD_COMPLETE, "a", 40);
    keys_put_object(&mirror, JOB, 80, RECORD_COMPLETE, "a", 80);
    refused_add(&memory.refused, 2, "");
    assert_int_equal(choose(0, ""), DOWNLOAD_BEGIN);
    assert_int_equal(object.step, 40);
    assert_int_equal(choose(60, ""), DOWNLOAD_GO_ON); /* now the nodes' checkpoint is newer */
    refused_add(&memory.refused, 1, "");
    assert_int_equal(choose(0, ""), DOWNLOAD_GO_ON);
    keys_put_object(&mirror, JOB, 80, RECORD_COMPLETE, "a", 80); /* uploaded again */
    assert_int_equal(choose(0, ""), DOWNLOAD_BEGIN);
    assert_int_equal(object.step, 80);
}

/* A store that is away is as unreadable as a disk that is lost. */
static void test_an_older_one_of_its_own_is_better_than_waiting(void **state)
{
    (void)state;
    keys_put_object(&mirror, JOB, 80, RECORD_COMPLETE, "a", 80);
    has_failed(JOB, NOW + 1);
    assert_int_equal(choose(40, ""), DOWNLOAD_GO_ON);
    assert_int_equal(choose(0, ""), DOWNLOAD_WAIT);
    assert_int_equal(choose(0, "other"), DOWNLOAD_QUEUED);
    has_failed(JOB, NOW);
    assert_int_equal(choose(40, ""), DOWNLOAD_BEGIN);
    assert_int_equal(choose(0, ""), DOWNLOAD_BEGIN);
    has_failed("other", NOW + 1);
    assert_int_equal(choose(40, ""), DOWNLOAD_BEGIN);
}

static void test_what_is_held_against_a_checkpoint(void **state)
{
    (void)state;
    assert_true(download_is_lost(-EBADMSG));
    assert_true(download_is_lost(-ENOENT));
    assert_false(download_is_lost(-EAGAIN));
    assert_false(download_is_lost(-ENOSPC));
    assert_false(download_is_lost(-EACCES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_there_is_nothing_to_wait_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_newest_complete_one_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_the_nodes_have_must_be_older, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_bad_one_is_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_older_one_of_its_own_is_better_than_waiting, set_up,
                                        tear_down),
        cmocka_unit_test(test_what_is_held_against_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
