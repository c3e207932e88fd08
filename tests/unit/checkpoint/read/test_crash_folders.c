/*
 * Power cuts (crash_disk.h) during a fetch of a checkpoint from an object store, an export of a
 * model, and the removal of a checkpoint by retention. In each state every folder with its final
 * name is whole, every reported folder exists, and every reported removal is done; from each state
 * the next attempt succeeds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_remove.h"
#include "checkpoint/read/export.h"
#include "checkpoint/write/retain.h"
#include "lib/calls/file_calls.h"
#include "lib/checkpoint/crash_disk.h"
#include "lib/checkpoint/store_trip.h"

#define STEP 3

static struct crash crash;
static char source[64];
static struct store_trip trip; /* of the checkpoint that all is made from */

static int set_up(void **state)
{
    (void)state;
    memset(&crash, 0, sizeof(crash));
    sample_folder(source);
    sample_folder(crash.recorded);
    sample_folder(crash.replay);
    sample_write(source, STEP, 2);
    store_trip_init(&trip, source, STEP);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    record_done();
    fake_store_reset();
    sample_remove(source);
    sample_remove(crash.recorded);
    sample_remove(crash.replay);
    return 0;
}

static void assert_whole(const char *folder)
{
    struct error error = {0};
    if (sample_check(folder, STEP, &error) != 0)
        fail_msg("%s", error.text);
}

/* ---- from an object store ---- */

static void fetch_into(const char *folder)
{
    char to[FOLDER_PATH_SIZE];
    struct error error = {0};
    checkpoint_path(folder, STEP, to);
    if (store_trip_fetch(&trip, to, &error) != 0)
        fail_msg("%s", error.text);
}

static bool has_step(const char *folder)
{
    char path[FOLDER_PATH_SIZE];
    checkpoint_path(folder, STEP, path);
    return access(path, F_OK) == 0;
}

static void check_fetched(struct crash *self, bool finished)
{
    bool named = has_step(self->replay);
    assert_true(named || !finished);
    self->present_count += named;
    if (!named && self->state_count % 8 == 0) /* each takes a while */
        fetch_into(self->replay);
    if (has_step(self->replay))
        assert_whole(self->replay);
}

static void test_fetched_whole_or_not_at_all(void **state)
{
    struct error error = {0};
    (void)state;
    if (store_trip_send(&trip, &error) != 0)
        fail_msg("%s", error.text);
    file_calls_record(crash.recorded);
    fetch_into(crash.recorded);
    file_calls_disarm();
    crash.check = check_fetched;
    crash_everywhere(&crash);
    assert_true(crash.present_count > 1 && crash.state_count > 200);
}

/* ---- a plain folder ---- */

static void export_to(const char *folder)
{
    char to[80];
    struct error error = {0};
    snprintf(to, sizeof(to), "%s/plain", folder);
    const struct checkpoint_export export = {
        .from = trip.path, .to = to, .dtype = SAFETENSORS_BF16};
    if (checkpoint_export(&export, &error) != 0)
        fail_msg("%s", error.text);
}

static void assert_same_file(const char *name)
{
    char paths[2][128];
    struct bytes contents[2] = {0};
    struct error error = {0};
    snprintf(paths[0], sizeof(paths[0]), "%s/plain/%s", crash.recorded, name);
    snprintf(paths[1], sizeof(paths[1]), "%s/plain/%s", crash.replay, name);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(file_read(paths[i], 1 << 24, &contents[i], &error), 0);
    assert_int_equal(contents[0].size_bytes, contents[1].size_bytes);
    assert_memory_equal(contents[0].data, contents[1].data, contents[0].size_bytes);
    for (unsigned i = 0; i < 2; i++)
        bytes_done(&contents[i]);
}

static void check_exported(struct crash *self, bool finished)
{
    char to[80];
    snprintf(to, sizeof(to), "%s/plain", self->replay);
    bool named = access(to, F_OK) == 0;
    assert_true(named || !finished);
    self->present_count += named;
    if (!named)
        export_to(self->replay);
    assert_same_file("model.safetensors");
    assert_same_file("config.json");
}

static void test_exported_whole_or_not_at_all(void **state)
{
    (void)state;
    file_calls_record(crash.recorded);
    export_to(crash.recorded);
    file_calls_disarm();
    crash.check = check_exported;
    crash_everywhere(&crash);
    assert_true(crash.present_count > 1 && crash.state_count > 50);
}

/* ---- retention ---- */

static void check_removed(struct crash *self, bool finished)
{
    struct error error = {0};
    bool named = has_step(self->replay);
    assert_false(named && finished);
    self->present_count += named;
    if (!named)
        return;
    assert_whole(self->replay);
    if (folder_remove_step(self->replay, STEP, &error) != 0)
        fail_msg("%s", error.text);
    assert_false(has_step(self->replay));
}

static void test_there_or_gone(void **state)
{
    char path[FOLDER_PATH_SIZE];
    struct error error = {0};
    (void)state;
    sample_write(crash.recorded, STEP, 1);
    checkpoint_path(crash.recorded, STEP, path);
    record_present(path);
    crash.began = recording.count;
    file_calls_record(crash.recorded);
    assert_int_equal(folder_remove_step(crash.recorded, STEP, &error), 0);
    file_calls_disarm();
    crash.check = check_removed;
    crash_everywhere(&crash);
    assert_true(crash.present_count > 0 && crash.state_count > 5);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fetched_whole_or_not_at_all),
        TEST(test_exported_whole_or_not_at_all),
        TEST(test_there_or_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
