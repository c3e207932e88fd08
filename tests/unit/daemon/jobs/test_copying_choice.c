/* Tests of the checkpoints whose missing copies are restored: the newest, then the pinned ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "daemon/jobs/copying_choice.h"
#include "lib/daemon/keys.h"

#define JOB "demo"

static struct mirror mirror;
static struct copying_task task;
static struct plan_copy_node copy_nodes[] = {{.node = "a"}, {.node = "b"}};
static struct plan_worker workers[] = {{.node = "a"}, {.node = "b"}};
static struct plan plan = {.checkpoints.copy_nodes = copy_nodes,
                           .checkpoints.copy_node_count = 2,
                           .layout.workers = workers,
                           .layout.worker_count = 2};

static int tear_down(void **state)
{
    (void)state;
    mirror_done(&mirror);
    checkpoint_record_done(&task.record);
    return 0;
}

static void put_pinned(uint64_t step, const char *shares)
{
    struct checkpoint_record record = {
        .step = step, .generation = 1, .pinned = true, .shares = strdup(shares)};
    char key[KV_KEY_MAX];

    keys_digest(step, record.manifest_sha256);
    snprintf(record.path, sizeof(record.path), "/ck");
    snprintf(record.node, sizeof(record.node), "a");
    keys_put_tree(&mirror, keys_checkpoint(key, CLUSTER, JOB, step),
                  checkpoint_record_encode(&record));
    checkpoint_record_done(&record);
}

static bool choose(const char *node, unsigned copies)
{
    return copying_choose(&mirror, CLUSTER, JOB, &plan, copies, node, &task);
}

static void assert_copies(const char *node, uint64_t step, const char *writer)
{
    assert_true(choose(node, 2));
    assert_int_equal(task.record.step, step);
    assert_int_equal(task.writer_count, 1);
    assert_string_equal(task.writers[0], writer);
}

static void test_the_newest_comes_first(void **state)
{
    (void)state;
    assert_false(choose("a", 2));
    keys_put_checkpoint(&mirror, JOB, 40, "a", "a+lost lost+a");
    keys_put_checkpoint(&mirror, JOB, 80, "a", "a+lost lost+b");
    assert_copies("a", 80, "lost");
    assert_copies("b", 80, "a");
    assert_false(choose("a", 1)); /* the job wants no copies */
    assert_false(choose("c", 2)); /* c has no worker */
}

static void test_of_older_ones_the_pinned(void **state)
{
    (void)state;
    put_pinned(20, "a+lost");
    keys_put_checkpoint(&mirror, JOB, 40, "a", "a+lost");
    put_pinned(60, "lost+a");
    keys_put_checkpoint(&mirror, JOB, 80, "a", "a+b b+a");
    assert_copies("b", 60, "lost");
    put_pinned(60, "lost+a+b");
    assert_copies("b", 20, "a");
    put_pinned(20, "a+lost+b");
    assert_false(choose("b", 2)); /* 40 is neither newest nor pinned */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_newest_comes_first, tear_down),
        cmocka_unit_test_teardown(test_of_older_ones_the_pinned, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
