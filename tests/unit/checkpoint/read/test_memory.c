/*
 * Fail the k-th allocation, for every k until all succeed: a save, an open with every tensor read,
 * a scrub, an export, retention, and both ways to an object store each either succeed or return
 * -ENOMEM (or lack memory only for optional work, and succeed), and leave the previous checkpoint
 * as it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/read/export.h"
#include "checkpoint/read/load.h"
#include "checkpoint/write/folder_commit.h"
#include "checkpoint/write/retain.h"
#include "lib/checkpoint/sample.h"
#include "lib/checkpoint/store_trip.h"
#include "lib/memory/fault_memory.h"

#define OLD 1
#define NEW 2

static char folder[64], old_path[FOLDER_PATH_SIZE], new_path[FOLDER_PATH_SIZE];
static struct checkpoint_writer *writer;
static struct sample sample;
static json_t *config;
static struct error failure; /* of the last thing that failed */

static int set_up(void **state)
{
    (void)state;
    sample_frozen = 2;
    sample_folder(folder);
    sample_write(folder, OLD, 1);
    checkpoint_path(folder, OLD, old_path);
    checkpoint_path(folder, NEW, new_path);
    writer = sample_writer(io_threads_table(), 65536);
    sample_init(&sample, NEW);
    config = json_pack("{s:s}", "model_type", "gpt2");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    checkpoint_writer_stop(writer);
    sample_done(&sample);
    json_decref(config);
    sample_remove(folder);
    sample_frozen = 0;
    return 0;
}

static int write_share(struct manifest *ret_part)
{
    struct checkpoint_tensor tensors[SAMPLE_TENSORS];
    struct checkpoint_share share = sample_share(&sample, folder, NEW, 0, 1, tensors);
    int status = checkpoint_writer_begin(writer, &share);
    if (status != 0)
        return status;
    status = checkpoint_writer_wait(writer, UINT64_MAX / 2, ret_part, NULL);
    return status == 1 ? 0 : status;
}

static int save(void)
{
    char path[1024], sha256[65];
    struct manifest part = {0}, manifest = {0};
    int status = write_share(&part);
    if (status == 0)
        status = manifest_merge(&manifest, &part, NULL);
    manifest.spec = json_incref(config);
    manifest.state = json_incref(config);
    if (status == 0)
        status = manifest_seal(&manifest, sample.count, NULL);
    if (status == 0)
        status = folder_commit(io_threads_table(), folder, &manifest, config, path, sha256, NULL);
    manifest_done(&part);
    manifest_done(&manifest);
    return status;
}

static void assert_good(uint64_t step)
{
    struct error error = {0};
    if (sample_check(folder, step, &error) != 0)
        fail_msg("step %d: %s", (int)step, error.text);
}

static void check_save(int result)
{
    char part[FOLDER_PATH_SIZE];
    assert_good(OLD);
    assert_int_equal(access(new_path, F_OK) == 0, result == 0);
    if (result == 0)
        assert_good(NEW);
    sample_remove(new_path);
    checkpoint_part_path(folder, NEW, 1, part);
    sample_remove(part);
}

static void test_a_save(void **state)
{
    (void)state;
    fault_memory_each(&failure, save, check_save);
}

static int open_and_read(void)
{
    static float values[8192];
    struct checkpoint_reader *reader;
    int status = checkpoint_open(old_path, &reader, &failure);
    if (status != 0)
        return status;
    for (unsigned i = 0; status == 0 && i < sample.count; i++)
        status = checkpoint_read(reader, sample.tensors[i].name, sample.tensors[i].role, values,
                                 sample.tensors[i].count, &failure);
    checkpoint_close(reader);
    return status;
}

static void test_opening_and_reading(void **state)
{
    (void)state;
    fault_memory_each(&failure, open_and_read, NULL);
}

