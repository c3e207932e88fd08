/* Tests of checkpoints in the step loop: one rank alone, in a real folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/worker/tiny_state.h"

#include "base/clock.h"
#include "base/json.h"
#include "checkpoint/read/reader.h"
#include "lib/worker/plan_of_one.h"
#include "worker/checkpoint/snapshot.h"

#define PATIENCE_NS (20 * NS_PER_SECOND)

struct fixture {
    struct tiny_state tiny;
    struct plan *plan;
    struct snapshot *snapshot;
    char folder[64];
};

static int begin(void **state)
{
    static struct fixture fixture;
    struct error error = {0};
    const struct snapshot_options options = {
        .folder = fixture.folder, .node = "a", .timeout_ns = NS_PER_SECOND};

    snprintf(fixture.folder, sizeof(fixture.folder), "/tmp/firn-snapshot-XXXXXX");
    if (!mkdtemp(fixture.folder))
        return -1;
    tiny_state_init(&fixture.tiny, false);
    struct state *model = fixture.tiny.state;
    if (state_initialize(model, 0, model->unit_count, &error) ||
        snapshot_new(model, &options, &fixture.snapshot, &error))
        fail_msg("%s", error.text);
    fixture.plan = plan_of_one(model->unit_count, 1);
    *state = &fixture;
    return 0;
}

static void remove_checkpoint(const char *folder, const char *name)
{
    char path[512];
    const struct dirent *entry;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    while ((entry = readdir(directory)))
        unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    rmdir(path);
}

static int end(void **state)
{
    struct fixture *fixture = *state;
    const struct dirent *entry;

    snapshot_free(fixture->snapshot);
    plan_free(fixture->plan);
    tiny_state_done(&fixture->tiny);
    DIR *directory = opendir(fixture->folder);
    while ((entry = readdir(directory)))
        if (entry->d_name[0] != '.')
            remove_checkpoint(fixture->folder, entry->d_name);
    closedir(directory);
    return rmdir(fixture->folder);
}

static int begin_at(struct fixture *fixture, uint64_t step, struct error *error)
{
    fixture->tiny.state->applied_step = step;
    return snapshot_begin(fixture->snapshot, fixture->plan, 0, NULL, error);
}

static void await_share(struct fixture *fixture, uint64_t step)
{
    struct error error = {0};

    while (snapshot_durable_step(fixture->snapshot) != step)
        if (snapshot_poll(fixture->snapshot, clock_monotonic_ns() + PATIENCE_NS, &error))
            fail_msg("%s", error.text);
}

static int await_result(struct fixture *fixture, struct control_checkpoint *ret_result)
{
    uint64_t deadline_ns = clock_monotonic_ns() + PATIENCE_NS;
    struct error error = {0};
    int status;

    while ((status = snapshot_take_result(fixture->snapshot, ret_result, &error)) == 0 &&
           clock_monotonic_ns() < deadline_ns)
        sched_yield();
    if (status < 0)
        fail_msg("%s", error.text);
    return status;
}

static void test_checkpoint_is_of_the_boundary_where_it_began(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(control_checkpoint_done) struct control_checkpoint result = {0};
    struct manifest manifest;
    struct error error = {0};

    assert_int_equal(begin_at(fixture, 10, &error), 0);
    snapshot_release(fixture->snapshot);
    fixture->tiny.state->applied_step = 11; /* training continues, and freezes a layer */
    fixture->tiny.state->freeze.frozen_layers = 1;
    await_share(fixture, 10);
    snapshot_commit(fixture->snapshot, 10);
    assert_int_equal(await_result(fixture, &result), 1);
    assert_int_equal(result.step, 10);
    assert_int_equal(manifest_load(result.path, result.manifest_sha256, &manifest, &error), 0);
    assert_int_equal(manifest.step, 10);
    json_t *freeze = json_object_get(manifest.state, "freeze");
    assert_int_equal(json_integer_value(json_object_get(freeze, "frozen_layers")), 0);
    manifest_done(&manifest);
    fixture->tiny.state->freeze.frozen_layers = 0;
}

/*
 * This rank's share of step 10 is durable, but not every rank's, when the share of step 20 cannot
 * begin.
 */
static void test_share_that_cannot_begin_has_failed(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(control_checkpoint_done) struct control_checkpoint result = {0};
    struct error error = {0};

    assert_int_equal(begin_at(fixture, 10, &error), 0);
    await_share(fixture, 10);
    fixture->plan->job[0] = '\0'; /* no job name */
    assert_true(begin_at(fixture, 20, &error) < 0);
    assert_non_null(strstr(error.text, "step 20"));
    assert_int_equal(snapshot_failed_step(fixture->snapshot), 20);
    assert_int_equal(snapshot_durable_step(fixture->snapshot), 10);

    /* The manifest would describe the state of step 20. */
    snapshot_commit(fixture->snapshot, 10);
    assert_int_equal(snapshot_take_result(fixture->snapshot, &result, &error), 0);

    assert_true(snapshot_abandon(fixture->snapshot, 20));
    snprintf(fixture->plan->job, sizeof(fixture->plan->job), "tiny");
    assert_int_equal(begin_at(fixture, 30, &error), 0);
    await_share(fixture, 30);
    snapshot_commit(fixture->snapshot, 30);
    assert_int_equal(await_result(fixture, &result), 1);
    assert_int_equal(result.step, 30);
}

