/* Tests of the records of checkpoints that expire: by number, by scrubbing, by pins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/jobs/retention_rule.h"
#include "lib/daemon/keys.h"

#define JOB  "demo"
#define MOST 8

static struct mirror mirror;
static char folder[64];

static void path_of(uint64_t step, char ret_path[128])
{
    snprintf(ret_path, 128, "%s/step-%llu", folder, (unsigned long long)step);
}

static void mark(uint64_t step, const char *name)
{
    char path[128], file[160];
    path_of(step, path);
    snprintf(file, sizeof(file), "%s/%s", path, name);
    int descriptor = open(file, O_WRONLY | O_CREAT, 0644);
    assert_true(descriptor >= 0);
    close(descriptor);
}

static void put_record(uint64_t step, bool pinned, const char *damaged)
{
    struct checkpoint_record record = {
        .step = step, .generation = 1, .pinned = pinned, .shares = pinned ? strdup("a+b") : NULL};
    char key[KV_KEY_MAX], path[128];
    path_of(step, path);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(record.path, sizeof(record.path), "%s", path);
    snprintf(record.damaged, sizeof(record.damaged), "%s", damaged);
    snprintf(record.node, sizeof(record.node), "a");
    keys_digest(step, record.manifest_sha256);
    keys_put_tree(&mirror, keys_checkpoint(key, CLUSTER, JOB, step),
                  checkpoint_record_encode(&record));
    checkpoint_record_done(&record);
}

static struct checkpoint_marks marks_of(const void *context, const char *path)
{
    (void)context;
    return checkpoint_marks_read(path);
}

/* @wanted: the steps that expire, newest first, with a comma after each. */
static void expect_gone(struct retention_rule *retention, size_t capacity, const char *wanted)
{
    struct kv_operation operations[MOST];
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX], gone[128] = "";
    size_t count = mirror_range(&mirror, keys_job(prefix, CLUSTER, JOB, "checkpoints/"), &entries);
    retention->marks_of = marks_of;
    size_t expired = retention_rule_choose(retention, entries, count, operations, capacity);
    for (size_t i = 0; i < expired; i++) {
        assert_int_equal(operations[i].type, KV_DELETE);
        snprintf(gone + strlen(gone), sizeof(gone) - strlen(gone), "%ld,",
                 strtol(strrchr(operations[i].key, '/') + 1, NULL, 10));
    }
    assert_string_equal(gone, wanted);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/firn-retention-XXXXXX");
    assert_non_null(mkdtemp(folder));
    keys_put_registered(&mirror, "a");
    return 0;
}

static int tear_down(void **state)
{
    char command[96];
    (void)state;
    mirror_done(&mirror);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

/*
 * The newest verified checkpoint is kept beyond the two newest ones, until one of these is
 * verified.
 */
static void test_the_newest_that_is_good_stays_on_top(void **state)
{
    (void)state;
    for (uint64_t step = 10; step <= 40; step += 10)
        put_record(step, false, "");
    mark(20, CHECKPOINT_VERIFIED_NAME);
    struct retention_rule before = {.below_step = UINT64_MAX, .rule = {.keep = 2}};
    expect_gone(&before, MOST, "10,");
    assert_int_equal(before.kept_from, 30);
    assert_int_equal(before.spared_step, 20);

    mark(40, CHECKPOINT_VERIFIED_NAME);
    struct retention_rule after = {.below_step = UINT64_MAX, .rule = {.keep = 2}};
    expect_gone(&after, MOST, "20,10,");
    assert_int_equal(after.kept_from, 30);
    assert_int_equal(after.spared_step, 0);
}

static void test_later_steps_of_before_a_fall_back_are_not_looked_at(void **state)
{
    (void)state;
    for (uint64_t step = 10; step <= 40; step += 10)
        put_record(step, false, "");
    struct retention_rule retention = {.below_step = 30, .rule = {.keep = 1, .kept = 1}};
    expect_gone(&retention, MOST, "20,10,");
}

static void test_what_is_pinned_stays_and_what_is_damaged_does_not_count(void **state)
{
    (void)state;
    put_record(10, false, "");
    put_record(20, true, "");
    put_record(30, false, "");
    put_record(40, false, "a wrong bit");
    mark(30, CHECKPOINT_PIN_NAME);
    put_record(50, false, "");
    put_record(60, false, "");
    struct retention_rule two = {.below_step = UINT64_MAX, .rule = {.keep = 2}};
    expect_gone(&two, MOST, "40,10,");
    struct retention_rule three = {.below_step = UINT64_MAX, .rule = {.keep = 3}};
    expect_gone(&three, MOST, "");
}

static void test_no_more_go_at_once_than_there_is_room_for(void **state)
{
    (void)state;
    for (uint64_t step = 10; step <= 40; step += 10)
        put_record(step, false, "");
    struct retention_rule retention = {.below_step = UINT64_MAX, .rule = {.keep = 1}};
    expect_gone(&retention, 2, "30,20,");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_newest_that_is_good_stays_on_top, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_later_steps_of_before_a_fall_back_are_not_looked_at,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_what_is_pinned_stays_and_what_is_damaged_does_not_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_more_go_at_once_than_there_is_room_for, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
