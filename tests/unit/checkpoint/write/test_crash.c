/*
 * Power cuts (crash_disk.h) while a checkpoint is made, on one node and on a node that keeps
 * copies. In each state the old checkpoint exists, and the final name is either absent or names a
 * complete, valid checkpoint. Once the commit has returned, the new checkpoint exists. With frozen
 * units the new checkpoint links files of the older of two checkpoints.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/format/folder.h"
#include "lib/checkpoint/crash_disk.h"
#include "lib/checkpoint/two_nodes.h"

#define OLDER 1
#define OLD   2
#define NEW   3

/* Check the folder as a restart reads it. */
static void check_restart(struct crash *crash, bool finished)
{
    uint64_t *steps;
    size_t count;
    char path[1024];
    struct error error = {0};
    assert_int_equal(checkpoint_list(crash->replay, &steps, &count, &error), 0);
    assert_true(count == 2 || count == 3);
    assert_int_equal(steps[count - 1], OLDER);
    assert_int_equal(steps[count - 2], OLD);
    checkpoint_path(crash->replay, NEW, path);
    bool named = access(path, F_OK) == 0;
    assert_int_equal(count == 3, named); /* the name exists only with its whole content */
    if (named && sample_check(crash->replay, NEW, &error) != 0)
        fail_msg("a mixture: %s", error.text);
    assert_true(named || !finished);
    crash->present_count += named;
    free(steps);
}

static void check_all(struct crash *crash, unsigned absent_least)
{
    struct error error = {0};
    crash->check = check_restart;
    crash_everywhere(crash);
    assert_true(crash->present_count > 0 &&
                crash->state_count - crash->present_count > absent_least);
    for (uint64_t step = OLDER; step <= OLD; step++)
        if (sample_check(crash->replay, step, &error) != 0)
            fail_msg("an old one: %s", error.text);
}

static void crash_a_save(unsigned frozen)
{
    static struct crash crash;
    struct error error = {0};
    memset(&crash, 0, sizeof(crash));
    sample_frozen = frozen;
    sample_folder(crash.recorded);
    sample_folder(crash.replay);
    for (uint64_t step = OLDER; step <= OLD; step++) {
        sample_write(crash.replay, step, 1);
        sample_write(crash.recorded, step, 1);
    }
    const struct io *io = record_table(io_threads_table());
    struct checkpoint_writer *writer = sample_writer(io, 4096);
    if (sample_save(writer, io, crash.recorded, NEW, 2, &error) != 0)
        fail_msg("%s", error.text);
    checkpoint_writer_stop(writer);
    assert_int_equal(crash_count(RECORD_LINK), frozen);

    check_all(&crash, 500);
    record_done();
    sample_remove(crash.recorded);
    sample_remove(crash.replay);
    sample_frozen = 0;
}

static void test_old_or_new_after_every_crash(void **state)
{
    (void)state;
    crash_a_save(0);
}

static void test_old_or_new_with_links_between_them(void **state)
{
    (void)state;
    crash_a_save(5);
}

/* The node that keeps copies: its own share, the share that it fetches, the manifest, and the
 * name. */
static void crash_a_keeper(unsigned frozen)
{
    static struct crash crash;
    struct two_nodes nodes;
    struct error error = {0};
    memset(&crash, 0, sizeof(crash));
    sample_frozen = frozen;
    two_nodes_start(&nodes);
    strcpy(crash.recorded, nodes.folders[1]);
    sample_folder(crash.replay);
    sample_write(crash.replay, OLDER, 1);
    sample_write(crash.replay, OLD, 1);
    if (two_nodes_save(&nodes, io_threads_table(), OLDER, &error) != 0 ||
        two_nodes_save(&nodes, io_threads_table(), OLD, &error) != 0 ||
        two_nodes_save(&nodes, record_table(io_threads_table()), NEW, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(crash_count(RECORD_LINK), frozen);
    check_all(&crash, 50);
    record_done();
    two_nodes_stop(&nodes);
    sample_remove(crash.replay);
    sample_frozen = 0;
}

static void test_old_or_new_on_a_node_with_copies(void **state)
{
    (void)state;
    crash_a_keeper(0);
    crash_a_keeper(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_old_or_new_after_every_crash),
        cmocka_unit_test(test_old_or_new_with_links_between_them),
        cmocka_unit_test(test_old_or_new_on_a_node_with_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