static int open_and_load(void)
{
    static float values[SAMPLE_TENSORS][8192];
    const struct checkpoint_load_options options = {.io = io_threads_table(), .thread_count = 1};
    struct checkpoint_wish wishes[SAMPLE_TENSORS];
    struct checkpoint_reader *reader;
    int status = checkpoint_open(old_path, &reader, &failure);
    if (status != 0)
        return status;
    for (unsigned i = 0; i < sample.count; i++)
        wishes[i] = (struct checkpoint_wish){sample.tensors[i].name, sample.tensors[i].role,
                                             values[i], sample.tensors[i].count};
    status = checkpoint_load(reader, &options, wishes, sample.count, NULL, &failure);
    checkpoint_close(reader);
    return status;
}

static void test_opening_and_loading(void **state)
{
    (void)state;
    fault_memory_each(&failure, open_and_load, NULL);
}

static int scrub(void)
{
    struct checkpoint_reader *reader;
    int status = checkpoint_open(old_path, &reader, &failure);
    if (status == 0) {
        status = checkpoint_verify(reader, NULL, NULL, &failure);
        checkpoint_close(reader);
    }
    return status;
}

static void test_a_scrub(void **state)
{
    (void)state;
    fault_memory_each(&failure, scrub, NULL);
}

static int export_plain(void)
{
    char to[80];
    snprintf(to, sizeof(to), "%s/plain", folder);
    const struct checkpoint_export export = {.from = old_path, .to = to, .dtype = SAFETENSORS_BF16};
    return checkpoint_export(&export, &failure);
}

static void check_export(int result)
{
    char to[80];
    snprintf(to, sizeof(to), "%s/plain.part", folder);
    assert_int_not_equal(access(to, F_OK), 0);
    snprintf(to, sizeof(to), "%s/plain", folder);
    assert_int_equal(access(to, F_OK) == 0, result == 0);
    sample_remove(to);
    assert_good(OLD);
}

static void test_an_export(void **state)
{
    (void)state;
    fault_memory_each(&failure, export_plain, check_export);
}

/* ---- an object store ---- */

static struct store_trip trip; /* of OLD */

static void open_store(void)
{
    store_trip_init(&trip, folder, OLD);
    fake_objects.begins = fault_memory_suspend;
    fake_objects.ends = fault_memory_resume;
}

static int send_it(void)
{
    return store_trip_send(&trip, &failure);
}

static void check_store(int result)
{
    assert_int_equal(fake_store_check(), result == 0);
    open_store();
}

static void test_sending_to_a_store(void **state)
{
    (void)state;
    open_store();
    fault_memory_each(&failure, send_it, check_store);
    fake_store_reset();
}

static int fetch_it(void)
{
    char to[80];
    snprintf(to, sizeof(to), "%s/back", folder);
    return store_trip_fetch(&trip, to, &failure);
}

static void check_fetched(int result)
{
    char to[80];
    snprintf(to, sizeof(to), "%s/back", folder);
    assert_int_equal(access(to, F_OK) == 0, result == 0);
    sample_remove(to);
}

static void test_fetching_from_a_store(void **state)
{
    (void)state;
    open_store();
    assert_int_equal(send_it(), 0);
    fault_memory_each(&failure, fetch_it, check_fetched);
    fake_store_reset();
}

static int retain(void)
{
    return checkpoint_retain(folder, 1, NEW, 0, NULL);
}

static void check_newest(int result)
{
    (void)result;
    assert_good(NEW);
}

static void test_retention(void **state)
{
    (void)state;
    sample_write(folder, NEW, 1);
    fault_memory_each(&failure, retain, check_newest);
    assert_int_not_equal(access(old_path, F_OK), 0);
}

static int pin(void)
{
    return checkpoint_pin(old_path, &failure);
}

static void test_a_pin(void **state)
{
    (void)state;
    fault_memory_each(&failure, pin, NULL);
    assert_true(checkpoint_pinned(old_path));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_save),  TEST(test_opening_and_reading), TEST(test_opening_and_loading),
        TEST(test_a_scrub), TEST(test_an_export),           TEST(test_retention),
        TEST(test_a_pin),   TEST(test_sending_to_a_store),  TEST(test_fetching_from_a_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