/* Another rank's share has failed, so the files that this rank is writing are removed. */
static void test_share_of_an_abandoned_checkpoint_fails_in_silence(void **state)
{
    struct fixture *fixture = *state;
    uint64_t deadline_ns = clock_monotonic_ns() + PATIENCE_NS;
    struct error error = {0};

    assert_int_equal(begin_at(fixture, 10, &error), 0);
    snapshot_release(fixture->snapshot);
    assert_true(snapshot_abandon(fixture->snapshot, 10));
    assert_false(snapshot_abandon(fixture->snapshot, 10));
    while (!snapshot_settled(fixture->snapshot) && clock_monotonic_ns() < deadline_ns)
        if (snapshot_poll(fixture->snapshot, deadline_ns, &error))
            fail_msg("%s", error.text);
    assert_true(snapshot_settled(fixture->snapshot));
    assert_int_equal(begin_at(fixture, 20, &error), 0);
    await_share(fixture, 20);
}

/*
 * Every rank reports that it is busy before a checkpoint begins: either all ranks begin one, or
 * none.
 */
static void test_rank_is_busy_until_its_share_is_written(void **state)
{
    struct fixture *fixture = *state;
    struct error error = {0};

    assert_false(snapshot_busy(fixture->snapshot));
    assert_int_equal(begin_at(fixture, 10, &error), 0);
    assert_true(snapshot_busy(fixture->snapshot));
    assert_int_equal(begin_at(fixture, 20, &error), -EBUSY);
    await_share(fixture, 10);
    assert_false(snapshot_busy(fixture->snapshot)); /* other ranks need nothing from this rank */
}

/* Another replica writes the share: the skipping rank writes nothing, and delays no other rank. */
static void test_rank_that_sits_out_writes_nothing(void **state)
{
    const bool left_out[] = {true};
    struct fixture *fixture = *state;
    struct error error = {0};

    fixture->tiny.state->applied_step = 10;
    assert_int_equal(snapshot_begin(fixture->snapshot, fixture->plan, 0, left_out, &error), 0);
    assert_true(snapshot_sits_out(fixture->snapshot));
    assert_int_equal(snapshot_durable_step(fixture->snapshot), 10);
    assert_true(snapshot_settled(fixture->snapshot));
    assert_false(snapshot_busy(fixture->snapshot));
    snapshot_release(fixture->snapshot);
    assert_int_equal(rmdir(fixture->folder), 0);
    assert_int_equal(mkdir(fixture->folder, 0700), 0);

    assert_int_equal(begin_at(fixture, 20, &error), 0);
    assert_false(snapshot_sits_out(fixture->snapshot));
    await_share(fixture, 20);
}

static void test_failure_of_the_disk_is_told_as_such(void **state)
{
    struct fixture *fixture = *state;
    uint64_t deadline_ns = clock_monotonic_ns() + PATIENCE_NS;
    struct error error = {0};

    assert_int_equal(rmdir(fixture->folder), 0); /* like an unmounted disk */
    assert_int_equal(begin_at(fixture, 10, &error), 0);
    assert_int_equal(snapshot_poll(fixture->snapshot, deadline_ns, &error), -ENODEV);
    assert_int_equal(snapshot_failed_step(fixture->snapshot), 10);
    assert_true(snapshot_unable(fixture->snapshot));
    assert_int_equal(mkdir(fixture->folder, 0700), 0);
    snapshot_abandon(fixture->snapshot, 10);
    assert_int_equal(begin_at(fixture, 20, &error), 0);
    await_share(fixture, 20);

    fixture->plan->job[0] = '\0'; /* no job name */
    assert_true(begin_at(fixture, 30, &error) < 0);
    assert_int_equal(snapshot_failed_step(fixture->snapshot), 30);
    assert_false(snapshot_unable(fixture->snapshot));
}

/*
 * Otherwise the other ranks would begin a checkpoint while the root still has to commit the last
 * one.
 */
static void test_root_of_copies_is_busy_until_they_are_committed(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(control_checkpoint_done) struct control_checkpoint result = {0};
    struct error error = {0};

    plan_of_one_keeps_copies(fixture->plan);
    assert_int_equal(begin_at(fixture, 10, &error), 0);
    await_share(fixture, 10);
    assert_true(snapshot_busy(fixture->snapshot));
    snapshot_commit(fixture->snapshot, 10);
    assert_true(snapshot_busy(fixture->snapshot));
    assert_int_equal(await_result(fixture, &result), 1);
    assert_false(snapshot_busy(fixture->snapshot));

    assert_int_equal(begin_at(fixture, 20, &error), 0); /* a checkpoint that fails */
    await_share(fixture, 20);
    assert_true(snapshot_abandon(fixture->snapshot, 20));
    assert_false(snapshot_busy(fixture->snapshot));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_checkpoint_is_of_the_boundary_where_it_began, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_share_that_cannot_begin_has_failed, begin, end),
        cmocka_unit_test_setup_teardown(test_rank_that_sits_out_writes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_failure_of_the_disk_is_told_as_such, begin, end),
        cmocka_unit_test_setup_teardown(test_share_of_an_abandoned_checkpoint_fails_in_silence,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_rank_is_busy_until_its_share_is_written, begin, end),
        cmocka_unit_test_setup_teardown(test_root_of_copies_is_busy_until_they_are_committed, begin,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
